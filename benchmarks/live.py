"""What is promised about the daemon: how soon jobs start, how it bears ten thousand, what it costs."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dovetail.client.connection import Client
from dovetail.home import home_in

QUEUED = 10_000
REPORTS, REPORTS_A_SECOND = 10_000, 1_000
REPORTING = """
import sys, time
from dovetail import sdk
began = time.monotonic()
for step in range({number}):
    sdk.report(step, loss=1 / (step + 1))
    time.sleep(max(began + step / {rate} - time.monotonic(), 0))
"""


@contextmanager
def daemon(slots: int, policy: str = "fifo") -> Iterator[tuple[Client, Path]]:
    """A daemon of its own, by the command itself."""
    with tempfile.TemporaryDirectory(prefix="dovetail-bench-") as folder:
        home = Path(folder)
        dovetail(home, "up", "--policy", policy, "--slots", str(slots))
        try:
            with closing(Client(home_in(home))) as client:
                yield client, home
        finally:
            dovetail(home, "down", "--cancel")


def dovetail(home: Path, *arguments: str) -> float:
    """CPU seconds of one call of the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).parent / "dovetail"), "--home", str(home), *arguments]
    subprocess.run(command, check=True, capture_output=True, cwd=home)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment() -> dict[str, str]:
    """For jobs: where programs are, and these sources."""
    own = ("PATH", "PYTHONPATH")
    return {name: os.environ[name] for name in own if name in os.environ}


def temporary_folder() -> str:
    """Of one benchmark; it goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="dovetail-bench-")
    _kept.append(folder)
    return folder.name


_kept: list[tempfile.TemporaryDirectory[str]] = []


def submit(client: Client, number: int, **spec: Any) -> tuple[list[str], float]:
    """The ids, and the seconds until the answer."""
    one = {"spec": spec, "environment": {"PATH": os.environ["PATH"]}, "workdir": "/", "umask": 18}
    began = time.monotonic()
    answer = client.post("/v1/jobs", {"jobs": [one] * number})
    return answer["ids"], time.monotonic() - began


def start_s(client: Client, home: Path) -> list[float]:
    """From just before a submission until its process runs."""
    found = []
    for number in range(30):
        told = home / f"started-{number}"
        began = time.time()
        submit(
            client,
            1,
            command=["/bin/sh", "-c", f"date +%s.%N > {told}.part; mv {told}.part {told}"],
        )
        while not told.exists():
            time.sleep(0.005)
        found.append(float(told.read_text()) - began)
        time.sleep(0.1)
    return found


def at(part: float, values: Sequence[float]) -> float:
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def process_of(home: Path) -> int:
    return int(json.loads((home / "daemon.json").read_text())["pid"])


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def idle(home: Path, seconds: float = 10.0) -> float:
    """The part of a core that it uses."""
    pid = process_of(home)
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / seconds


def decisions_below(client: Client, limit_s: float) -> tuple[int, int]:
    """How many decisions took less than that, of how many."""
    below = count = 0
    for line in client.text("/metrics").splitlines():
        if line.startswith("dovetail_decision_seconds_bucket"):
            edge = line.split('le="')[1].split('"')[0]
            if edge != "+Inf" and float(edge) <= limit_s:
                below = max(below, int(float(line.split()[-1])))
        elif line.startswith("dovetail_decision_seconds_count"):
            count = int(float(line.split()[-1]))
    return below, count


def reports_taken(client: Client, home: Path) -> tuple[int, float]:
    """How many of a busy job's reports are in the journal when it has ended, and their rate."""
    script = REPORTING.format(number=REPORTS, rate=REPORTS_A_SECOND)
    (job,), _ = submit(client, 1, command=[sys.executable, "-c", script])
    while (row := client.get(f"/v1/jobs/{job}"))["ended_at"] is None:
        time.sleep(0.2)
    from dovetail.store import JournalReader

    with closing(JournalReader(home / "dovetail.db")) as reader:
        number = sum(f'"reported":"{job}"' in line for _, line in reader.lines_after(0))
    return number, number / row["run_s"]
