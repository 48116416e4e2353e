"""A job reaches its world as an order that says what, not where."""

import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.model import JobId
from dovetail.daemon.submissions import Submission
from dovetail.jobfiles.job_model import read
from dovetail.worlds.world import Order
from live_box import ME, Box, box


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with box(tmp_path_factory.mktemp("orders")) as made:
        yield made


@pytest.mark.parametrize(
    "asked",
    [
        {"command": ["true"]},
        {"run": "true", "setup": "true", "args": ["x"]},
        {"run": "true", "array": "0-1"},
        {"run": "true", "slurm": True},
        {"run": "true", "checkpoint": {"dir": "saved", "grace": 5}, "preemptible": "restart"},
    ],
)
def test_no_order_names_a_place_or_a_number_of_this_machine(
    here: Box, asked: dict[str, Any]
) -> None:
    secret, has_stdin = {"PATH": os.defpath, "SECRET": "s3cret"}, "array" not in asked
    submission = Submission(read(asked), secret, "/", stdin=has_stdin)
    job_id = JobId(here.service.submit([submission], ME)[0])
    told = repr(here.daemon.book.order_for(job_id))
    for place in (str(here.home.state), os.uname().nodename.partition(".")[0], "s3cret"):
        assert place not in told
    assert {own.name for own in fields(Order)}.isdisjoint(("uid", "gid", "groups", "log", "folder"))
    here.wait(job_id)


def test_an_order_outlives_the_daemon_that_took_it_on(tmp_path: Path) -> None:
    """What a later daemon reads is what the first one was told."""
    with box(tmp_path / "box", slots=1) as first:
        running = first.submit("sleep 1000")
        job_id = JobId(first.submit("true", setup="true", name="later"))
        told = first.daemon.book.order_for(job_id)
        first.leave()
    with box(tmp_path / "box", slots=1) as second:
        assert second.daemon.book.order_for(job_id) == told
        second.service.cancel([running], ME)
        (row,) = second.wait(job_id)
        assert row["phase"] == "finished"
