"""A daemon that goes by a predictor that learns: it uses what it learned, also after a restart."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dovetail.core.entries import (
    Finished,
    JournalEntry,
    NodeJoined,
    NodeLeft,
    Start,
    Started,
    Submitted,
)
from dovetail.core.journal import encode
from dovetail.core.model import Job, JobId, Node, Placement, Slice
from dovetail.core.state import State
from dovetail.home import home_in
from dovetail.predict.intervals import Belief
from dovetail.store import Store
from live_box import ME, Box, box

POLICY = "qssf:predictor=mixture"
DAYS = 2.5


def past_jobs() -> Iterator[JournalEntry]:
    """Two days of jobs, one after the other: long and short ones of the same user."""
    yield NodeJoined(0.0, Node("old", 1))
    at = 0.0
    for number in range(1, 161):
        name, seconds = ("long", 1500.0) if number % 2 else ("short", 40.0)
        job = Job(JobId(f"past-{number}"), user=ME.name, name=name)
        yield Submitted(at, job)
        yield Start(job.id, Placement((Slice(0, 1),)))
        yield Started(at, job.id)
        at += seconds + number % 7
        yield Finished(at, job.id)
        at += 200.0
    yield NodeLeft(at, "old")


def with_a_past(folder: Path) -> Path:
    home = home_in(folder)
    home.state.mkdir(parents=True)
    with closing(Store.open(home.journal)) as store:
        store.set_meta("epoch", str(time.time() - DAYS * 86_400.0))
        state = State()
        for entry in past_jobs():
            state.record(entry)
            store.add(encode(entry, state.now).rstrip("\n"))
        store.commit()
    return folder


def believed(here: Box, *ids: str) -> list[Belief]:
    predictor = here.daemon.chosen.policy.predictor  # type: ignore[attr-defined]
    return here.service.look(
        lambda view, now: [predictor.belief(view.tracks[JobId(job_id)].job, view) for job_id in ids]
    )


def test_it_goes_by_what_it_learned_also_after_a_restart(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    folder = with_a_past(tmp_path / "box")
    with box(folder, slots=1, policy=POLICY) as here:
        first = here.submit("sleep 60", name="short")
        here.wait_until(first, "running")
        long, short = here.submit("true", name="long"), here.submit("true", name="short")
        said = believed(here, long, short)
        assert said[0].seconds > 600 > 120 > said[1].seconds
        assert "trees fitted to" in said[0].source
        here.leave()
    with box(folder, slots=1) as again:
        assert again.service.policy().policy == POLICY
        assert believed(again, long, short) == said
        again.service.cancel([first], ME)
        rows = again.wait(long, short)
    assert rows[1]["started_at"] < rows[0]["started_at"]


def test_a_daemon_that_needs_no_trees_loads_nothing_that_grows_them(tmp_path: Path) -> None:
    """numpy and scikit-learn take longer to load than all the rest, and memory for good."""
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from live_box import box
with box(Path({str(tmp_path)!r}), policy="qssf:predictor=recent-mean") as here:
    here.wait(here.submit("true"))
    here.submit("sleep 1")
    print(sorted({{"numpy", "sklearn", "scipy"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
