"""Real studies under a daemon of their own, and what is read from their curves afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dovetail.client.connection import Client
from dovetail.core.entries import JournalEntry, Restored, Saved
from dovetail.core.journal import decode
from dovetail.home import home_in
from dovetail.store import JournalReader

_LOOK_EVERY_S = 0.5
_DOVETAIL = "from dovetail.cli.main import main; main()"  # installed, or from its sources


@dataclass(frozen=True, slots=True)
class Point:
    """One report of one trial; `at` is seconds since the study was handed in."""

    at: float
    trial: int
    step: float
    value: float


@dataclass(frozen=True, slots=True)
class Studied:
    """What became of a study."""

    points: Sequence[Point]  # in the order of time
    startup_s: float  # from handing it in until the first trial ran
    switches: int
    reason: str
    resumed_at: Mapping[int, Sequence[float]] = field(default_factory=dict)  # by trial

    def to_target(self, target: float) -> tuple[float, int]:
        """Seconds and epochs, of all trials together, until the first report at or below it."""
        for number, point in enumerate(self.points, 1):
            if point.value <= target:
                return point.at, number
        raise SystemExit(f"the study ended before its target of {target:.6f}: {self.reason}")

    def started_over(self) -> int:
        """Epochs of all trials, had each that was resumed made those before once more."""
        again = [
            sum(point.trial == trial and point.at < at for point in self.points)
            for trial, times in self.resumed_at.items()
            for at in times
        ]
        return len(self.points) + sum(again)

    def curves(self) -> dict[int, list[float]]:
        found: dict[int, list[float]] = {}
        for point in self.points:
            found.setdefault(point.trial, []).append(point.value)
        return found


@contextmanager
def daemon(home: Path, slots: int | None, world: str = "") -> Iterator[Client]:
    """By the command, as a user would. Without slots: the GPUs of this machine, or of that world."""
    where = ["--world", world] if world else []
    seats = ["--slots", str(slots)] if slots else []
    dovetail(home, "up", "--policy", "fifo-skip", *where, *seats)
    try:
        yield Client(home_in(home))
    finally:
        dovetail(home, "down", "--cancel")


def dovetail(home: Path, *arguments: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", _DOVETAIL, "--home", str(home), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"dovetail {' '.join(arguments)} failed: {done.stderr.strip()}")


def study(
    client: Client, spec: Mapping[str, Any], environment: Mapping[str, str], limit_s: float = 600.0
) -> Studied:
    """Hand it in, wait until it is closed, and read its curves."""
    began = time.time()
    hand_in(client, spec, environment)
    wait_until_closed(client, str(spec["name"]), limit_s)
    return _studied(client.get(f"/v1/studies/{spec['name']}"), began)


def study_killed_half_way(
    home: Path, spec: Mapping[str, Any], environment: Mapping[str, str], epochs: int = 20
) -> Studied:
    """As `study`, but the daemon dies after so many epochs, and another one takes over."""
    began = time.time()
    dovetail(home, "up", "--policy", "fifo-skip", "--slots", "2")
    client, name = Client(home_in(home)), str(spec["name"])
    hand_in(client, spec, environment)
    while len(_studied(client.get(f"/v1/studies/{name}"), began).points) < epochs:
        time.sleep(_LOOK_EVERY_S)
    os.kill(json.loads((home / "daemon.json").read_text())["pid"], signal.SIGKILL)
    with daemon(home, slots=2) as client:
        wait_until_closed(client, name, limit_s=300.0)
        return _studied(client.get(f"/v1/studies/{name}"), began)


def switching_s(home: Path) -> tuple[list[float], list[float]]:
    """Seconds of each giving way and of each coming back, as the journal has them."""
    entries = _journal(home)
    away = [entry.seconds for entry in entries if isinstance(entry, Saved)]
    back = [entry.seconds for entry in entries if isinstance(entry, Restored)]
    return away, back


def suspensions(home: Path) -> int:
    """How often a trial gave way and kept its processes."""
    return sum(isinstance(entry, Saved) and bool(entry.parked) for entry in _journal(home))


def _journal(home: Path) -> list[JournalEntry]:
    with closing(JournalReader(home_in(home).journal)) as reader:
        return [decode(line) for _, line in reader.lines_after(0)]


def hand_in(
    client: Client, spec: Mapping[str, Any], environment: Mapping[str, str], workdir: str = ""
) -> None:
    said = {"spec": dict(spec), "environment": dict(environment)}
    client.post("/v1/studies", {**said, "workdir": workdir or os.getcwd(), "umask": 0o022})


def wait_until_closed(client: Client, name: str, limit_s: float) -> None:
    until = time.monotonic() + limit_s
    while (row := _row(client, name))["state"] == "open":
        if time.monotonic() > until:
            raise SystemExit(f"the study is not done after {limit_s:g} s: {row}")
        time.sleep(_LOOK_EVERY_S)


def _row(client: Client, name: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = client.get("/v1/studies")["studies"]
    return next(row for row in rows if row["name"] == name)


def _studied(page: Mapping[str, Any], began: float) -> Studied:
    later = page["opened_at"] - began  # the study's own clock begins when it is on record
    points = [
        Point(at + later, trial["number"], step, float(value))
        for trial in page["trials"]
        for step, value, at in trial["points"]
    ]
    starts = [stint[0] for trial in page["trials"] for stint in trial["stints"]]
    return Studied(
        sorted(points, key=lambda point: (point.at, point.trial)),
        min(starts, default=0.0) + later,
        page["switches"],
        page["reason"],
        {
            trial["number"]: [stint[0] + later for stint in trial["stints"][1:]]
            for trial in page["trials"]
        },
    )
