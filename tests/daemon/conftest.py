"""A real daemon in a process of its own, spoken to over its real socket."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from two_users import open_folder  # noqa: F401

_MAIN = """
import json, resource, sys
from pathlib import Path
folder, settings, ready = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
files = resource.RLIMIT_NOFILE
soft, hard = settings.pop("soft_files", None), settings.pop("most_files", None)
if soft or hard:  # before anything of ours is there
    resource.setrlimit(files, (soft or hard, hard or resource.getrlimit(files)[1]))
from dovetail.daemon.main import Settings
from dovetail.daemon.process import serve
from dovetail.worlds.local.making import local_world
from dovetail.home import Home, home_in
if patience_s := settings.pop("patience_s", None):
    from dovetail.daemon.http import time_limits as timed
    timed.WITHIN_S = patience_s
if name := settings.pop("dying_thread", None):
    import threading, time
    def die():
        while not (folder / "die").exists():
            time.sleep(0.05)
        raise RuntimeError("for the test")
    threading.Thread(target=die, name=name, daemon=True).start()
system = settings.pop("system", False)
if settings.pop("harmless", False):  # whatever is asked for, nothing is run
    from dovetail.daemon import submissions
    submissions.argv = lambda spec: ("/bin/true",)
home = Home(folder, folder / "dovetail.sock", system=True) if system else home_in(folder)
serve(Settings(home, **settings), local_world, ready)
"""
ENDED = ("finished", "failed", "cancelled")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("dovetail", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Live:
    """`ask` and `text` speak to it; `submit` hands in a script."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.socket = folder / "dovetail.sock"
        started_by = settings.pop("started_by", [])
        listening, telling = os.pipe()
        arguments = (str(folder), json.dumps(settings), str(telling))
        self.process = subprocess.Popen(
            [*started_by, sys.executable, "-c", _MAIN, *arguments], pass_fds=[telling]
        )
        os.close(telling)
        told, _, _ = select.select([listening], [], [], 60)
        is_up = bool(told) and os.read(listening, 1) == b"1"
        os.close(listening)
        if not is_up:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it did not start: {self.own_log()}")

    def own_log(self) -> str:
        path = self.folder / "daemon.log"
        return path.read_text() if path.exists() else ""

    def connection(self) -> http.client.HTTPConnection:
        return _UnixConnection(self.socket)

    def raw(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        connection = self.connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def try_to(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        status, answer = self.raw(method, path, data, **{"content-type": "application/json"})
        return status, json.loads(answer)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.try_to(method, path, body)
        assert status in (200, 201), answer
        return answer

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def text(self, path: str) -> str:
        status, answer = self.raw("GET", path)
        assert status == 200, answer
        return answer.decode()

    def submit(self, script: str, environment: dict[str, str] | None = None, **spec: Any) -> str:
        job = {"spec": {"run": script, **spec}, "workdir": str(self.folder)}
        job["environment"] = {"PATH": os.environ["PATH"], **(environment or {})}
        answer = self.ask("POST", "/v1/jobs", {"jobs": [job]})
        return str(answer["ids"][0])

    def eventually(self, check: Callable[[], Any]) -> Any:
        return eventually(check)

    def wait_for(self, job_id: str, *phases: str) -> Any:
        return eventually(
            lambda: (row := self.get(f"/v1/jobs/{job_id}"))["phase"] in (phases or ENDED) and row
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.ask("POST", "/v1/jobs/resume", {"mine": True})
            self.ask("POST", "/v1/jobs/cancel", {"mine": True})
            live = self.folder / "runs" / "live"
            eventually(lambda: not live.exists() or not any(live.iterdir()))
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def eventually(check: Callable[[], Any], within_s: float = 60.0) -> Any:
    end = time.monotonic() + within_s
    while not (found := check()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.03)
    return found


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Live]]:
    """Starts daemons that end with the module."""
    started: list[Live] = []

    def start(folder: Path, **settings: Any) -> Live:
        live = Live(folder, {"slots": 2, **settings})
        started.append(live)
        return live

    yield start
    for live in started:
        try:
            live.close()
        finally:
            live.process.kill()
            live.process.wait()


@pytest.fixture(scope="module")
def live(start: Callable[..., Live], tmp_path_factory: pytest.TempPathFactory) -> Live:
    """One that the tests of a module share; each leaves nothing running."""
    return start(tmp_path_factory.mktemp("home"))
