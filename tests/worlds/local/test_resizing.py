"""A running job goes on with more or fewer slots: it saves itself, and nothing is done twice."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.entries import (
    Finished,
    Reported,
    Resize,
    Restored,
    Saved,
    Started,
    Stayed,
    Woke,
)
from dovetail.core.model import JobId, Placement, Slice
from live_box import Box, box

# Counts to a number, a step at a time; what is done is in its checkpoint.
COUNTS = """
import os, sys, time
from dovetail import sdk
total, done = int(sys.argv[1]), sdk.checkpoint_dir() / "done"
first = int(done.read_text()) if done.exists() else 0
print("gpus", os.environ["DOVETAIL_GPUS"], "from", first, flush=True)
for step in range(first, total):
    time.sleep(0.02)
    print("step", step, flush=True)
    sdk.report(step)
    sdk.stop_if_asked(lambda: done.write_text(str(step + 1)))
"""
DEAF = """
import time
from dovetail import sdk
sdk.should_stop()
for step in range(10_000):
    sdk.report(step)
    time.sleep(0.05)
"""


def slots(mask: int) -> Placement:
    return Placement((Slice(0, mask),))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Box]:
    with box(tmp_path, slots=4, policy="fifo") as made:
        (tmp_path / "counts.py").write_text(COUNTS)
        (tmp_path / "deaf.py").write_text(DEAF)
        yield made


def submit(here: Box, script: str, *words: str, **asked: object) -> str:
    argv = [sys.executable, str(here.home.state / script), *words]
    elastic = {"min": 1, "max": 4}
    return here.submit(argv, elastic=elastic, checkpoint={"grace": 2}, **asked)


def resize(here: Box, job_id: str, mask: int) -> None:
    """As a policy decides it; in the next round the usual one goes on."""
    chosen: Any = here.daemon.chosen
    usual, decided = chosen.decide, [Resize(JobId(job_id), slots(mask))]
    chosen.decide = lambda view: [decided.pop()] if decided else usual(view)
    for _ in range(2):
        here.service.change(lambda view, now: ([Woke(now)], None))
    here.wait_for(lambda: not decided)


def at_step(here: Box, job_id: str, step: int) -> None:
    """Until it has told so many steps where it is now."""

    def is_there() -> bool:
        track = here.service.look(lambda view, now: view.tracks.get(JobId(job_id)))
        return track is None or ((track.step or 0) >= step and track.moves_from is None)

    here.wait_for(is_there)


def test_a_job_that_grows_and_shrinks_does_every_step_once(here: Box) -> None:
    job_id = submit(here, "counts.py", "150")
    for step, mask in ((10, 0b1111), (50, 0b0110), (90, 0b0111)):
        at_step(here, job_id, step)
        resize(here, job_id, mask)
    here.wait(job_id)
    lines = here.log(job_id).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("gpus")] == ["1", "4", "2", "3"]
    steps = [int(line.split()[1]) for line in lines if line.startswith("step")]
    assert steps == list(range(150))
    told = [type(e) for e in here.journal() if isinstance(e, Resize | Saved | Started | Restored)]
    assert told == [Started, *[Resize, Saved, Started, Restored] * 3]
    (ended,) = [entry for entry in here.journal() if isinstance(entry, Finished)]
    assert ended.job_id == job_id


def test_a_job_that_does_not_save_itself_in_time_goes_on_as_it_was(here: Box) -> None:
    job_id = submit(here, "deaf.py")
    at_step(here, job_id, 5)
    resize(here, job_id, 0b1111)
    here.wait_for(lambda: any(isinstance(entry, Stayed) for entry in here.journal()))
    (stayed,) = [entry for entry in here.journal() if isinstance(entry, Stayed)]
    assert stayed.reason == "asked to save itself, it went on for 2 s"
    track = here.service.look(lambda view, now: view.tracks[JobId(job_id)])
    assert track.placement == slots(0b0001)
    assert (track.resizes, track.pinned) == (0, stayed.reason)
    free = here.service.look(lambda view, now: view.room.count[0])
    assert free == 3, "what it was to have is free again"
    before = len([e for e in here.journal() if isinstance(e, Reported)])
    here.wait_for(lambda: len([e for e in here.journal() if isinstance(e, Reported)]) > before)


def test_whoever_was_given_its_slots_waits_again_if_it_stays(here: Box) -> None:
    first = submit(here, "deaf.py")
    at_step(here, first, 5)
    resize(here, first, 0b0010)
    other = here.submit(["sleep", "0.1"], resources={"gpus": 3})
    here.wait_for(lambda: any(isinstance(entry, Stayed) for entry in here.journal()))
    here.wait(other)
    assert here.phase(first) == "running"


def test_a_daemon_that_comes_later_goes_on_with_a_resize(tmp_path: Path) -> None:
    """Nobody was there when the job saved itself; it lines up again, and does the rest."""
    (tmp_path / "counts.py").write_text(COUNTS)
    with box(tmp_path, slots=4, policy="fifo") as first:
        job_id = submit(first, "counts.py", "60")
        at_step(first, job_id, 10)
        resize(first, job_id, 0b1111)
        first.leave()
    with box(tmp_path, slots=4, policy="fifo") as second:
        second.wait(job_id)
        assert second.phase(job_id) == "finished"
        lines = second.log(job_id).splitlines()
    assert [int(line.split()[1]) for line in lines if line.startswith("step")] == list(range(60))


def test_a_daemon_that_comes_later_asks_a_deaf_job_again_and_lets_it_be(tmp_path: Path) -> None:
    (tmp_path / "deaf.py").write_text(DEAF)
    with box(tmp_path, slots=4, policy="fifo") as first:
        job_id = submit(first, "deaf.py")
        at_step(first, job_id, 5)
        resize(first, job_id, 0b1111)
        first.leave()
    with box(tmp_path, slots=4, policy="fifo") as second:
        second.wait_for(lambda: any(isinstance(entry, Stayed) for entry in second.journal()))
        track = second.service.look(lambda view, now: view.tracks[JobId(job_id)])
        assert (track.placement, track.run) == (slots(0b0001), 1)
        assert second.phase(job_id) == "running"
