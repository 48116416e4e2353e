"""Speaks to the daemon: HTTP with JSON over its Unix socket. Standard library only, and no more of it
than is needed, since every command waits for its imports."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from dovetail.app.home import Home
from dovetail.core.errors import DovetailError

PATIENCE_S = 90.0  # the daemon gives up on a question sooner, and says so
_CHUNK = 1 << 16


class Unreachable(DovetailError):
    """There is no daemon, or it does not answer."""

    exit_code: Final = 69  # EX_UNAVAILABLE


class Refused(DovetailError):
    """The daemon's own words."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status: Final = status


class BrokenOff(DovetailError):
    """The daemon went away in the middle of a stream."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("dovetail", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(self.timeout)
        try:
            made.connect(self._path)
        except OSError:
            made.close()
            raise
        self.sock = made


class Client:
    """One connection, made when first used and made again when it was lost."""

    def __init__(self, home: Home, timeout_s: float = PATIENCE_S) -> None:
        self.home: Final = home
        self._timeout_s = timeout_s
        self._kept: _Connection | None = None

    def get(self, path: str, **query: object) -> Any:
        return self._ask("GET", path + query_text(query))

    def post(self, path: str, body: Mapping[str, object] | None = None) -> Any:
        return self._ask("POST", path, body or {})

    def put(self, path: str, body: Mapping[str, object]) -> Any:
        return self._ask("PUT", path, body)

    def text(self, path: str, **query: object) -> str:
        return b"".join(self.stream(path, **query)).decode("utf-8", "replace")

    def stream(self, path: str, **query: object) -> Iterator[bytes]:
        """The bytes of an answer as they come, however long that takes, on a connection of its own."""
        connection = _Connection(str(self.home.socket), None)
        try:
            answer = self._send(connection, "GET", path + query_text(query), None)
            if answer.status >= 400:
                raise _refusal(answer.status, answer.read())
            while chunk := answer.read1(_CHUNK):
                yield chunk
        except (http.client.HTTPException, ConnectionError):
            raise BrokenOff("the daemon went away in the middle of its answer") from None
        finally:
            connection.close()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        if method != "GET":
            self.close()  # the daemon closes what was idle, and a change is never sent twice
        try:
            status, raw = self._exchange(method, path, sent)
        except (ConnectionError, http.client.HTTPException, TimeoutError):
            self.close()
            raise Unreachable(
                f"the daemon at {self.home.socket} does not answer; dovetail doctor may say why"
            ) from None
        if status >= 400:
            raise _refusal(status, raw)
        return json.loads(raw)

    def _exchange(self, method: str, path: str, sent: bytes | None) -> tuple[int, bytes]:
        fresh = self._kept is None
        connection = self._kept = self._kept or _Connection(str(self.home.socket), self._timeout_s)
        try:
            answer = self._send(connection, method, path, sent)
            return answer.status, answer.read()
        except (ConnectionError, http.client.HTTPException):
            if fresh:
                raise
        self.close()
        return self._exchange(method, path, sent)

    def _send(
        self, connection: _Connection, method: str, path: str, sent: bytes | None
    ) -> http.client.HTTPResponse:
        try:
            if connection.sock is None:
                connection.connect()
        except OSError as error:
            raise Unreachable(_cannot_connect(self.home, error)) from None
        headers = {"Content-Type": "application/json"} if sent is not None else {}
        try:
            connection.request(method, path, sent, headers)
        except BrokenPipeError:
            pass  # it may have answered before it had read everything, e.g. that it is too much
        return connection.getresponse()


def _cannot_connect(home: Home, error: OSError) -> str:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return f"no daemon answers at {home.socket}; start one: dovetail up"
    if isinstance(error, PermissionError):
        return f"the socket {home.socket} is not open to you; your own daemon: dovetail up"
    return f"cannot reach the daemon at {home.socket} ({error.strerror or error}); try: dovetail up"


def _refusal(status: int, raw: bytes) -> Refused:
    try:
        return Refused(status, str(json.loads(raw)["error"]))
    except (ValueError, KeyError, TypeError):
        return Refused(status, f"the daemon answered {status} without saying why")


def query_text(query: Mapping[str, object]) -> str:
    """`?user=ada&limit=5`; what is None is left out."""
    told = {True: "true", False: "false"}
    pairs = [
        f"{name}={quote(told[value] if isinstance(value, bool) else str(value), safe=',')}"
        for name, value in query.items()
        if value is not None
    ]
    return f"?{'&'.join(pairs)}" if pairs else ""
