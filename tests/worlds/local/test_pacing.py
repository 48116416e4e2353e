"""Live, gandiva goes by steps a second: measured beside another job, and alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import cast

import pytest

from dovetail.core.entries import (
    Action,
    Event,
    JournalEntry,
    Note,
    Paced,
    Preempt,
    Resize,
    Start,
    Wake,
)
from dovetail.core.journal import encode
from dovetail.core.loop import run
from dovetail.core.model import JobId
from dovetail.core.state import State
from dovetail.policies.housekeeping import Housekeeping
from dovetail.policies.packing.policies import Gandiva
from dovetail.worlds.agent import RunId
from dovetail.worlds.pacing import PairPaces
from live_box import Box, box

RUN = RunId(JobId("1"), 1)
ACTIONS = (Note, Start, Preempt, Resize)

# A step takes the one thing there is for 20 ms. Whoever finds it taken loses as much again, as jobs do
# that throw each other's data out of a cache.
STEPS = """
import fcntl, os, sys, time
name, steps = sys.argv[1], int(sys.argv[2])
report = open(os.environ["DOVETAIL_REPORT"], "a", buffering=1)
with open(name, "w") as thing:
    for step in range(steps):
        try:
            fcntl.flock(thing, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(thing, fcntl.LOCK_EX)
            time.sleep(0.02)
        time.sleep(0.02)
        fcntl.flock(thing, fcntl.LOCK_UN)
        time.sleep(0.001)
        report.write('{"step": %d}\\n' % step)
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Box]:
    with box(tmp_path, slots=1, policy="gandiva:quantum_s=3600") as made:
        (tmp_path / "steps.py").write_text(STEPS)
        yield made


def pair(here: Box, things: tuple[str, str], steps: int) -> list[str]:
    python = [sys.executable, str(here.home.state / "steps.py")]
    jobs = [here.submit([*python, thing, str(steps)]) for thing in things]
    here.wait_until(jobs[1], "running")
    assert here.phase(jobs[0]) == "running"
    return jobs


def test_a_pair_that_slows_each_other_down_is_parted(here: Box) -> None:
    jobs = pair(here, ("one", "one"), 100_000)
    here.wait_until(jobs[1], "suspended")
    paced = [entry for entry in here.journal() if isinstance(entry, Paced)]
    told = {entry.job_id: entry.speed for entry in paced if entry.speed < 1}
    assert sorted(told) == sorted(jobs)
    assert sum(told.values()) < 1
    assert here.phase(jobs[0]) == "running"
    here.wait_for(
        lambda: here.service.look(lambda view, now: view.tracks[JobId(jobs[0])].speed) == 1
    )
    _is_decided_alike(here)


class Told:
    """A world that tells what was told before, and hears what is decided this time."""

    def __init__(self, journal: list[JournalEntry]) -> None:
        self.decided: list[Action] = []
        self._batches = [
            list(batch)
            for is_action, batch in groupby(journal, lambda e: isinstance(e, ACTIONS))
            if not is_action
        ]

    def observe(self) -> list[Event]:
        return cast(list[Event], self._batches.pop(0) if self._batches else [])

    def act(self, action: Action) -> None:
        if not isinstance(action, Wake):
            self.decided.append(action)


def _is_decided_alike(here: Box) -> None:
    """What was decided follows from what was told, here as anywhere: the loop is the same."""
    journal = here.journal()
    world = Told(journal)
    run(world, [Housekeeping(), Gandiva(quantum_s=3600.0)], State())
    decided = [entry for entry in journal if isinstance(entry, ACTIONS)]
    assert [encode(entry, 0.0) for entry in world.decided] == [
        encode(entry, 0.0) for entry in decided
    ]
    assert any(isinstance(entry, Preempt) for entry in decided)


def test_a_pair_that_does_not_hinder_each_other_stays(here: Box) -> None:
    jobs = pair(here, ("one", "other"), 220)
    rows = here.wait(*jobs)
    assert [row["phase"] for row in rows] == ["finished", "finished"]
    assert not any(isinstance(entry, Preempt) for entry in here.journal())
    alone = json.loads((here.home.folder(jobs[0]) / "alone.json").read_text())["steps_per_s"]
    assert 0 < alone < 50


def test_who_reports_nothing_is_joined_after_a_while_and_that_is_said(
    here: Box, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dovetail.worlds.pacing._KNOWN_WITHIN_S", 0.5)
    jobs = [here.submit("sleep 600") for _ in range(2)]
    for job in jobs:
        here.wait_until(job, "running")
    assert "reports no steps: whether that pays is not known" in caplog.text


def test_speed_alone_is_the_best_that_was_seen_and_is_kept_for_the_next_daemon(
    tmp_path: Path,
) -> None:
    job, nobody = JobId("1"), frozenset[JobId]()
    (tmp_path / "1").mkdir()
    paces = PairPaces(tmp_path)
    for second in range(10):  # it warms up: a step a second, then two
        paces.reported(job, RUN, nobody, float(second), float(second))
    for second in range(10, 60):
        paces.reported(job, RUN, nobody, float(second), 2.0 * second - 10)
    assert paces.alone(job) == pytest.approx(2.0, rel=0.1)
    again = PairPaces(tmp_path)
    assert again.alone(job) == paces.alone(job)
    beside = frozenset({JobId("2")})
    parts = [again.reported(job, RUN, beside, 60.0 + s, 0.5 * s) for s in range(6)]
    assert parts[:4] == [None] * 4
    assert parts[-1] == pytest.approx(0.25, rel=0.1)
