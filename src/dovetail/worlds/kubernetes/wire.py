"""One connection to an API server, HTTP/1.1: a request out in one piece, an answer back.

The library's own client spends most of its time on headers that nobody reads, and a controller asks a
thousand times a second.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from io import BufferedReader
from socket import SocketIO
from typing import Final

_LONGEST_LINE: Final = 1 << 16
_MOST_HEADERS: Final = 200
_PIECE: Final = 1 << 16
_EMPTY: Final = (204, 304)
_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", 10),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
)  # seconds, seconds, times


def keep_alive(sock: socket.socket | ssl.SSLSocket) -> None:
    """A server that vanishes without a word is noticed within half a minute."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Wire:
    """Of one thread. What goes wrong is an OSError or an HTTPException; then it is of no more use."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        plain = socket.create_connection((host, port), timeout_s)
        keep_alive(plain)
        self._socket: Final = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        self._file: Final = BufferedReader(SocketIO(self._socket, "r"), _PIECE)
        name = f"[{host}]" if ":" in host else host
        self._host: Final = f"Host: {name}:{port}\r\n"

    def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Nothing of an earlier answer may be left to read."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        head = f"{method} {target} HTTP/1.1\r\n{self._host}{lines}{length}\r\n"
        self._socket.sendall(head.encode("ascii") + body)
        status = 100
        while status == 100:
            status, told = self._status(), self._headers()
        return Reply(self, status, told)

    def _line(self) -> bytes:
        line = self._file.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise HTTPException("the answer breaks off, or has a line that is too long")
        return line

    def _status(self) -> int:
        line = self._file.readline(_LONGEST_LINE)
        if not line:
            raise RemoteDisconnected("the server closed the connection without an answer")
        words = line.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise BadStatusLine(line[:60].decode("latin-1"))
        return int(words[1])

    def _headers(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for _ in range(_MOST_HEADERS):
            line = self._line().strip()
            if not line:
                return found
            name, _, value = line.partition(b":")
            found[name.lower()] = value.strip().lower()
        raise HTTPException("the answer has too many headers")

    def close(self) -> None:
        """From any thread: whoever reads is told that it ended."""
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._file.close()
        self._socket.close()

    # -------------------------------------------------------------------------------------- bodies

    def sized(self, length: int) -> Iterator[bytes]:
        while length:
            piece = self._file.read(min(length, _PIECE))
            if not piece:
                raise IncompleteRead(b"", length)
            length -= len(piece)
            yield piece

    def chunked(self) -> Iterator[bytes]:
        while size := int(self._line().partition(b";")[0].strip() or b"x", 16):
            yield from self.sized(size)
            self._line()
        while self._line().strip():
            pass

    def rest(self) -> Iterator[bytes]:
        while piece := self._file.read1(_PIECE):
            yield piece


class Reply:
    """`is_over` once it was read to its end, and the connection is good for another request."""

    def __init__(self, wire: Wire, status: int, headers: Mapping[bytes, bytes]) -> None:
        self.status: Final = status
        self._wire: Final = wire
        self._headers: Final = headers
        self.is_over = False

    def pieces(self) -> Iterator[bytes]:
        wire, headers = self._wire, self._headers
        is_kept = headers.get(b"connection") != b"close"
        try:
            if self.status in _EMPTY:
                pass
            elif headers.get(b"transfer-encoding") == b"chunked":
                yield from wire.chunked()
            elif b"content-length" in headers:
                yield from wire.sized(int(headers[b"content-length"]))
            else:
                is_kept = False
                yield from wire.rest()
        except ValueError:
            raise HTTPException("the answer says no length that can be read") from None
        self.is_over = is_kept

    def read(self) -> bytes:
        return b"".join(self.pieces())
