"""Real jobs on slots that an administrator closes: they go on elsewhere, and whoever follows runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.core.entries import Saved, Start
from live_box import ME, Box, box


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Box]:
    with box(tmp_path) as made:
        yield made


def test_a_job_on_a_slot_to_be_vacated_goes_on_on_a_free_one(here: Box) -> None:
    """It is preempted and started again by one decision."""
    job = here.submit("until [ -e end ]; do echo x; sleep 0.05; done", workdir=str(here.home.state))
    here.wait_until(job, "running")
    here.wait_for(lambda: here.log(job))
    here.service.close_gpus(["0"], ME, "its fan", vacate=True)
    here.wait_for(lambda: len(starts(here, job)) == 2)
    here.wait_until(job, "running")
    assert [start.placement.slices[0].mask for start in starts(here, job)] == [0b01, 0b10]
    assert [e.parked for e in here.journal() if isinstance(e, Saved)] == [True]
    here.service.open_gpus(["0"], ME)
    (row,) = here.wait(here.submit("true"))
    assert row["phase"] == "finished", "the slot that was vacated is free"
    (here.home.state / "end").touch()
    (row,) = here.wait(job)
    assert (row["phase"], row["attempts"]) == ("finished", 1)


def starts(here: Box, job_id: str) -> list[Start]:
    return [e for e in here.journal() if isinstance(e, Start) and e.job_id == job_id]
