"""A daemon as a process of its own, to be killed, and started again on what it left."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dovetail.core.entries import JournalEntry
from dovetail.core.journal import decode
from dovetail.store import JournalReader
from dovetail.worlds.local.runs import ProcessRun
from waiting import until

_DAEMON = """
from pathlib import Path
from dovetail.daemon.__main__ import main
import sys
sys.exit(main([sys.argv[1]]))
"""


class Refused(Exception):
    """The daemon said no; `status` says how."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(told)
        self.status = status


class Away(Exception):
    """Nobody answers, or not any more."""


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(str(self._path))


class Daemon:
    def __init__(self, home: Path, **settings: Any) -> None:
        self.home = home
        self._settings = {"slots": 2, **settings}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, wait: bool = True) -> None:
        given = {
            "state": str(self.home),
            "socket": str(self.home / "dovetail.sock"),
            "system": False,
            **self._settings,
        }
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "said").open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _DAEMON, json.dumps(given)], stdout=said, stderr=said
            )
        if wait:
            until(self.is_up)

    def is_up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.said()
        try:
            self.ask("GET", "/v1/health")
        except Away:
            return False
        return True

    def said(self) -> str:
        return (self.home / "said").read_text(errors="replace")[-3000:]

    def ask(self, method: str, path: str, body: object = None) -> Any:
        connection = _Unix(self.home / "dovetail.sock")
        try:
            headers = {"Content-Type": "application/json"}
            text = json.dumps(body) if body is not None else None
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            told = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Away(str(error)) from None
        finally:
            connection.close()
        if answer.status >= 300:
            raise Refused(answer.status, str(told))
        return told

    def submit(self, run: str, **fields: Any) -> str:
        return str(self.submitted({"run": run, **fields})[0])

    def submitted(self, spec: Mapping[str, Any]) -> list[str]:
        environment = {"PATH": os.environ["PATH"]}
        one = {"spec": spec, "environment": environment, "workdir": "/"}
        ids: list[str] = self.ask("POST", "/v1/jobs", {"jobs": [one]})["ids"]
        return ids

    def phase(self, job_id: str) -> str:
        return str(self.ask("GET", f"/v1/jobs/{job_id}")["phase"])

    def wait_until(self, job_id: str, *phases: str) -> None:
        until(lambda: self.phase(job_id) in phases)

    def notices(self) -> str:
        return "\n".join(self.ask("GET", "/v1/health")["notices"])

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)

    def run(self, job_id: str, number: int = 1) -> ProcessRun:
        return ProcessRun(self.home / "runs" / job_id / str(number))

    def journal(self) -> list[tuple[float, JournalEntry]]:
        with JournalReader(self.home / "dovetail.db") as reader:
            lines = [line for _, line in reader.lines_after(0)]
        return [(json.loads(line)["at"], decode(line)) for line in lines]

    def end_all(self) -> None:
        """Whatever of its jobs still runs, whether the journal knows it or not."""
        for keeper in (self.home / "runs").glob("*/*/keeper.json"):
            pid = ProcessRun(keeper.parent).main_pid()
            if pid is not None:
                os.killpg(pid, signal.SIGKILL)


@contextmanager
def killed_daemon(home: Path, **settings: Any) -> Iterator[Daemon]:
    made = Daemon(home, **settings)
    try:
        yield made
    finally:
        made.stop()
        made.end_all()


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory where possible: kills are what is tried, not the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)
