"""A wall clock that was wrong, and is set: it is noticed, said, and what it told is put right."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dovetail.core.model import JobId
from dovetail.daemon import clock, upkeep
from dovetail.daemon.history.job_rows import row_of
from live_box import Box, box

YEAR = 365 * 86400.0


def set_ahead(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(clock, "wall", lambda: time.time() + seconds)


def times(here: Box, job_id: str) -> list[float]:
    row = here.job(job_id)
    return [row["submitted_at"], row["started_at"], row["ended_at"]]


def told(here: Box) -> str:
    return "\n".join(here.daemon.notices.all)


@pytest.mark.parametrize("boot", ["the same", "another"])
def test_a_clock_that_was_a_year_ahead_is_put_right_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    began = time.time()
    set_ahead(monkeypatch, YEAR)
    with box(tmp_path / "box") as here:
        first = here.submit("exit 0")
        here.wait(first)
        assert times(here, first)[0] > began + YEAR - 1
    set_ahead(monkeypatch, 0.0)
    if boot == "another":
        monkeypatch.setattr(clock, "boot_id", lambda: "another")
    with box(tmp_path / "box") as here:
        assert "the wall clock was set back by 365 d" in told(here)
        second = here.submit("exit 0")
        here.wait(second)
        for job_id in (first, second):
            assert all(began - 10 < at < time.time() + 10 for at in times(here, job_id))
        assert times(here, first)[2] <= times(here, second)[0] + 10


def test_only_what_was_noted_under_the_wrong_clock_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with box(tmp_path / "box") as here:
        first = here.submit("exit 0")
        here.wait(first)
        right = times(here, first)
    monkeypatch.setattr(clock, "YOUNG_S", 0.0)
    set_ahead(monkeypatch, YEAR)
    with box(tmp_path / "box") as here:
        assert "was set forward by 365 d" in told(here)
        second = here.submit("exit 0")
        here.wait(second)
    set_ahead(monkeypatch, 0.0)
    with box(tmp_path / "box") as here:
        assert times(here, first) == right
        assert all(right[2] <= at < time.time() + 5 for at in times(here, second))
        assert [own.job_id for own in here.daemon.reader.history()] == [second, first]


def test_a_clock_that_is_set_while_a_daemon_runs_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "EVERY_S", 0.05)
    set_ahead(monkeypatch, -YEAR)  # as after a start without a battery
    with box(tmp_path / "box") as here:
        done, runs = here.submit("exit 0"), here.submit("sleep 60")
        here.wait(done)
        here.wait_until(runs, "running")
        set_ahead(monkeypatch, 0.0)
        here.wait_for(lambda: "was set forward by 365 d" in told(here))
        assert abs(times(here, done)[2] - time.time()) < 20
        track = here.daemon.state.tracks[JobId(runs)]
        row = row_of(track, here.daemon.clock, here.daemon.state.room.nodes)
        assert abs((row.started_at or 0.0) - time.time()) < 20
