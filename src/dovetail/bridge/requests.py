"""The head of a request: read by a browser's rules, judged, and written anew for the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import h11

MOST_HEAD_BYTES = 32 * 1024
_NOT_PASSED_ON = frozenset(
    (
        *("connection", "keep-alive", "proxy-connection", "upgrade", "te", "trailer"),
        *("cookie", "authorization", "proxy-authorization", "host", "expect"),
    )
)


class NotHttp(Exception):
    """Nothing a browser sends."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    method: str
    target: str
    headers: Mapping[str, str]  # names in small letters; what came twice is joined
    rest: tuple[tuple[str, str], ...]  # those that the daemon gets

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def length(self) -> int:
        """Of its body; h11 has checked that it is a number."""
        return int(self.headers.get("content-length", "0"))

    @property
    def wants_events(self) -> bool:
        return "text/event-stream" in self.headers.get("accept", "")

    def anew(self, authorization: str | None) -> bytes:
        """One request a connection: what follows it is its body and nothing else."""
        lines = [f"{self.method} {self.target} HTTP/1.1", "Host: dovetail", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self.rest]
        if authorization is not None:
            lines.append(f"Authorization: {authorization}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def read_head(raw: bytes) -> RequestHead:
    """The head of a request from its bytes; `raw` ends with the empty line."""
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD_BYTES)
    try:
        http.receive_data(raw)
        found = http.next_event()
    except h11.RemoteProtocolError as error:
        raise NotHttp(str(error)) from None
    if not isinstance(found, h11.Request):
        raise NotHttp("no request")
    target = found.target.decode("latin-1")
    if not target.startswith("/"):
        raise NotHttp("it is for a proxy")
    if any(name == b"transfer-encoding" for name, _ in found.headers):
        raise NotHttp("its body has no length")
    pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in found.headers]
    headers: dict[str, str] = {}
    for name, value in pairs:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    rest = tuple([(name, value) for name, value in pairs if name not in _NOT_PASSED_ON])
    return RequestHead(found.method.decode("latin-1"), target, headers, rest)
