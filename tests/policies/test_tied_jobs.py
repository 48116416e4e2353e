"""A suspended job that can go on only where its processes are is started there or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.core.entries import (
    Action,
    Interrupted,
    JournalEntry,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    Preempt,
    Saved,
    Start,
    Started,
    Submitted,
    Wake,
    Woke,
)
from dovetail.core.model import Job, JobId, Node, Placement
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.policies.placement import PLACEMENTS
from dovetail.policies.registry import BUILTIN, Knowledge, make
from dovetail.testing import job, placement

HERE, THERE = placement((1, 1)), placement((0, 1))
ONE, TWO = JobId("one"), JobId("two")


def suspended(*others: Job, tied: bool = True, **asked: Any) -> State:
    """A job on the second of two nodes with a GPU each, which is what rules of placement try last."""
    state = State()
    for name in ("there", "here"):
        state.record(NodeJoined(0.0, Node(name, 1, cpus=8.0, memory_gb=32.0, keeps=True)))
    entries: list[JournalEntry] = [
        *(Submitted(0.0, job(ONE, **asked)), Start(ONE, HERE), Started(0.0, ONE), Preempt(ONE)),
        Saved(0.0, ONE, "freeze", 0.1, 1, True, tied=tied),
        *(Submitted(0.0, other) for other in others),
    ]
    for entry in entries:
        state.record(entry)
    return state


def runs(state: State, name: str, where: Placement, **asked: Any) -> None:
    """Another one, which was there first."""
    job_id = JobId(name)
    for entry in (Submitted(state.now, job(name, **asked)), Start(job_id, where)):
        state.record(entry)
    state.record(Started(state.now, job_id))


def decided(state: State, policy: str) -> list[Action]:
    """All that it does until it has nothing to do: some decide now and then only."""
    rule = make(policy, PLACEMENTS["consolidated"], Knowledge({}, "recent-mean"))
    found: list[Action] = []
    for _ in range(5):
        actions = list(rule.decide(state))
        for action in actions:
            state.record(action)
            if isinstance(action, Preempt):
                state.record(Saved(state.now, action.job_id, "freeze", 0.1, 1, True, tied=True))
            if isinstance(action, Wake):
                state.record(Woke(max(action.at, state.now)))
        found += actions
    return found


def starts(actions: list[Action]) -> list[Action]:
    return [action for action in actions if isinstance(action, Start)]


@pytest.mark.parametrize("cpus", [0.0, 1.0])
@pytest.mark.parametrize("policy", BUILTIN)
def test_it_goes_on_at_home_though_another_node_comes_first(policy: str, cpus: float) -> None:
    state = suspended(cpus=cpus)
    assert starts(decided(state, policy)) == [Start(ONE, HERE)]


@pytest.mark.parametrize("cpus", [0.0, 1.0])
@pytest.mark.parametrize("policy", BUILTIN)
def test_it_is_not_started_elsewhere_while_its_node_is_closed(policy: str, cpus: float) -> None:
    state = suspended(cpus=cpus)
    state.record(NodeDraining(1.0, "here"))
    assert starts(decided(state, policy)) == []
    state.record(NodeUp(state.now, "here"))
    assert starts(decided(state, policy)) == [Start(ONE, HERE)]


SKIPPING = ("fifo-skip", "easy", "srtf", "las", "priority", "fair-share", "drf")


@pytest.mark.parametrize("policy", [*SKIPPING, "round-robin", "gandiva", "frugal", "tiresias"])
def test_others_of_its_size_are_given_the_seat_that_it_cannot_use(policy: str) -> None:
    state = suspended(job(TWO))
    state.record(NodeDraining(1.0, "here"))
    assert starts(decided(state, policy)) == [Start(TWO, THERE)]


def test_room_is_made_for_it_at_home_and_nowhere_else() -> None:
    state = suspended(priority=5.0)
    runs(state, "worst", THERE, priority=1.0)
    runs(state, "other", HERE, priority=3.0)
    assert decided(state, "priority") == [Preempt(JobId("other")), Start(ONE, HERE)]


def test_nobody_is_stopped_where_that_would_be_in_vain() -> None:
    state = suspended(priority=5.0)
    runs(state, "worst", THERE, priority=1.0)
    runs(state, "better", HERE, priority=9.0)
    assert decided(state, "priority") == []


def test_one_that_looked_in_vain_at_home_does_not_speak_for_others() -> None:
    state = suspended(job(TWO, priority=4.0, cpus=1.0), priority=5.0, cpus=1.0)
    runs(state, "worst", THERE, priority=1.0)
    runs(state, "better", HERE, priority=9.0)
    assert decided(state, "priority") == [Preempt(JobId("worst")), Start(TWO, THERE)]


def test_once_it_has_gone_on_or_ended_it_is_like_any_other() -> None:
    state = suspended(job(TWO))
    for entry in (Start(ONE, HERE), Started(1.0, ONE)):
        state.record(entry)
    assert state.tracks[ONE].shape is state.tracks[TWO].shape
    other = suspended(job(TWO))
    other.record(Interrupted(1.0, ONE, "its pod was deleted"))
    assert other.tracks[ONE].shape is other.tracks[TWO].shape
    assert Start(ONE, THERE) in starts(decided(other, "fifo"))


def test_one_that_saves_itself_may_leave_a_full_node() -> None:
    state = suspended(tied=False)
    state.record(NodeDraining(1.0, "here"))
    assert starts(decided(state, "fifo-skip")) == [Start(ONE, THERE)]


def test_it_goes_on_at_home_once_that_has_joined_again() -> None:
    state = suspended(job(TWO))
    state.record(NodeLeft(1.0, "here"))
    assert starts(decided(state, "fifo-skip")) == [Start(TWO, THERE)]
    state.record(NodeJoined(2.0, Node("here", 1, keeps=True)))
    assert starts(decided(state, "fifo-skip")) == [Start(ONE, placement((2, 1)))]


def test_a_snapshot_knows_where_it_can_go_on() -> None:
    again = restore(take(suspended(job(TWO))), 10)
    again.record(NodeDraining(1.0, "here"))
    assert starts(decided(again, "fifo-skip")) == [Start(TWO, THERE)]
