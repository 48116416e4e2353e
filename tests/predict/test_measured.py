"""What policies believe of speeds that jobs report: their own, those of jobs like them, a law."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dovetail.core.entries import Finished, NodeJoined, Reported, Start, Started, Submitted
from dovetail.core.model import Job, JobId, Node, Option
from dovetail.core.state import State
from dovetail.predict.measured import AsReported
from dovetail.predict.scaling import ScalingLaw, fitted
from dovetail.testing import job, placement

COMMAND = ("very", "amount", "flags", "script")


@dataclass(frozen=True)
class TwiceOnB:
    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        return 2.0 if kind == "B" else 1.0


def cluster() -> State:
    state = State(past=10)
    for entry in (NodeJoined(0.0, Node("a", 8, kind="A")), NodeJoined(0.0, Node("b", 8, kind="B"))):
        state.record(entry)
    return state


def runs(state: State, own: Job, gpus: int, rate: float, node: int = 0) -> None:
    """It runs for ten seconds with so many GPUs, reporting its steps."""
    began = state.now
    state.record(Submitted(began, own))
    state.record(Start(own.id, placement((node, (1 << gpus) - 1))))
    state.record(Started(began, own.id))
    for second in range(11):
        state.record(Reported(began + second, own.id, second * rate, {}))


def ran(state: State, own: Job, gpus: int, rate: float, node: int = 0) -> None:
    runs(state, own, gpus, rate, node)
    state.record(Finished(state.now, own.id))


def elastic(name: str, **asked: object) -> Job:
    return job(name, 1, min_gpus=1, max_gpus=8, **asked)


def test_a_law_goes_through_what_was_measured() -> None:
    true = ScalingLaw(0.1, 0.9)
    law = fitted([(n, true.steps_per_s(n)) for n in (1, 2, 4)])
    assert law is not None
    assert law.steps_per_s(8) == pytest.approx(true.steps_per_s(8))
    assert fitted([]) is None


def test_no_part_of_a_step_is_negative_even_if_more_gpus_are_worse() -> None:
    slower = fitted([(1, 10.0), (2, 5.0), (4, 3.0)])
    assert slower is not None
    assert slower.shared_s == 0 < slower.fixed_s
    faster = fitted([(1, 1.0), (2, 3.0), (4, 9.0)])
    assert faster is not None
    assert faster.fixed_s == 0 < faster.shared_s


def test_a_job_is_as_fast_as_it_reports_and_faster_with_more_gpus() -> None:
    state = cluster()
    runs(state, elastic("j"), 2, rate=8.0)
    believed = AsReported(state, TwiceOnB())
    own = state.tracks[JobId("j")].job
    assert believed.steps_per_s(own, "A", 2, 1) == pytest.approx(8.0)
    speeds = [believed.speed(own, "A", gpus, 1) for gpus in (1, 2, 4, 8)]
    assert speeds == sorted(speeds)
    assert speeds[0] == pytest.approx(1.0)
    assert speeds[1] < 2.0


def test_the_same_command_at_other_counts_says_how_it_grows() -> None:
    state = cluster()
    for gpus, rate in ((1, 4.0), (4, 8.0)):
        ran(state, elastic(f"before-{gpus}", alike=COMMAND), gpus, rate)
    new = elastic("new", alike=COMMAND)
    state.record(Submitted(state.now, new))
    believed = AsReported(state, TwiceOnB())
    assert believed.steps_per_s(new, "A", 4, 1) == pytest.approx(8.0, rel=0.01)
    assert believed.speed(new, "A", 4, 1) == pytest.approx(2.0, rel=0.01)


def test_the_same_script_with_other_arguments_grows_alike_from_where_it_is() -> None:
    state = cluster()
    for gpus, rate in ((1, 4.0), (4, 8.0)):
        ran(state, elastic(f"before-{gpus}", alike=("x", "y", "z", "script")), gpus, rate)
    runs(state, elastic("new", alike=COMMAND), 1, rate=1.0)
    own = state.tracks[JobId("new")].job
    assert AsReported(state, TwiceOnB()).steps_per_s(own, "A", 4, 1) == pytest.approx(2.0, rel=0.01)


def test_another_kind_is_believed_by_the_table() -> None:
    state = cluster()
    runs(state, elastic("j"), 1, rate=3.0)
    believed = AsReported(state, TwiceOnB())
    own = state.tracks[JobId("j")].job
    assert believed.steps_per_s(own, "B", 1, 1) == pytest.approx(6.0)
    assert believed.speed(own, "B", 1, 1) == pytest.approx(2.0)


def test_of_whom_nothing_is_known_others_are_asked() -> None:
    state = cluster()
    own = elastic("j")
    state.record(Submitted(0.0, own))
    assert AsReported(state, TwiceOnB()).steps_per_s(own, "A", 1, 1) is None
    assert AsReported(state, TwiceOnB()).speed(own, "B", 1, 1) == 2.0


def test_options_are_corrected_by_what_is_measured() -> None:
    state = cluster()
    ways = (Option("A", 1, 100.0), Option("A", 2, 50.0))
    timed = job("j", 1, kinds=("A",), options=ways)
    state.record(Submitted(0.0, timed))
    believed = AsReported(state, TwiceOnB())
    ran(state, job("other", 1, alike=COMMAND), 1, 4.0)
    assert believed.speed(timed, "A", 2, 1) == 1.0  # as others say: nothing is measured
    runs(state, job("k", 2, kinds=("A",), options=ways, alike=COMMAND), 2, 6.0)
    measured = state.tracks[JobId("k")].job
    assert believed.speed(measured, "A", 2, 1) > 1.0


def test_a_changed_speed_is_news_and_an_unchanged_one_is_none() -> None:
    state = cluster()
    believed = AsReported(state, TwiceOnB())
    state.index(believed)
    runs(state, elastic("j"), 1, rate=3.0)
    state.unheeded = 0
    for second in range(5):
        state.record(Reported(state.now + 1, JobId("j"), 30.0 + 3 * (second + 1), {}))
    assert state.unheeded == 5
    for second in range(30):
        state.record(Reported(state.now + 1, JobId("j"), 45.0 + second + 1, {}))
    assert 5 < state.unheeded < 35
