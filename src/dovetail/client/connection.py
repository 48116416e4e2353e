"""Speaks to the daemon: HTTP with JSON over its Unix socket, or over the network.

Written out, since every command waits for its imports: `http.client` with the mail and TLS packages
behind it takes longer to import than most commands take for all the rest. The daemon is the only
server that is spoken to, so two ways to end a body are enough: by its length, and in chunks.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any, Final, Protocol

from dovetail.core.errors import DovetailError
from dovetail.home import Home

_CREDENTIALS = struct.Struct("3i")  # process, user, group
PATIENCE_S = 90.0  # the daemon gives up on a question sooner, and says so
_CHUNK = 1 << 16
_BYTES = "octet-stream"
_LONGEST_LINE = 1 << 16
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~,")


class DaemonUnreachable(DovetailError):
    """There is no daemon, or it does not answer."""

    exit_code: Final = 69  # EX_UNAVAILABLE


class RequestRefused(DovetailError):
    """The daemon's own words."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status: Final = status


class BrokenOff(DovetailError):
    """The daemon went away in the middle of an answer."""


class Connection:
    """One request after the other, each with its answer read to the end."""

    def __init__(self, connected: socket.socket, authorization: str = "") -> None:
        self._socket: Final = connected
        self._more: Final = f"Authorization: {authorization}\r\n" if authorization else ""
        self._file: Final = self._socket.makefile("rb")
        self.headers: dict[str, str] = {}

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def ask(
        self, method: str, path: str, body: bytes | None, kind: str = "json"
    ) -> tuple[int, Iterator[bytes]]:
        """The status of the answer, and its body as it comes; `headers` are then those of it."""
        head = f"{method} {path} HTTP/1.1\r\nHost: dovetail\r\n{self._more}"
        if body is not None:
            head += f"Content-Type: application/{kind}\r\nContent-Length: {len(body)}\r\n"
        # It may answer before it has read everything, e.g. that it is too much.
        with suppress(BrokenPipeError):
            self._socket.sendall(f"{head}\r\n".encode("ascii") + (body or b""))
        status, self.headers = self._head()
        if self.headers.get("transfer-encoding") == "chunked":
            return status, self._chunks()
        return status, self._counted(int(self.headers.get("content-length", "0")))

    def _head(self) -> tuple[int, dict[str, str]]:
        first = self._line().split(" ", 2)
        if len(first) < 2 or not first[0].startswith("HTTP/1.") or not first[1].isdigit():
            raise BrokenOff("what answers there does not speak HTTP")
        headers = {}
        while line := self._line():
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(first[1]), headers

    def _line(self) -> str:
        raw = self._file.readline(_LONGEST_LINE)
        if not raw.endswith(b"\n"):
            raise BrokenOff("the daemon went away in the middle of its answer")
        return raw.decode("latin-1").rstrip("\r\n")

    def _counted(self, length: int) -> Iterator[bytes]:
        while length > 0:
            piece = self._file.read1(min(length, _CHUNK))
            if not piece:
                raise BrokenOff("the daemon went away in the middle of its answer")
            length -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        """Each is preceded by its length; the last has none."""
        while length := int(self._line(), 16):
            yield from self._counted(length)
            self._line()
        self._line()


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(raw)[1]
    return uid


class DaemonLine(Protocol):
    """The way to one daemon."""

    @property
    def called(self) -> str:
        """The daemon, in messages."""

    @property
    def doctor(self) -> str:
        """What to type, to know more."""

    @property
    def authorization(self) -> str:
        """The header; none where the system says who asks."""

    def open(self, timeout_s: float | None) -> socket.socket:
        """DaemonUnreachable: it cannot be reached, and why."""


class SocketLine:
    """To a daemon of this machine."""

    authorization: Final = ""

    def __init__(self, home: Home, named: str | None = None) -> None:
        self._home: Final = home
        self._named: Final = named  # by --home, for messages that say what to type
        self.called: Final = str(home.socket)
        self.doctor: Final = f"{_dovetail(named)} doctor"

    def open(self, timeout_s: float | None) -> socket.socket:
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        found.settimeout(timeout_s)
        try:
            found.connect(self.called)
        except OSError as error:
            found.close()
            raise DaemonUnreachable(_cannot_connect(self._home, self._named, error)) from None
        owner = peer_uid(found)
        if owner in (0, os.getuid()):
            return found
        found.close()
        raise DaemonUnreachable(
            f"{self.called} is served by user {owner}, neither you nor root: nothing is sent there"
        )


class Client:
    """One connection, made when first used and made again when it was lost."""

    def __init__(
        self,
        home: Home,
        timeout_s: float = PATIENCE_S,
        named: str | None = None,
        line: DaemonLine | None = None,
    ) -> None:
        self.home: Final = home
        self.line: Final = line or SocketLine(home, named)
        self._timeout_s: Final = timeout_s
        self._kept: Connection | None = None

    def get(self, path: str, **query: object) -> Any:
        return self._ask("GET", path + query_text(query))

    def post(self, path: str, body: Mapping[str, object] | None = None) -> Any:
        return self._ask("POST", path, body or {})

    def send(self, path: str, data: bytes, **query: object) -> Any:
        """Bytes as they are."""
        return self._ask("POST", path + query_text(query), raw=data)

    def another(self) -> Client:
        """To the same daemon, for another thread."""
        return Client(self.home, self._timeout_s, line=self.line)

    def put(self, path: str, body: Mapping[str, object]) -> Any:
        return self._ask("PUT", path, body)

    def text(self, path: str, **query: object) -> str:
        return b"".join(self.stream(path, None, **query)).decode("utf-8", "replace")

    def stream(
        self, path: str, told: Callable[[Mapping[str, str]], None] | None = None, **query: object
    ) -> Iterator[bytes]:
        """The bytes of an answer as they come, however long that takes, on a connection of its own.
        `told`: is given the headers first."""
        connection = self._connect(None)
        try:
            status, pieces = connection.ask("GET", path + query_text(query), None)
            if status >= 400:
                raise _refusal(status, b"".join(pieces))
            if told is not None:
                told(connection.headers)
            yield from pieces
        except ConnectionError:
            raise BrokenOff("the daemon went away in the middle of its answer") from None
        finally:
            connection.close()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        raw: bytes | None = None,
    ) -> Any:
        sent = raw if body is None else json.dumps(body).encode()
        if method != "GET":
            self.close()  # the daemon closes what was idle, and a change is never sent twice
        try:
            status, answer = self._exchange(method, path, sent, "json" if raw is None else _BYTES)
        except (BrokenOff, OSError):
            self.close()
            raise DaemonUnreachable(
                f"the daemon at {self.line.called} does not answer; {self.line.doctor} may say why"
            ) from None
        if status >= 400:
            raise _refusal(status, answer)
        return json.loads(answer)

    def _exchange(self, method: str, path: str, sent: bytes | None, kind: str) -> tuple[int, bytes]:
        is_new = self._kept is None
        connection = self._kept = self._kept or self._connect(self._timeout_s)
        try:
            status, pieces = connection.ask(method, path, sent, kind)
            return status, b"".join(pieces)
        except (BrokenOff, ConnectionError):
            if is_new:
                raise
        self.close()
        return self._exchange(method, path, sent, kind)

    def _connect(self, timeout_s: float | None) -> Connection:
        return Connection(self.line.open(timeout_s), self.line.authorization)


def _cannot_connect(home: Home, named: str | None, error: OSError) -> str:
    up = f"{_dovetail(named)} up"
    if home.mark.exists():
        up += " --system" if os.geteuid() == 0 else " --system (as root: ask an administrator)"
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return f"no daemon answers at {home.socket}; start one: {up}"
    if isinstance(error, PermissionError) and home.mark.exists():
        return f"the socket {home.socket} {_for_members(home.socket)}"
    if isinstance(error, PermissionError):
        return f"the socket {home.socket} is not open to you; a daemon of your own: dovetail up"
    return f"cannot reach the daemon at {home.socket} ({error.strerror or error}); try: {up}"


def _for_members(door: Path) -> str:
    import grp
    import pwd

    try:
        group, me = grp.getgrgid(door.stat().st_gid), pwd.getpwuid(os.geteuid()).pw_name
    except (KeyError, OSError):
        return "is open to its group alone; ask an administrator to be put into it"
    if me in group.gr_mem:
        return f"is open to the group {group.gr_name}; you are in it from your next login on"
    return (
        f"is open to the group {group.gr_name} alone; ask an administrator for: "
        f"usermod -aG {group.gr_name} {me}"
    )


def _dovetail(named: str | None) -> str:
    return f"dovetail --home {quote(named)}" if named else "dovetail"


def _refusal(status: int, raw: bytes) -> RequestRefused:
    try:
        return RequestRefused(status, str(json.loads(raw)["error"]))
    except (ValueError, KeyError, TypeError):
        return RequestRefused(status, f"the daemon answered {status} without saying why")


def query_text(query: Mapping[str, object]) -> str:
    """`?user=ada&limit=5`, without values that are None."""
    pairs = [f"{name}={quoted(value)}" for name, value in query.items() if value is not None]
    return f"?{'&'.join(pairs)}" if pairs else ""


def quoted(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    raw = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw)
