"""On nodes that keep what suspended jobs have, giving way frees GPUs and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.core.entries import (
    Amended,
    Cancelled,
    Displaced,
    Finished,
    Interrupted,
    JournalEntry,
    NodeJoined,
    NodeLeft,
    Preempt,
    Saved,
    Start,
    Started,
    Submitted,
)
from dovetail.core.model import JobId, Node, Placement
from dovetail.core.plan import Plan
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.policies.placement import consolidated
from dovetail.testing import fingerprint, job, placement

A, B = JobId("a"), JobId("b")
HERE, THERE = placement((0, 1)), placement((1, 1))


def cluster(*entries: JournalEntry, keeps: bool = True, **asked: Any) -> State:
    """Two nodes of one GPU; two jobs that each ask for most of a node's CPUs."""
    state = State()
    for i in range(2):
        state.record(NodeJoined(0.0, Node(f"n{i}", 1, cpus=8.0, memory_gb=32.0, keeps=keeps)))
    for name in (A, B):
        fields = {"cpus": 6.0, "memory_gb": 10.0, **asked}
        state.record(Submitted(0.0, job(name, **fields)))
    for entry in entries:
        state.record(entry)
    return state


def suspended(bytes: int = 0) -> tuple[JournalEntry, ...]:
    saved = Saved(2.0, A, "freeze", 0.1, bytes, True)
    return Start(A, HERE), Started(1.0, A), Preempt(A), saved


def host(state: State, n: int = 0) -> tuple[float, float]:
    return round(state.room.cpus[n], 6), round(state.room.memory_gb[n], 6)


def place(state: State, name: JobId) -> Placement | None:
    found = Plan(state, consolidated).place(state.tracks[name])
    state.settle()
    return found


def test_a_suspended_job_keeps_cpus_and_memory_and_gives_back_its_gpu() -> None:
    state = cluster(*suspended())
    assert host(state) == (2.0, 22.0)
    assert state.room.free[0] == 1
    assert place(state, B) == THERE  # and not where its CPUs are taken
    assert place(state, A) == HERE
    state.record(Start(A, HERE))
    assert host(state) == (2.0, 22.0)
    state.record(Finished(3.0, A))
    assert host(state) == (8.0, 32.0)


def test_a_policy_does_not_count_on_what_giving_way_would_not_free() -> None:
    state = cluster(Start(A, HERE), Started(1.0, A), cpus=6.0)
    plan = Plan(state, consolidated)
    plan.stop(state.tracks[A])
    assert plan.place(state.tracks[B]) == THERE
    state.settle()


def test_what_lay_in_gpu_memory_is_counted_while_it_lies_in_that_of_the_node() -> None:
    state = cluster(*suspended(25_000_000_000))
    assert host(state) == (2.0, 7.0)
    state.record(Start(A, HERE))
    assert host(state) == (2.0, 22.0)


def test_so_is_that_of_a_job_that_asked_for_none() -> None:
    state = cluster(*suspended(25_000_000_000), cpus=0.0, memory_gb=0.0)
    assert host(state) == (8.0, 7.0)
    assert state.tracks[A].shape is state.tracks[B].shape
    assert host(restore(take(state), 10)) == (8.0, 7.0)
    state.record(Start(A, HERE))
    assert host(state) == (8.0, 32.0)
    state.record(Preempt(A))
    state.record(Saved(4.0, A, "freeze", 0.1, 5_000_000_000, True))
    state.record(Interrupted(5.0, A, "its pod was deleted"))
    assert host(state) == (8.0, 32.0)


@pytest.mark.parametrize(
    "end",
    [
        Cancelled(3.0, A),
        Interrupted(3.0, A, "its node died"),
        Saved(3.0, A, "cooperate", 1.0, 0, False),
    ],
)
def test_all_is_free_once_its_processes_are_gone(end: JournalEntry) -> None:
    state = cluster(*suspended(), end)
    assert host(state) == (8.0, 32.0)
    if A in state.tracks:
        assert str(state.tracks[A].shape) == str(state.tracks[B].shape)


def test_a_job_that_goes_on_elsewhere_takes_its_cpus_along() -> None:
    state = cluster(*suspended(), Start(A, THERE))
    assert (host(state), host(state, 1)) == ((8.0, 32.0), (2.0, 22.0))
    state.record(Displaced(3.0, A, "it is suspended on n0 and can go on only there"))
    assert (host(state), host(state, 1)) == ((2.0, 22.0), (8.0, 32.0))


def test_it_goes_elsewhere_only_where_there_are_cpus_for_it() -> None:
    state = cluster(*suspended(), Start(B, THERE), Started(3.0, B))
    state.record(Submitted(3.0, job("c", cpus=1.0)))
    state.record(Start(JobId("c"), HERE))
    state.record(Preempt(B))
    assert place(state, A) is None


@pytest.mark.parametrize("end", [Preempt(A), Displaced(1.0, A, "its seat was taken")])
def test_one_that_never_came_up_keeps_nothing(end: JournalEntry) -> None:
    state = cluster(Start(A, HERE), end)
    assert host(state) == (8.0, 32.0)
    if isinstance(end, Preempt):  # unless it had, and is told to be suspended
        state.record(Saved(2.0, A, "freeze", 0.1, 0, True))
        assert host(state) == (2.0, 22.0)
        assert place(state, A) == HERE


def test_its_priority_may_be_changed_while_it_runs() -> None:
    state = cluster(Start(A, HERE), Started(1.0, A))
    state.record(Amended(2.0, job(A, cpus=6.0, memory_gb=10.0, priority=5.0)))
    state.record(Preempt(A))
    assert host(state) == (2.0, 22.0)


def test_a_snapshot_knows_what_is_kept() -> None:
    for entries in (suspended(25_000_000_000), suspended()[:2]):
        state = cluster(*entries)
        again = restore(take(state), 10)
        for part in ("tracks", "cpus", "memory_gb", "free"):
            assert fingerprint(again)[part] == fingerprint(state)[part]
        assert _shape(again.tracks[A]) == _shape(state.tracks[A]) == (0.0, 0.0)


def test_a_suspended_job_is_where_it_was_when_its_node_joins_again_under_its_name() -> None:
    state = cluster(*suspended(), NodeLeft(2.0, "n0"))
    state.record(NodeJoined(3.0, Node("n0", 1, cpus=16.0, memory_gb=32.0, keeps=True)))
    again = placement((2, 1))
    assert host(state, 2) == (10.0, 22.0)
    assert (state.tracks[A].home, place(state, A)) == (again, again)
    state.record(Start(A, again))
    state.record(Finished(4.0, A))
    assert host(state, 2) == (16.0, 32.0)


def _shape(track: Track) -> tuple[float, float]:
    return track.shape.cpus, track.shape.memory_gb


def test_elsewhere_giving_way_frees_all() -> None:
    state = cluster(*suspended(), keeps=False)
    assert host(state) == (8.0, 32.0)
