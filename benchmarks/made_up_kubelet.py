"""Stands for the kubelets of made-up nodes, in a process of its own: it says that bound pods run, ends
them when it is told to, and serves their logs. What it sees, and when, is written down.

Commands come on standard input, one a line, and each is answered with a line of JSON: `port`; `run` and
`hold` (bound pods run from now on, or wait); `end N` (so many end, one by one: the seconds until
the next pod was created); `churn` (from now on each ends as soon as it runs); `seen` (when pods were
created, bound and ended) and `counted` (how many).
"""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic, time
from typing import Any, Final

from dovetail.core.errors import DovetailError
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import find_access
from dovetail.worlds.kubernetes.watching import Watch

_WORKERS: Final = 4
_LOG: Final = b"epoch 1: loss 0.25\n" * 20
_WITHIN_S: Final = 60.0

Json = dict[str, Any]


class Kubelet:
    """Of all nodes."""

    def __init__(self, api: Api, is_ours: Callable[[Json], bool]) -> None:
        self._api: Final = api
        self._is_ours: Final = is_ours
        self._workers: Final = ThreadPoolExecutor(_WORKERS)
        self._made: Final[dict[str, float]] = {}
        self._bound: Final[dict[str, float]] = {}
        self._ended: Final[list[float]] = []
        self._waiting: Final[deque[Json]] = deque()
        self._running: Final[deque[Json]] = deque()
        self._changed: Final = threading.Condition()
        self._runs = self._churns = False

    # ------------------------------------------------------------------------- seen by the watch

    def listed(self, objects: Any, as_of: float) -> None:
        for thing in objects:
            self.changed(thing, False)

    def changed(self, thing: Json, is_gone: bool) -> None:
        name = thing["metadata"]["name"]
        if is_gone or not self._is_ours(thing):
            return
        with self._changed:
            if name not in self._made:
                self._made[name] = time()
                self._changed.notify_all()
            if name in self._bound or not thing["spec"].get("nodeName"):
                return
            self._bound[name] = time()
            if not self._runs:
                self._waiting.append(thing)
                return
        self._workers.submit(self._start, thing)

    # -------------------------------------------------------------------------------- what it does

    def run(self) -> Json:
        """Returns when all that were waiting run."""
        with self._changed:
            self._runs = True
            waiting, number = list(self._waiting), len(self._running)
            self._waiting.clear()
        for pod in waiting:
            self._workers.submit(self._start, pod)
        with self._changed:
            self._changed.wait_for(
                lambda: self._churns or len(self._running) >= number + len(waiting), 600.0
            )
            return {"running": len(self._running)}

    def hold(self) -> Json:
        """From now on bound pods wait."""
        self._runs = False
        return {}

    def _start(self, pod: Json) -> None:
        self._say(pod, "Running", {"running": {"startedAt": _now()}})
        with self._changed:
            churns = self._churns
            if not churns:
                self._running.append(pod)
                self._changed.notify_all()
        if churns:
            self._end(pod)

    def _end(self, pod: Json) -> None:
        done = {"exitCode": 0, "reason": "Completed", "finishedAt": _now()}
        self._say(pod, "Succeeded", {"terminated": done})
        with self._changed:
            self._ended.append(time())

    def _say(self, pod: Json, phase: str, state: Json) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        container = pod["spec"]["containers"][0]
        row = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "containerID": f"containerd://{pod['metadata']['uid'].replace('-', '')}",
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        }
        status = {"phase": phase, "podIP": "10.1.1.1", "containerStatuses": [row]}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        try:
            self._api.patch(path, {"status": status})
        except DovetailError as error:
            print(error, file=sys.stderr)

    def end(self, number: int) -> Json:
        """One after the other; each time the next pod is awaited."""
        found = []
        for _ in range(number):
            with self._changed:
                pod, known = self._running.popleft(), len(self._made)
            self._end(pod)
            began = monotonic()
            with self._changed:
                made = self._changed.wait_for(partial(self._has_more_than, known), _WITHIN_S)
            found.append(monotonic() - began if made else _WITHIN_S)
        return {"latencies": found}

    def _has_more_than(self, known: int) -> bool:
        return len(self._made) > known

    def churn(self) -> Json:
        with self._changed:
            self._churns = True
            running = list(self._running)
            self._running.clear()
        for pod in running:
            self._workers.submit(self._end, pod)
        return {"at": time()}

    def counted(self) -> Json:
        return {"made": len(self._made), "bound": len(self._bound), "ended": len(self._ended)}

    def seen(self) -> Json:
        with self._changed:
            made, bound = list(self._made.values()), list(self._bound.values())
            return {"made": made, "bound": bound, "ended": list(self._ended)}


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class _Logs(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(_LOG)))
        self.end_headers()
        self.wfile.write(_LOG)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _serve(pki: Path) -> int:
    """As a kubelet does; the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Logs)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def main() -> None:
    kubeconfig, scheduler, pki = sys.argv[1:]
    api = Api(find_access(kubeconfig))
    kubelet = Kubelet(api, lambda pod: pod["spec"].get("schedulerName") == scheduler)
    port = _serve(Path(pki))
    watch = Watch(api, "/api/v1/pods", kubelet)
    watch.list_now()
    watch.start()
    for line in sys.stdin:
        word, *numbers = line.split()
        if word == "port":
            answer: Json = {"port": port}
        else:
            answer = getattr(kubelet, word)(*map(int, numbers))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
