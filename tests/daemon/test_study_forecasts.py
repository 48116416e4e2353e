"""A study is one in the line, and forecasts foresee its turns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.api.wire import plain as as_json
from dovetail.daemon.foresight.forecast import forecast
from dovetail.daemon.foresight.why import why
from live_box import Box, box
from study_box import closed, open_study, page


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Box]:
    with box(tmp_path / "box", policy="fair-share", slots=1) as made:
        yield made


def test_a_plain_job_beside_a_study_is_told_when_the_study_lets_it_start(here: Box) -> None:
    """Trials of half a second each take turns for five seconds before the first of them ends."""
    open_study(here, trials=8, steps=6, pace=0.1)
    here.wait_for(lambda: sum(len(t["points"]) for t in page(here)["trials"]) >= 8)
    plain = here.submit("true", estimate="1s")
    asked_at = time.time()
    found = forecast(here.service, [plain]).start(plain)
    assert found is not None
    here.wait_for(lambda: here.job(plain)["started_at"] is not None, 30)
    took = here.job(plain)["started_at"] - asked_at
    assert took > 1.5  # else there was nothing to foresee
    # Steps take what the machine lets them, which may be busier when asked than afterwards.
    assert 0.4 * took < found.expected - asked_at < 5 * took
    assert found.high is None or found.high - asked_at > 0.6 * took


def test_the_owners_later_job_stands_behind_the_study_and_not_behind_each_of_its_trials(
    here: Box,
) -> None:
    open_study(here, trials=20, steps=4, pace=0.1, policy="default")
    here.wait_for(lambda: page(here)["running"] == 1)
    plain = here.submit("true", estimate="1s")
    told = as_json(why(here.service, plain))
    assert told["ahead"]["number"] <= 1
    assert "place 1 in line" in told["text"] or "place 2 in line" in told["text"]
    here.wait_for(lambda: here.job(plain)["phase"] == "finished", 40)
    assert page(here)["done"] < 20  # it did not have to wait for the whole study


def test_under_fifo_a_study_is_one_of_those_ahead(tmp_path: Path) -> None:
    with box(tmp_path / "box", policy="fifo-skip", slots=1) as here:
        open_study(here, trials=9, steps=3, pace=0.05)
        here.wait_for(lambda: page(here)["running"] == 1)
        plain = here.submit("true", estimate="1s")
        told = as_json(why(here.service, plain))
        assert told["ahead"]["number"] == 1
        assert told["ahead"]["why"] == "1 study submitted earlier"
        closed(here)
