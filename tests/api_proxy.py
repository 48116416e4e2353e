"""Between a controller and its API server: notes what is written, falls silent, or forgets a watch."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from dovetail.worlds.kubernetes.config import find_access
from real_cluster import RealCluster

_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


class ApiProxy:
    """`forget_watches` ends them all; the next to come back is told 410 Gone."""

    def __init__(self, cluster: RealCluster) -> None:
        self._access = find_access(str(cluster.kubeconfig))
        self._lock = threading.Lock()
        self._writes: list[tuple[int, str, str]] = []
        self._speaks = threading.Event()
        self._speaks.set()
        self._watches: set[HTTPSConnection] = set()
        self._forgotten = 0
        self.told_gone = 0
        self.lists = 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True

    def kubeconfig(self, file: Path) -> Path:
        context = {"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}
        where = {"server": f"http://127.0.0.1:{self.server.server_port}"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": where}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [context],
            "current-context": "proxy",
        }
        file.write_text(json.dumps(config))
        return file

    def writes(self) -> list[tuple[int, str, str]]:
        """Numbered, of all but the lease."""
        with self._lock:
            return list(self._writes)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Whoever asks is not answered, until it is over."""
        self._speaks.clear()
        try:
            yield
        finally:
            self._speaks.set()

    def forget_watches(self) -> int:
        with self._lock:
            watches = list(self._watches)
            self._forgotten += len(watches)
        for connection in watches:
            with suppress(OSError, AttributeError):
                connection.sock.shutdown(2)
        return len(watches)

    # ------------------------------------------------------------------------------------ below

    def _handler(proxy) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def __getattr__(self, name: str) -> Callable[[], None]:
                if not name.startswith("do_"):  # do_GET and the like
                    raise AttributeError(name)
                return self._pass

            def _pass(self) -> None:
                with suppress(OSError, HTTPException):
                    proxy._pass(self)

            def log_message(self, *_: object) -> None:
                return

        return Handler

    def _pass(self, asked: BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers.get("Content-Length") or 0))
        self._note(asked)
        self._speaks.wait()
        is_watch = "watch=1" in asked.path
        if is_watch and self._is_forgotten():
            _answer(asked, 410, json.dumps(_GONE).encode())
            return
        access = self._access
        assert isinstance(access.tls, ssl.SSLContext)
        connection = HTTPSConnection(access.host, access.port, context=access.tls)
        names = ("Content-Type", "Accept", "User-Agent")
        headers = {name: asked.headers[name] for name in names if asked.headers[name]}
        try:
            connection.request(asked.command, asked.path, body or None, headers)
            response = connection.getresponse()
            if not is_watch:
                _answer(asked, response.status, response.read())
                return
            with self._lock:
                self._watches.add(connection)
            asked.send_response(response.status)
            asked.send_header("Connection", "close")
            asked.end_headers()
            asked.close_connection = True
            while piece := response.read1(1 << 16):
                self._speaks.wait()
                asked.wfile.write(piece)
        finally:
            with self._lock:
                self._watches.discard(connection)
            connection.close()

    def _note(self, asked: BaseHTTPRequestHandler) -> None:
        with self._lock:
            if asked.command in _WRITES and "/leases" not in asked.path:
                self._writes.append((len(self._writes), asked.command, asked.path))
            self.lists += asked.command == "GET" and "watch=1" not in asked.path

    def _is_forgotten(self) -> bool:
        with self._lock:
            if self._forgotten:
                self._forgotten -= 1
                self.told_gone += 1
                return True
            return False


def _answer(asked: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    asked.send_response(status)
    asked.send_header("Content-Type", "application/json")
    asked.send_header("Content-Length", str(len(body)))
    asked.end_headers()
    asked.wfile.write(body)


@contextmanager
def api_proxy(cluster: RealCluster) -> Iterator[ApiProxy]:
    made = ApiProxy(cluster)
    thread = threading.Thread(target=made.server.serve_forever, name="proxy", daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        made.forget_watches()
        thread.join()
