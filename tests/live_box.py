"""A real daemon inside the test's own process, with real jobs on processor slots."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dovetail.api.wire import plain
from dovetail.core.entries import JournalEntry
from dovetail.core.journal import decode
from dovetail.daemon.main import Daemon, MakeWorld
from dovetail.daemon.settings import DaemonSettings
from dovetail.daemon.submissions import Submission
from dovetail.daemon.users.callers import caller_of
from dovetail.home import home_in
from dovetail.jobfiles.job_model import read
from dovetail.worlds.local.making import local_world
from waiting import LONG_S, until

ME = caller_of(os.getuid(), os.getuid())


class Box:
    def __init__(self, folder: Path, world: MakeWorld = local_world, **settings: Any) -> None:
        self.home = home_in(folder)
        self.daemon = Daemon(DaemonSettings(self.home, **{"slots": 2, **settings}), world)
        self.service = self.daemon.service
        self._thread = threading.Thread(target=self.daemon.run)
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self.daemon.stop_and_end_jobs()
        self._leave()

    def leave(self) -> None:
        """The daemon stops, the jobs go on."""
        self.daemon.stop()
        self._leave()

    def _leave(self) -> None:
        self._thread.join(LONG_S)
        self.daemon.reader.close()

    def submit(self, run: str | list[str], **fields: Any) -> str:
        """A shell script, or a command as a list."""
        what = {"run": run} if isinstance(run, str) else {"command": run}
        environment = {"PATH": os.environ["PATH"], **fields.pop("environment", {})}
        submission = Submission(read({**what, **fields}), environment, str(self.home.state))
        return self.service.submit([submission], ME)[0]

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = plain(self.service.job(job_id))
        return found

    def log(self, job_id: str) -> str:
        path = self.home.folder(job_id) / "log"
        return path.read_text() if path.exists() else ""

    def wait_for(self, what: Callable[[], object], seconds: float = LONG_S) -> None:
        until(what, seconds)

    def phase(self, job_id: str) -> str:
        return str(self.job(job_id)["phase"])

    def wait_until(self, job_id: str, phase: str, seconds: float = LONG_S) -> dict[str, Any]:
        try:
            self.wait_for(lambda: self.phase(job_id) == phase, seconds)
        except AssertionError:
            raise AssertionError(f"not {phase} but {self.job(job_id)}") from None
        return self.job(job_id)

    def wait(self, *ids: str, seconds: float = LONG_S) -> list[dict[str, Any]]:
        """Until they have ended."""
        ended = ("finished", "failed", "cancelled")
        self.wait_for(lambda: all(self.phase(job_id) in ended for job_id in ids), seconds)
        return [self.job(job_id) for job_id in ids]

    def journal(self) -> list[JournalEntry]:
        return [decode(line) for _, line in self.daemon.reader.lines_after(0)]


@contextmanager
def box(folder: Path, **settings: Any) -> Iterator[Box]:
    made = Box(folder, **settings)
    try:
        yield made
    finally:
        made.close()
