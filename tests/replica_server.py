"""A server as users have them, for the tests of services: `python replica_server.py PORT`.

It answers any method: GET / says which process it is; POST / says how long the body was; /slow?s=0.5
takes its time; /headers answers those of the request; /large answers 64 MB; /stream sends ten parts;
/twice?after=0.1 answers once more after that time; /notes announces its answer for 5 s;
/garbage sends what is not HTTP; /fail answers 500; /variant says which variant of its service it is,
after REPLICA_TAKES_<variant> seconds. A request with an `id` is noted in the file REPLICA_NOTES before
it is answered. REPLICA_UNHEALTHY=1: /health says 503.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

VARIANT = os.environ.get("DOVETAIL_VARIANT", "")
TAKES = float(os.environ.get(f"REPLICA_TAKES_{VARIANT}", "0"))


# What would forge and clear the cookies of all ports of this host.
_FORGED = {"set-cookie": "__Host-dovetail=forged", "clear-site-data": '"cookies"'}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        size = int(self.headers.get("content-length", 0))
        body = self.rfile.read(size) if size else b""
        if self.headers.get("transfer-encoding") == "chunked":
            body = self._chunks()
        query = parse_qs(url.query)
        if "id" in query and (notes := os.environ.get("REPLICA_NOTES")):
            with open(notes, "a") as file:
                file.write(f"{query['id'][0]}\n")
        if url.path == "/variant":
            time.sleep(TAKES)
            self._say(200, VARIANT.encode())
            return
        time.sleep(float(query.get("s", ["0"])[0]))
        if url.path == "/stream":
            self._stream()
        elif url.path == "/twice":
            self._twice(float(query["after"][0]))
        elif url.path == "/notes":
            self._notes()
        elif url.path == "/headers":
            self._say(200, str(self.headers).encode(), _FORGED)
        elif url.path == "/large":
            self._say(200, b"x" * 64_000_000)
        elif url.path == "/garbage":
            self.wfile.write(b"this is not HTTP\r\n\r\n")
            self.close_connection = True
        elif url.path == "/health" and os.environ.get("REPLICA_UNHEALTHY"):
            self._say(503, b"not yet")
        elif url.path == "/fail":
            self._say(500, b"it failed")
        else:
            self._say(200, f"{os.getpid()} {len(body)}".encode())

    do_POST = do_PUT = do_GET  # noqa: N815

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _say(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _notes(self) -> None:
        for _ in range(50):
            self.wfile.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            time.sleep(0.1)
        self._say(200, b"at last")

    def _twice(self, after_s: float) -> None:
        self._say(200, b"once")
        time.sleep(after_s)
        self._say(200, b"of somebody else")

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number in range(10):
            part = f"part {number}\n".encode()
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            time.sleep(0.05)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
