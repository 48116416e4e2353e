"""A job that is suspended is where it is, wherever it was tried meanwhile."""

from __future__ import annotations

from dovetail.core.entries import (
    Displaced,
    JournalEntry,
    NodeJoined,
    Preempt,
    Saved,
    Start,
    Started,
    Submitted,
)
from dovetail.core.model import JobId, Node
from dovetail.core.plan import Plan
from dovetail.core.state import State
from dovetail.policies.placement import consolidated
from dovetail.testing import job, placement

A, B = placement((0, 1)), placement((1, 1))
ONE = JobId("one")


def suspended() -> State:
    """On the first of two nodes."""
    state = State()
    for name in ("here", "there"):
        state.record(NodeJoined(0.0, Node(name, 1)))
    entries: list[JournalEntry] = [Submitted(0.0, job("one")), Start(ONE, A), Started(0.0, ONE)]
    for entry in (*entries, Preempt(ONE), Saved(0.0, ONE, "freeze", 0.1, 1, True)):
        state.record(entry)
    return state


def test_one_that_was_refused_elsewhere_is_still_known_to_be_where_it_is() -> None:
    state = suspended()
    state.record(Start(ONE, B))
    state.record(Displaced(1.0, ONE, "it is suspended on here and can go on only there"))
    assert state.tracks[ONE].home == A
    assert Plan(state, consolidated).place(state.tracks[ONE]) == A


def test_so_is_one_that_had_to_give_way_before_anybody_could_refuse_it() -> None:
    state = suspended()
    for entry in (Start(ONE, B), Preempt(ONE)):
        state.record(entry)
    assert state.tracks[ONE].home == A


def test_one_that_goes_on_is_suspended_nowhere() -> None:
    state = suspended()
    for entry in (Start(ONE, A), Started(1.0, ONE)):
        state.record(entry)
    assert state.tracks[ONE].home is None
    assert state.tracks[ONE].parked_at is None
