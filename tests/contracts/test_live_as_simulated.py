"""The same policy decides the same, whether jobs are simulated or real processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, pairwise
from math import inf
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

from dovetail.core.entries import Action, Finished, JournalEntry, Preempt, Start, Submitted
from dovetail.core.loop import Policy
from dovetail.core.model import Estimate, Job, JobId, Node
from dovetail.core.view import View
from dovetail.daemon.active_policy import make
from dovetail.models.workload import Arrival
from dovetail.testing import Run, World, run_world
from live_box import Box, box

JOBS, SLOTS = 40, 4
TICK_S = 0.05
POLICY = "srtf:predictor=user-estimate"
# Counted work: a job that is stopped meanwhile has as much left as before.
WORK = "import time\nfor _ in range({ticks}): time.sleep(0.05)"
APART_S = 0.3  # between any two things that happen
PREEMPTIONS = 7  # at least, as simulated beforehand
DISTURBED_S = 0.1  # a thread that wakes that late was kept from a processor
ATTEMPTS = 3
KEYS_APART_S = 0.5  # between the remaining times of any two jobs, whenever something is decided


class Watching:
    """A policy, and how close the remaining times were when it decided."""

    def __init__(self, policy: Policy, durations: Mapping[str, float]) -> None:
        self._policy, self._durations = policy, durations
        self.closest = inf

    def decide(self, view: View) -> Iterable[Action]:
        left = sorted(
            self._durations[job_id] - track.executed_by(view.now)
            for job_id, track in view.tracks.items()
        )
        self.closest = min([self.closest, *(b - a for a, b in pairwise(left))])
        return self._policy.decide(view)


def simulate(arrivals: Sequence[Arrival]) -> tuple[Run, float]:
    watching = Watching(make(POLICY), {a.job.id: a.work_s for a in arrivals})
    return run_world(World(arrivals, [Node("box", SLOTS)]), watching), watching.closest


def arrival(number: int, at: float, duration: float) -> Arrival:
    return Arrival(at, Job(JobId(str(number)), estimate=Estimate(duration)), duration)


def is_well_spaced(arrivals: Sequence[Arrival]) -> bool:
    run, closest = simulate(arrivals)
    times = sorted([a.at for a in arrivals] + list(run.ends_at.values()))
    return closest >= KEYS_APART_S and all(b - a >= APART_S for a, b in pairwise(times))


def workload(start_s: float, tick_s: float) -> list[tuple[float, int]]:
    """When each job comes and its ticks of work: drawn so that noise cannot change the order in
    which things happen, nor who has less left, and so that jobs do give way to one another."""
    for seed in count(5):
        rows = drawn(Random(seed), start_s, tick_s)
        arrivals = [arrival(i, at, start_s + n * tick_s) for i, (at, n) in enumerate(rows)]
        if preemptions(entry for _, entry in simulate(arrivals)[0].entries) >= PREEMPTIONS:
            return rows
    raise AssertionError("seeds do not end")


def drawn(chance: Random, start_s: float, tick_s: float) -> list[tuple[float, int]]:
    rows: list[tuple[float, int]] = []
    failed = 0
    while len(rows) < JOBS:
        last = rows[-1][0] if rows else 0.0
        ticks = chance.choice((8, 16, 30, 60, 90)) + chance.randint(0, 40)
        tried = [*rows, (last + 0.5 + 1.2 * chance.random(), ticks)]
        if is_well_spaced(
            [arrival(i, at, start_s + n * tick_s) for i, (at, n) in enumerate(tried)]
        ):
            rows, failed = tried, 0
        elif (failed := failed + 1) > 40:
            rows, failed = rows[:-3], 0  # a dead end
    return rows


def measured_alone(folder: Path) -> tuple[float, float]:
    """Seconds of a job with no ticks, and of each tick."""
    with box(folder, slots=1, policy="fifo") as here:
        short, long = [_alone(here, ticks) for ticks in (10, 60)]
    tick_s = (long - short) / 50
    return short - 10 * tick_s, tick_s


def _alone(here: Box, ticks: int) -> float:
    runs = []
    for _ in range(2):
        (row,) = here.wait(here.submit(command(ticks)))
        runs.append(row["run_s"])
    return float(min(runs))


def command(ticks: int) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", WORK.format(ticks=ticks)]


def decisions(entries: Iterable[JournalEntry]) -> list[tuple[str, str]]:
    """Who was started and stopped, in order."""
    return [
        (type(entry).__name__, str(entry.job_id))
        for entry in entries
        if isinstance(entry, Start | Preempt)
    ]


def live(
    folder: Path, rows: Sequence[tuple[float, int]], durations: Sequence[float]
) -> list[JournalEntry]:
    with box(folder, slots=SLOTS, policy=POLICY) as here:
        began, ids = time.monotonic(), []
        for (at, ticks), duration in zip(rows, durations, strict=True):
            time.sleep(max(began + at - time.monotonic(), 0.0))
            ids.append(here.submit(command(ticks), estimate=duration))
        here.wait(*ids, seconds=120)
        return here.journal()


def preemptions(entries: Iterable[JournalEntry]) -> int:
    return sum(kind == "Preempt" for kind, _ in decisions(entries))


class Stillness:
    """Whether this machine let us be: how late a thread that only sleeps was woken at worst."""

    def __enter__(self) -> Stillness:
        self.latest_s, self._over = 0.0, False
        self._thread = Thread(target=self._sleep)
        self._thread.start()
        return self

    def _sleep(self) -> None:
        while not self._over:
            began = time.monotonic()
            time.sleep(0.05)
            self.latest_s = max(self.latest_s, time.monotonic() - began - 0.05)

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()


def completion_s(submitted: Sequence[Arrival], ends: Mapping[Any, float]) -> float:
    return sum(ends[a.job.id] - a.at for a in submitted) / len(submitted)


def test_forty_jobs_start_and_stop_in_the_same_order_and_end_as_soon(tmp_path: Path) -> None:
    """On a machine that is busy with something else the order of things is left to chance: a run
    during which even a sleeping thread was kept waiting is done again."""
    for attempt in count():
        folder = tmp_path / str(attempt)
        folder.mkdir()
        start_s, tick_s = measured_alone(folder / "alone")
        rows = workload(start_s, tick_s)
        durations = [start_s + ticks * tick_s for _, ticks in rows]
        with Stillness() as stillness:
            entries = live(folder / "box", rows, durations)
        if stillness.latest_s <= DISTURBED_S or attempt == ATTEMPTS - 1:
            break
    submitted = [entry for entry in entries if isinstance(entry, Submitted)]
    arrivals = [
        Arrival(entry.at, Job(entry.job.id, estimate=Estimate(duration)), duration)
        for entry, duration in zip(submitted, durations, strict=True)
    ]
    simulated, _ = simulate(arrivals)
    assert decisions(entries) == decisions(entry for _, entry in simulated.entries)
    assert preemptions(entries) >= PREEMPTIONS - 2  # or it shows little
    ends = {entry.job_id: entry.at for entry in entries if isinstance(entry, Finished)}
    assert len(ends) == JOBS
    assert completion_s(arrivals, ends) == pytest.approx(
        completion_s(arrivals, simulated.ends_at), rel=0.05
    )
