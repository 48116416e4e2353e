"""What a job reports says how fast it is where it runs, the same after a restart."""

from __future__ import annotations

import pytest

from dovetail.core.entries import Finished, NodeJoined, Preempt, Reported, Start, Started, Submitted
from dovetail.core.model import JobId, Node, Placement
from dovetail.core.paces import Pace
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.testing import job, placement

JOB = JobId("j")
TWO, FOUR = placement((0, 0b11)), placement((0, 0b1111))


def begun(here: Placement = TWO) -> State:
    state = State(past=10)
    for entry in (
        NodeJoined(0.0, Node("n0", 4, kind="H100")),
        Submitted(0.0, job("j", here.gpus, min_gpus=1, max_gpus=4)),
        Start(JOB, here),
        Started(1.0, JOB),
    ):
        state.record(entry)
    return state


def report(state: State, began: float, seconds: float, rate: float, first: float = 0.0) -> None:
    """Ten looks a second at what a job has written, of a step each `1/rate` seconds."""
    for tenth in range(1, int(seconds * 10) + 1):
        step = first + int(tenth / 10 * rate)
        state.record(Reported(began + tenth / 10, JOB, step, {}))


def test_steps_a_second_are_known_after_a_few_seconds() -> None:
    state = begun()
    report(state, 1.0, 1.5, rate=3.0)
    assert state.tracks[JOB].paces == ()
    report(state, 2.5, 10.0, rate=3.0, first=4.0)
    (pace,) = state.tracks[JOB].paces
    assert pace[:3] == ("H100", 2, 1)
    assert pace.steps_per_s == pytest.approx(3.0, rel=0.05)


def test_a_job_that_becomes_slower_is_known_to_be_slower_within_a_minute() -> None:
    state = begun()
    report(state, 1.0, 100.0, rate=8.0)
    report(state, 101.0, 45.0, rate=2.0, first=800.0)
    (pace,) = state.tracks[JOB].paces
    assert pace.steps_per_s == pytest.approx(2.0, rel=0.02)


def test_a_job_that_reports_once_a_minute_has_a_speed_too() -> None:
    state = begun()
    for minute in range(1, 8):
        state.record(Reported(60.0 * minute, JOB, minute, {}))
    (pace,) = state.tracks[JOB].paces
    assert pace.steps_per_s == pytest.approx(1 / 60)


def test_each_place_has_its_speed_and_the_first_stays_the_first() -> None:
    state = begun()
    report(state, 1.0, 10.0, rate=4.0)
    state.record(Preempt(JOB))
    state.record(Start(JOB, FOUR))
    report(state, 11.0, 5.0, rate=9.0, first=40.0)  # not at work yet, as far as is known
    state.record(Started(16.0, JOB))
    report(state, 16.0, 10.0, rate=7.0, first=40.0)
    two, four = state.tracks[JOB].paces
    assert (two.gpus, four.gpus) == (2, 4)
    assert two.steps_per_s == pytest.approx(4.0, rel=0.05)
    assert four.steps_per_s == pytest.approx(7.0, rel=0.05)


def test_a_job_that_begins_anew_is_not_measured_by_the_way_back() -> None:
    state = begun()
    report(state, 1.0, 10.0, rate=4.0)
    report(state, 11.0, 10.0, rate=4.0)
    (pace,) = state.tracks[JOB].paces
    assert pace.steps_per_s == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize("here", [placement((0, 1), share=500), placement((0, 1)).limited_to(200)])
def test_beside_others_or_under_a_power_limit_nothing_is_measured(here: Placement) -> None:
    state = State()
    for entry in (
        NodeJoined(0.0, Node("n0", 4)),
        Submitted(0.0, job("j", share=here.share)),
        Start(JOB, here),
        Started(1.0, JOB),
    ):
        state.record(entry)
    report(state, 1.0, 10.0, rate=4.0)
    assert state.tracks[JOB].paces == ()


def test_a_restart_in_the_middle_changes_nothing() -> None:
    state = begun()
    report(state, 1.0, 20.0, rate=5.0)
    copy = restore(take(state), 10)
    for one in (state, copy):
        report(one, 21.0, 20.0, rate=3.0, first=100.0)
    assert copy.tracks[JOB].paces == state.tracks[JOB].paces != ()
    state.record(Finished(50.0, JOB))
    assert isinstance(restore(take(state), 10).past[0].paces[0], Pace)
