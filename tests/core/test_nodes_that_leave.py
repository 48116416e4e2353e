"""A job that was let in waits for a node that has left; another of its name may come."""

from typing import Any

import pytest

from dovetail.core import still
from dovetail.core.entries import (
    Finished,
    Interrupted,
    NodeJoined,
    NodeLeft,
    Refuse,
    Start,
    Submitted,
)
from dovetail.core.errors import IllegalEntry
from dovetail.core.loop import refuse_unplaceable
from dovetail.core.model import JobId, Node
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.core.track import Phase
from dovetail.policies.queueing import Fifo
from dovetail.testing import arrival, fingerprint, job, placement, run_trace, told_to


def state_after(*entries: Any) -> State:
    state = State(past=10)
    for entry in entries:
        state.record(entry)
    return state


class Nowhere:
    def act(self, action: Any) -> None:
        raise AssertionError(f"nothing was to be done: {action!r}")


def alone_again() -> State:
    """The large node has left, and a job that needs it waits before one that does not."""
    return state_after(
        NodeJoined(0.0, Node("small", 1)),
        NodeJoined(0.0, Node("large", 4)),
        Submitted(1.0, job("wide", 4)),
        Submitted(1.0, job("narrow", 1)),
        NodeLeft(2.0, "large"),
    )


def test_who_waits_for_a_node_that_left_is_not_refused_and_does_not_stand_in_the_way() -> None:
    state = alone_again()
    refuse_unplaceable(Nowhere(), state, told_to(lambda entry, at: None))  # type: ignore[arg-type]
    assert "largest possible placement is 1" in state.tracks[JobId("wide")].stranded
    assert state.waiting_count == 1
    starts = [action for action in Fifo().decide(state) if isinstance(action, Start)]
    assert [action.job_id for action in starts] == ["narrow"]


@pytest.mark.parametrize("gpus", [4, 8])
def test_a_node_of_its_name_may_join_again_as_another(gpus: int) -> None:
    state = alone_again()
    state.record(NodeJoined(3.0, Node("large", gpus)))
    assert not state.tracks[JobId("wide")].stranded
    assert state.waiting_count == 2
    state.record(Start(JobId("wide"), placement((2, 0b1111))))
    assert state.room.free == [1, 0b1111, (1 << gpus) - 1 & ~0b1111]
    with pytest.raises(IllegalEntry, match="twice"):
        state.record(NodeJoined(4.0, Node("large", 4)))
    with pytest.raises(IllegalEntry, match="gone"):
        state.record(Start(JobId("narrow"), placement((1, 1))))


def test_who_is_interrupted_because_the_node_leaves_waits_too() -> None:
    for leaves_first in (True, False):
        ends = [NodeLeft(2.0, "large"), Interrupted(2.0, JobId("wide"), "node large left")]
        state = state_after(
            NodeJoined(0.0, Node("large", 4)),
            Submitted(1.0, job("wide", 4)),
            Start(JobId("wide"), placement((0, 0b1111))),
            *(ends if leaves_first else reversed(ends)),
        )
        assert state.tracks[JobId("wide")].stranded
        assert state.waiting_count == 0


def test_that_it_waits_so_survives_a_restart_and_a_still() -> None:
    state = alone_again()
    copies = [
        restore(take(state), 10),
        still.revive(still.take(state, state.now, state.tracks.values())),
    ]
    for copy in copies:
        assert not copy.unplaceable
        for one in (copy,):
            one.record(NodeJoined(3.0, Node("large", 4)))
            one.record(Start(JobId("wide"), placement((2, 0b1111))))
            one.record(Finished(4.0, JobId("wide")))
        assert fingerprint(copy)["free"] == [1, 0b1111, 0b1111]


def test_one_that_comes_after_a_job_that_failed_is_refused_though_a_node_goes_meanwhile() -> None:
    from dovetail.core.entries import Failed

    state = state_after(
        NodeJoined(0.0, Node("a", 1)),
        NodeJoined(0.0, Node("b", 1)),
        Submitted(0.0, job("first")),
        Submitted(0.0, job("second", after=("first",))),
        Start(JobId("first"), placement((0, 1))),
        Failed(1.0, JobId("first"), "oops"),
        NodeLeft(1.0, "b"),
    )
    assert list(state.unplaceable) == ["second"]


def test_in_a_simulation_it_waits_for_a_node_that_is_to_come_and_for_no_other() -> None:
    jobs = [arrival("busy", 0.0, 8.0, 4), arrival("wide", 1.0, 10.0, 4)]
    leaves = NodeLeft(5.0, "n0")
    again = NodeJoined(50.0, Node("n0", 4))
    run = run_trace("fifo", jobs, [Node("n0", 4)], node_events=[leaves, again])
    assert run.phase("wide") is run.phase("busy") is Phase.FINISHED
    assert run.first_starts["wide"] >= 50.0
    run = run_trace("fifo", jobs, [Node("n0", 4)], node_events=[leaves])
    assert run.phase("wide") is run.phase("busy") is Phase.REFUSED
    assert {entry.job_id for entry in run.of(Refuse)} == {"busy", "wide"}
