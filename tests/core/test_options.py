"""Jobs that can be run in several ways: which GPUs they may be given, and how fast they run there."""

from typing import Any

import pytest

from dovetail.core.entries import NodeJoined, Resize, Start, Submitted
from dovetail.core.errors import IllegalEntry
from dovetail.core.journal import decode, encode
from dovetail.core.model import Job, JobId, Node, Option
from dovetail.core.state import State
from dovetail.models.speed import by_kind_and_placement
from dovetail.policies.queueing import FifoSkip
from dovetail.testing import placement

FAST, WIDE, SLOW = Option("V100", 1, 100.0), Option("V100", 2, 60.0), Option("T4", 1, 250.0)
NODES = [Node("v", 4, "V100"), Node("t", 4, "T4"), Node("k", 4, "K80")]


def timed(**rest: Any) -> Job:
    given: dict[str, Any] = {"kinds": ("V100", "T4"), "options": (FAST, WIDE, SLOW), **rest}
    return Job(JobId("j"), **given)


def state_with(job: Job, nodes: list[Node] = NODES) -> State:
    state = State()
    for node in nodes:
        state.record(NodeJoined(0.0, node))
    state.record(Submitted(0.0, job))
    return state


@pytest.mark.parametrize(("node", "mask"), [(0, 0b1), (0, 0b11), (1, 0b1)])
def test_every_option_may_be_started(node: int, mask: int) -> None:
    state = state_with(timed())
    state.record(Start(JobId("j"), placement((node, mask))))
    assert list(state.running) == ["j"]


@pytest.mark.parametrize(("node", "mask"), [(0, 0b111), (1, 0b11), (2, 0b1)])
def test_anything_else_is_refused_and_the_options_are_named(node: int, mask: int) -> None:
    state = state_with(timed())
    with pytest.raises(IllegalEntry, match="options for 1 V100 or 2 V100 or 1 T4"):
        state.record(Start(JobId("j"), placement((node, mask))))


def test_a_running_job_goes_on_in_another_of_its_options_and_in_nothing_else() -> None:
    state = state_with(timed())
    state.record(Start(JobId("j"), placement((0, 0b1))))
    for where in (placement((0, 0b11)), placement((1, 0b1)), placement((0, 0b10))):
        state.record(Resize(JobId("j"), where))
        assert state.tracks[JobId("j")].placement == where
    for where in (placement((0, 0b111)), placement((1, 0b11)), placement((2, 0b1))):
        with pytest.raises(IllegalEntry, match="options for 1 V100 or 2 V100 or 1 T4"):
            state.record(Resize(JobId("j"), where))


def test_a_job_that_has_settled_keeps_its_option_but_may_be_moved() -> None:
    state = state_with(timed(settles=True))
    state.record(Start(JobId("j"), placement((0, 0b1))))
    state.record(Resize(JobId("j"), placement((0, 0b10))))
    with pytest.raises(IllegalEntry, match="options for 1 V100"):
        state.record(Resize(JobId("j"), placement((0, 0b11))))


def test_a_job_whose_usual_way_is_not_to_be_had_here_waits_for_the_first_that_is() -> None:
    state = state_with(timed(gpus=2, kinds=("V100",)), [Node("t", 1, "T4")])
    track = state.tracks[JobId("j")]
    assert (track.shape.gpus, track.shape.kinds) == (1, ("T4",))
    state.record(NodeJoined(1.0, Node("v", 2, "V100")))
    assert (track.shape.gpus, track.shape.kinds) == (2, ("V100",))
    started = [one.job_id for one in FifoSkip().decide(state) if isinstance(one, Start)]
    assert started == ["j"]


def test_a_job_is_refused_at_once_only_if_no_option_has_room() -> None:
    assert not state_with(timed(gpus=2, kinds=("V100",)), [Node("t", 1, "T4")]).unplaceable
    assert state_with(timed(), [Node("k", 8, "K80")]).unplaceable


def test_a_job_runs_as_fast_as_it_was_timed_against_its_first_option() -> None:
    speed = by_kind_and_placement({"T4": 0.9}, across_nodes=0.5)
    assert speed(timed(), placement((0, 0b1)), NODES) == 1.0
    assert speed(timed(), placement((0, 0b11)), NODES) == pytest.approx(100 / 60)
    assert speed(timed(), placement((1, 0b1)), NODES) == pytest.approx(0.4)


def test_options_survive_the_journal() -> None:
    entry = Submitted(1.0, timed(late_cost_per_s=0.002))
    assert decode(encode(entry, 1.0)) == entry


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"options": (Option("V100", 1, -3.0),), "kinds": ("V100",)}, "more than 0 s"),
        ({"options": (FAST, Option("V100", 1, 9.0)), "kinds": ("V100",)}, "two options"),
        ({"gpus": 3}, "asks for 3 GPUs of .* which is none of its options .*V100:1.*: add that"),
        ({"kinds": ()}, "none of its options"),
        ({"late_cost_per_s": -1.0}, "when late"),
    ],
)
def test_options_that_make_no_sense_are_told_with_the_job(
    fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=f"job 'j' .*{complaint}"):
        timed(**fields)
