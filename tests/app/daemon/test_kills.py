"""The daemon is killed with SIGKILL again and again; the jobs do not notice, and nothing is lost."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dovetail.backends.store import Filter, Reader
from dovetail.core.entries import Preempt, Reported
from dovetail.core.journal import decode
from dovetail.testing import Audit
from waiting import until

KILLS, JOBS = 200, 50
DAEMON = """
from pathlib import Path
from dovetail.app.daemon.main import Settings, serve
from dovetail.app.home import home_in
serve(Settings(home_in(Path({home!r})), policy="srtf:predictor=user-estimate", slots=2))
"""
# It tells of every launch and every step, and once asks to be started again if it is that kind.
JOB = """echo "launch $DOVETAIL_STOP" >> {out}
for step in $(seq {steps}); do
  sleep {step_s}
  echo "{{\\"step\\": $step}}" >> $DOVETAIL_REPORT
done
if [ {again} = 1 ] && [ "$DOVETAIL_RESUMED" = 0 ]; then exit 75; fi
echo end >> {out}
exit {code}
"""


@dataclass(frozen=True)
class Wanted:
    name: str
    steps: int
    code: int
    again: bool
    step_s: float

    def spec(self, out: Path) -> dict[str, Any]:
        script = JOB.format(
            out=out / self.name,
            steps=self.steps,
            step_s=self.step_s,
            again=int(self.again),
            code=self.code,
        )
        return {"name": self.name, "run": script, "estimate": self.steps * self.step_s}


class Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=2)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(2)
        self.sock.connect(str(self._path))


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where possible: kills are what is tried here, not the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


def workload(chance: Random, step_s: float) -> list[Wanted]:
    return [
        Wanted(
            f"job-{i}",
            chance.choice((3, 10, 40, 110)),
            chance.choice((0, 0, 3)),
            i % 8 == 5,
            step_s,
        )
        for i in range(JOBS)
    ]


def start(home: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", DAEMON.format(home=str(home))])


def ask(home: Path, method: str, path: str, body: object = None) -> Any:
    """The answer, or None if the daemon was not there or died over it."""
    connection = Unix(home / "dovetail.sock")
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        return json.loads(answer.read()) if answer.status < 300 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def is_known(home: Path, name: str) -> bool | None:
    """Whether such a job was taken on; None if nobody answers."""
    live = ask(home, "GET", f"/v1/jobs?name={name}")
    past = ask(home, "GET", f"/v1/history?name={name}")
    if live is None or past is None:
        return None
    return bool(live["jobs"] or past["jobs"])


def submit(home: Path, job: Wanted, out: Path) -> bool:
    """As a careful user does: who got no answer looks first whether it was taken all the same."""
    known = is_known(home, job.name)
    if known is None or known:
        return bool(known)
    one = {"spec": job.spec(out), "environment": {"PATH": os.environ["PATH"]}, "workdir": "/"}
    return ask(home, "POST", "/v1/jobs", {"jobs": [one]}) is not None


def ended(home: Path) -> dict[str, dict[str, Any]]:
    with Reader(home / "dovetail.db") as reader:
        rows = [json.loads(one.row) for one in reader.history(Filter(), 10 * JOBS)]
    assert len({row["name"] for row in rows}) == len(rows), "a job ended twice"
    return {row["name"]: row for row in rows}


def test_two_hundred_kills_lose_nothing(folder: Path) -> None:
    chance = Random(11)
    home, out = folder / "home", folder / "out"
    out.mkdir()
    # On a busy machine daemons live longer, to do as much, and the jobs are longer by as much.
    pace = max(time_to_answer(home) / 0.35, 1.0)
    wanted = workload(chance, 0.1 * pace)
    waiting = list(wanted)
    for number in range(KILLS):
        daemon = start(home)
        # Now before the API is up, now while jobs are submitted and decided on.
        lasts_s = chance.random() * 0.6 + (0.05 if number % 2 else 0.5 * pace)
        dies_at = time.monotonic() + lasts_s
        while time.monotonic() < dies_at:
            is_due = waiting and number * JOBS / KILLS > JOBS - len(waiting)
            if is_due and submit(home, waiting[0], out):
                waiting.pop(0)
            time.sleep(0.03)
        assert daemon.poll() is None, (home / "daemon.log").read_text()[-2000:]
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
    daemon = start(home)
    try:
        finish(home, waiting, out)
    finally:
        daemon.terminate()
        daemon.wait(30)
    check(home, out, wanted)


def time_to_answer(home: Path) -> float:
    """How long a daemon takes from its start to its first answer. It is killed, too."""
    began = time.monotonic()
    daemon = start(home)
    until(lambda: ask(home, "GET", "/v1/jobs") is not None)
    took = time.monotonic() - began
    daemon.kill()
    daemon.wait()
    return took


def finish(home: Path, waiting: list[Wanted], out: Path) -> None:
    deadline = time.monotonic() + 400
    while waiting or len(ended(home)) < JOBS:
        assert time.monotonic() < deadline, f"{len(ended(home))} of {JOBS} have ended"
        if waiting and submit(home, waiting[0], out):
            waiting.pop(0)
        time.sleep(0.1)


def check(home: Path, out: Path, wanted: list[Wanted]) -> None:
    rows = ended(home)
    for job in wanted:
        lines = (out / job.name).read_text().split("\n")[:-1]
        launches = [line for line in lines if line.startswith("launch")]
        assert len(set(launches)) == len(launches) == 1 + job.again, (job, lines)
        assert lines.count("end") == 1, (job, lines)
        assert rows[job.name]["exit_code"] == job.code, (job, rows[job.name])
    with Reader(home / "dovetail.db") as reader:
        lines = [line for _, line in reader.lines_after(0)]
    entries = [decode(line) for line in lines]
    # Believes nothing: no GPU was ever given twice, nobody ended twice or is left over.
    Audit().read(
        (json.loads(line)["at"], entry) for line, entry in zip(lines, entries, strict=True)
    )
    steps: dict[str, list[float | None]] = {}
    for entry in entries:
        if isinstance(entry, Reported):
            steps.setdefault(entry.job_id, []).append(entry.step)
    for row in rows.values():
        job = next(job for job in wanted if job.name == row["name"])
        assert steps[row["id"]] == list(range(1, job.steps + 1)) * (1 + job.again), row
    assert sum(isinstance(entry, Preempt) for entry in entries) >= 10  # or it shows little
    with suppress(FileNotFoundError):
        assert not list((home / "runs" / "live").iterdir())
    assert not list((home / "env").iterdir())
