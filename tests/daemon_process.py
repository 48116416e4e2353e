"""A real daemon in a process of its own, spoken to over its real socket; it can be killed, and
started again on what it left."""

from __future__ import annotations

import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import daemon_forks
from daemon_forks import ForkedDaemon
from dovetail.core.entries import JournalEntry
from dovetail.core.journal import decode
from dovetail.store import JournalReader
from dovetail.worlds.kubernetes.launch_notes import LaunchNotes
from dovetail.worlds.local.runs.run import ProcessRun
from waiting import LONG_S, until

ENDED = ("finished", "failed", "cancelled")


class Refused(AssertionError):
    """The daemon said no; `status` says how."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(told)
        self.status = status


class Away(Exception):
    """Nobody answers, or not any more."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("dovetail", timeout=LONG_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class DaemonProcess:
    """`ask` and `text` speak to it; `submit` hands in a script."""

    process: ForkedDaemon | subprocess.Popen[bytes]

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.socket = folder / "dovetail.sock"
        self._started_by: list[str] = settings.pop("started_by", [])
        self._settings = {"slots": 2, **settings}
        self._listening = -1

    # ------------------------------------------------------------------------- its start and its end

    def start(self, wait: bool = True) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._listen_no_more()
        self._listening, telling = os.pipe()
        with (self.folder / "said").open("ab") as said:
            self.process = daemon_forks.start(
                self.folder, self._settings, said, telling, self._started_by
            )
        os.close(telling)
        if wait:
            self.wait_for_start()

    def wait_for_start(self) -> None:
        told, _, _ = select.select([self._listening], [], [], LONG_S)
        is_up = bool(told) and os.read(self._listening, 1) == b"1"
        self._listen_no_more()
        if not is_up:
            self.kill()
            raise AssertionError(f"it did not start: {self.own_log()}{self.said()}")

    def _listen_no_more(self) -> None:
        if self._listening >= 0:
            os.close(self._listening)
            self._listening = -1

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Its jobs go on."""
        self._listen_no_more()
        if hasattr(self, "process") and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(LONG_S)

    def close(self) -> None:
        """Its jobs end first."""
        if self.process.poll() is None:
            for service in self.get("/v1/services")["services"]:
                self.ask("POST", f"/v1/services/{service['id']}/stop")
            self.ask("POST", "/v1/jobs/resume", {"mine": True})
            self.ask("POST", "/v1/jobs/cancel", {"mine": True})
            until(lambda: not self.live_jobs())
        self.stop()

    def live_jobs(self) -> list[str]:
        """Those that may have processes, as its notes say; of pods they are in one file."""
        runs = self.folder / "runs"
        local = [note.name for note in (runs / "live").glob("*")]
        return [*local, *LaunchNotes(runs / "launches").live()]

    def end_all(self) -> None:
        """Whatever of its jobs still runs, whether the journal knows it or not."""
        for keeper in (self.folder / "runs").glob("*/*/keeper.json"):
            pid = ProcessRun(keeper.parent).main_pid()
            if pid is not None:
                os.killpg(pid, signal.SIGKILL)

    # ------------------------------------------------------------------------------ speaking to it

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
        try:
            status, answer = self.try_to(method, path, body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Away(f"{type(error).__name__}: {error}") from None
        if status >= 300:
            raise Refused(status, str(answer))
        return answer

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def text(self, path: str) -> str:
        status, answer = self.raw("GET", path)
        assert status == 200, answer
        return answer.decode()

    def notices(self) -> str:
        return "\n".join(self.get("/v1/health")["notices"])

    def submit(self, script: str, environment: Mapping[str, str] | None = None, **spec: Any) -> str:
        job = {"spec": {"run": script, **spec}, "workdir": str(self.folder)}
        job["environment"] = {"PATH": os.environ["PATH"], **(environment or {})}
        answer = self.ask("POST", "/v1/jobs", {"jobs": [job]})
        return str(answer["ids"][0])

    def phase(self, job_id: str) -> str:
        return str(self.get(f"/v1/jobs/{job_id}")["phase"])

    def wait_for(self, job_id: str, *phases: str) -> Any:
        """The job's row once it is in one of these phases, or has ended."""
        return until(
            lambda: (row := self.get(f"/v1/jobs/{job_id}"))["phase"] in (phases or ENDED) and row
        )

    # --------------------------------------------------------------------------------- what it left

    def own_log(self) -> str:
        path = self.folder / "daemon.log"
        return path.read_text() if path.exists() else ""

    def said(self) -> str:
        """What it printed, which should be nothing."""
        path = self.folder / "said"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def run(self, job_id: str, number: int = 1) -> ProcessRun:
        return ProcessRun(self.folder / "runs" / job_id / str(number))

    def journal(self) -> list[tuple[float, JournalEntry]]:
        with closing(JournalReader(self.folder / "dovetail.db")) as reader:
            lines = [line for _, line in reader.lines_after(0)]
        return [(json.loads(line)["at"], decode(line)) for line in lines]


@contextmanager
def killable_daemon(folder: Path, **settings: Any) -> Iterator[DaemonProcess]:
    """Not started yet; whatever it leaves running ends with it."""
    made = DaemonProcess(folder, **settings)
    try:
        yield made
    finally:
        made.stop()
        made.end_all()


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory where possible: kills are what is tried, not the disk."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield made
    finally:
        until(lambda: _is_removed(made))


def _is_removed(folder: Path) -> bool:
    """Keepers whose jobs were killed may still write how they ended."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
