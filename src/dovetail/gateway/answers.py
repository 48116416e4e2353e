"""What the gateway itself answers: one line of JSON that says the thing, the need, the way out."""

from __future__ import annotations

import json

import h11


class Refusal(Exception):
    """An answer of the gateway instead of a replica's. `retry_s`: when to try again."""

    def __init__(self, status: int, told: str, retry_s: int | None = None) -> None:
        super().__init__(told)
        self.status = status
        self.retry_s = retry_s

    @property
    def body(self) -> bytes:
        return json.dumps({"error": str(self)}).encode() + b"\n"

    def head(self) -> h11.Response:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self.body)).encode()),
        ]
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.retry_s is not None:
            headers.append((b"retry-after", str(self.retry_s).encode()))
        return h11.Response(status_code=self.status, headers=headers, reason=_REASONS[self.status])

    def raw(self) -> bytes:
        """For a connection of which nothing is read."""
        line = f"HTTP/1.1 {self.status} {_REASONS[self.status].decode()}\r\n"
        headers = [*self.head().headers, (b"connection", b"close")]
        rows = b"".join([name + b": " + value + b"\r\n" for name, value in headers])
        return line.encode() + rows + b"\r\n" + self.body


_REASONS = {
    400: b"Bad Request",
    401: b"Unauthorized",
    408: b"Request Timeout",
    413: b"Content Too Large",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}
