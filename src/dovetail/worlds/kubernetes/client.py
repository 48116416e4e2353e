"""The API server over plain HTTP: one connection for each thread, kept open; JSON both ways.

An answer that is not 2xx is an `ApiError` of one line; where nobody answers it is `Unreachable`. A
connection that the server closed while it was idle is opened anew once, without a word: names are
never used twice, so whoever creates or binds again is told 409.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from dovetail.core.errors import DovetailError
from dovetail.worlds.kubernetes.config import Access
from dovetail.worlds.kubernetes.wire import Reply, Wire, keep_alive

WITHIN_S: Final = 30.0
FORBIDDEN: Final = 403
CONFLICT: Final = 409
GONE: Final = 410
NOT_FOUND: Final = 404
_MERGE: Final = "application/merge-patch+json"
_LONGEST_TOLD: Final = 300
_PATH: Final = re.compile(r"(/[A-Za-z0-9][A-Za-z0-9._:-]*)+")

Json = dict[str, Any]


class Unreachable(DovetailError):
    """Nobody answered. It may have been done or not."""


class ApiError(DovetailError):
    """The server says no."""

    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code: Final = code
        self.reason: Final = reason  # in one word, for programs


def _nobody_asks() -> None:
    return None


class Api:
    """From any thread. `fence` is asked before anything is written; it raises if we may not."""

    def __init__(
        self,
        access: Access,
        fence: Callable[[], None] = _nobody_asks,
        within_s: float = WITHIN_S,
    ) -> None:
        self.access: Final = access
        self.fence = fence
        self._within_s: Final = within_s
        self._own: Final = threading.local()
        self._open: Final[set[Wire]] = set()

    # ------------------------------------------------------------------------------------- verbs

    def get(self, path: str, **query: object) -> Json:
        return self._asked("GET", path, query=query)

    def pieces(self, path: str, **query: object) -> Iterator[bytes]:
        """An answer that is no JSON and may be long, such as a log that is not followed. To be read to
        its end by who asked, before asking anything else."""
        with self._answered("GET", self._url(path, query), b"", self._headers()) as response:
            if response.status >= 300:
                raise _told(response.status, response.read(), "GET", path)
            yield from response.pieces()

    def create(self, path: str, body: Json, **query: object) -> Json:
        self.fence()
        return self._asked("POST", path, body, query)

    def replace(self, path: str, body: Json) -> Json:
        self.fence()
        return self._asked("PUT", path, body)

    def patch(self, path: str, body: Json, kind: str = _MERGE) -> Json:
        """A merge patch, unless said otherwise."""
        self.fence()
        return self._asked("PATCH", path, body, kind=kind)

    def delete(self, path: str, grace_s: int | None = None, uid: str = "") -> Json:
        """With a uid: only if it is still that one."""
        self.fence()
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid:
            options["preconditions"] = {"uid": uid}
        return self._asked("DELETE", path, options)

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """The reply is a Status, which is why this is not left to a typed client."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self.create(f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", body)

    def close(self) -> None:
        """The connection of this thread; another is opened when one is needed."""
        wire: Wire | None = getattr(self._own, "wire", None)
        if wire is not None:
            self._own.wire = None
            self._open.discard(wire)
            wire.close()

    def close_all(self) -> None:
        """Of all threads: nobody asks any more."""
        while self._open:
            self._open.pop().close()

    # ----------------------------------------------------------------------------------- streams

    def stream(self, path: str, **query: object) -> Stream:
        """An answer that goes on, such as a watch or a log that is followed, on a connection of its
        own. Yours to close."""
        connection = self._connection(None)
        try:
            connection.request("GET", self._url(path, query), headers=self._headers())
            response = connection.getresponse()
            if response.status >= 300:
                raise _told(response.status, response.read(), "GET", path)
        except (OSError, HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from None
        except ApiError:
            connection.close()
            raise
        return Stream(connection, response, self)

    # ------------------------------------------------------------------------------------- below

    def _asked(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, object] | None = None,
        kind: str = "application/json",
    ) -> Json:
        headers = self._headers()
        data = b""
        if body is not None:
            data, headers["Content-Type"] = orjson.dumps(body), kind
        status, said = self._said(method, self._url(path, query or {}), data, headers)
        if status >= 300:
            raise _told(status, said, method, path)
        try:
            found: Json = orjson.loads(said)
        except ValueError:
            raise ApiError(
                status, f"{self.access.server} does not speak JSON: {method} {path}"
            ) from None
        return found

    def _said(
        self, method: str, url: str, data: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        with self._answered(method, url, data, headers) as answer:
            return answer.status, answer.read()

    @contextmanager
    def _answered(
        self, method: str, url: str, data: bytes, headers: Mapping[str, str]
    ) -> Iterator[Reply]:
        """On the connection of this thread, which stays open if all of the answer was read."""
        answer = None
        try:
            answer = self._asked_twice(method, url, data, headers)
            yield answer
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            if answer is None or not answer.is_over:
                self.close()

    def _asked_twice(self, method: str, url: str, data: bytes, headers: Mapping[str, str]) -> Reply:
        for is_last in (False, True):
            known: Wire | None = getattr(self._own, "wire", None)
            try:
                wire = known or self._wire()
                return wire.ask(method, url, headers, data)
            except (OSError, HTTPException) as error:
                self.close()
                if is_last or known is None or isinstance(error, TimeoutError):
                    raise
        raise AssertionError

    def _wire(self) -> Wire:
        access = self.access
        wire = self._own.wire = Wire(access.host, access.port, access.tls, self._within_s)
        self._open.add(wire)
        return wire

    def _connection(self, timeout_s: float | None) -> HTTPConnection:
        access = self.access
        if access.tls is not None:
            return _Https(access.host, access.port, timeout=timeout_s, context=access.tls)
        return _Http(access.host, access.port, timeout=timeout_s)

    def _url(self, path: str, query: Mapping[str, object]) -> str:
        """Names become parts of paths: one that could lead elsewhere is a mistake of ours."""
        if _PATH.fullmatch(path) is None:
            raise ApiError(0, f"{path!r} is no path of the API server")
        asked = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{self.access.prefix}{path}{'?' + urlencode(asked) if asked else ''}"

    def _headers(self) -> dict[str, str]:
        return {"Accept": "application/json", "User-Agent": "dovetail", **self.access.headers()}

    def _unreachable(self, error: Exception) -> Unreachable:
        told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        told = told or type(error).__name__
        return Unreachable(f"the API server {self.access.server} cannot be reached: {told}")


class Stream:
    """Pieces of an answer as they come."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse, api: Api) -> None:
        self._connection: Final = connection
        self._response: Final = response
        self._api: Final = api
        self._socket: Final = connection.sock

    def pieces(self) -> Iterator[bytes]:
        try:
            while piece := self._response.read1(1 << 16):
                yield piece
        except (OSError, HTTPException, ValueError, AttributeError) as error:
            raise self._api._unreachable(error) from None

    def lines(self) -> Iterator[bytes]:
        """Whole ones."""
        rest = b""
        for piece in self.pieces():
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole

    def close(self) -> None:
        """From any thread: whoever reads is told that it ended."""
        try:
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._connection.close()


class _Http(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        keep_alive(self.sock)


class _Https(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        keep_alive(self.sock)


def error_of(status: Json) -> ApiError:
    """From the body of an error, or of an ERROR event in a watch."""
    message = " ".join(str(status.get("message") or "the API server gave no reason").split())
    return ApiError(
        int(status.get("code") or 0), message[:_LONGEST_TOLD], status.get("reason") or ""
    )


def _told(code: int, body: bytes, method: str, path: str) -> ApiError:
    try:
        status = orjson.loads(body)
        if isinstance(status, dict) and status.get("message"):
            return error_of({**status, "code": code})
    except ValueError:
        pass
    said = " ".join(body.decode(errors="replace").split())[:_LONGEST_TOLD]
    return ApiError(
        code, f"the API server answers {method} {path} with {code}: {said or 'nothing'}"
    )
