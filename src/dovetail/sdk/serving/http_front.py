"""The HTTP side: requests become calls in the line, results become answers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Event
from time import monotonic
from typing import Any, Final

from dovetail.sdk.batching.kept_answers import KeptAnswers
from dovetail.sdk.serving.calls import CallLine, Unanswered, WaitingCall

AGE = "x-dovetail-age"  # how long the gateway has had the request, in seconds
HOST: Final = os.environ.get("DOVETAIL_LISTEN", "127.0.0.1")
_LARGEST = 64 * 1024 * 1024
_MOST_CONNECTIONS = 1024


class HttpFront(ThreadingHTTPServer):
    """A thread for each connection; the gateway has few of them."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        port: int,
        line: CallLine,
        slo_s: float,
        decode: Callable[[bytes], Any],
        encode: Callable[[Any], bytes],
        kept: KeptAnswers | None = None,
    ) -> None:
        self.line: Final = line
        self.slo_s: Final = slo_s
        self.decode: Final = decode
        self.encode: Final = encode
        self.kept: Final = kept  # by the digests of bodies
        self.ready: Final = Event()
        self._room: Final = BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__((HOST, port), CallHandler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class CallHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one piece
    timeout = 120.0
    server: HttpFront

    def do_GET(self) -> None:
        if any(name in self.headers for name in ("Content-Length", "Transfer-Encoding")):
            self.close_connection = True  # a body that nobody reads must not become a request
        if self.path != "/health":
            self._tell(404, "there is GET /health, and POST with an item")
        elif self.server.ready.is_set():
            self._answer(200, b'{"ready": true}\n')
        else:
            self._tell(503, "it is warming up")

    def do_POST(self) -> None:
        try:
            self._answer(200, self._told_of(self._body()))
        except Unanswered as error:
            self._tell(error.status, str(error))

    def _told_of(self, body: bytes) -> bytes:
        kept = self.server.kept
        if kept is None:
            return self._encoded(self._result(body))
        asked = sha256(body).digest()
        told: bytes | None = kept.get(asked)
        if told is None:
            told = self._encoded(self._result(body))
            kept.keep(asked, told)
        return told

    def _result(self, body: bytes) -> Any:
        try:
            item = self.server.decode(body)
        except Exception as error:
            raise Unanswered(400, f"the body cannot be read: {error}") from None
        at = monotonic() - self._age_s()
        call = WaitingCall(item, at, at + self.server.slo_s)
        self.server.line.add(call)
        return call.result()

    def _encoded(self, result: Any) -> bytes:
        try:
            return self.server.encode(result)
        except Exception as error:
            raise Unanswered(500, f"what predict gave cannot be sent: {error}") from None

    def _age_s(self) -> float:
        try:
            return min(max(float(self.headers.get(AGE, "0")), 0.0), 3600.0)
        except ValueError:
            return 0.0

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunks()
        try:
            size = int(self.headers.get("Content-Length", "0"))
        except ValueError:
            size = -1
        return self._exactly(size)

    def _chunks(self) -> bytes:
        found = b""
        while size := self._chunk_size():
            found += self._exactly(size, len(found))
            self.rfile.readline(8)
        while self.rfile.readline(65536).strip():  # trailers
            pass
        return found

    def _chunk_size(self) -> int:
        try:
            return int(self.rfile.readline(1024).split(b";")[0], 16)
        except ValueError:
            return -1

    def _exactly(self, size: int, before: int = 0) -> bytes:
        if not 0 <= size <= _LARGEST - before:
            self.close_connection = True
            raise Unanswered(413, f"the body is not one of 0 to {_LARGEST} bytes")
        found = self.rfile.read(size)
        if len(found) < size:
            raise ConnectionError("the client has gone")
        return found

    def _tell(self, status: int, told: str) -> None:
        self._answer(status, json.dumps({"error": told}).encode() + b"\n")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """A line for each request would be the larger part of the log."""
