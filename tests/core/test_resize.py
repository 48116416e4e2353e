"""A running job goes on with other GPUs: what is legal, what the book says, what it costs."""

from typing import Any

import pytest

from dovetail.core import snapshot
from dovetail.core.entries import (
    JournalEntry,
    NodeDraining,
    NodeJoined,
    Pinned,
    Preempt,
    Resize,
    Start,
    Started,
    Stayed,
    Submitted,
    TenantSet,
    Woke,
)
from dovetail.core.errors import IllegalEntry
from dovetail.core.model import Interruption, JobId, Node, Tenant
from dovetail.core.plan import Plan
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.policies.placement import consolidated
from dovetail.testing import fingerprint, job, placement

J = JobId("j")


def state_of(*entries: JournalEntry) -> State:
    state = State()
    for n in range(2):
        state.record(NodeJoined(0.0, Node(f"n{n}", 4, cpus=8.0)))
    for entry in entries:
        state.record(entry)
    return state


def running(mask: int = 0b11, **rest: Any) -> State:
    asked = job("j", 2, **{"min_gpus": 1, "max_gpus": 6, **rest})
    return state_of(Submitted(0.0, asked), Start(J, placement((0, mask))), Started(0.0, J))


def track_of(state: State, job_id: JobId = J) -> Track:
    return state.tracks[job_id]


@pytest.mark.parametrize(
    "where",
    [
        placement((0, 0b1111)),
        placement((0, 0b1)),
        placement((1, 0b11)),
        placement((0, 0b1111), (1, 0b11)),
    ],
    ids=["more", "fewer", "elsewhere", "over nodes"],
)
def test_an_elastic_job_goes_on_with_more_fewer_or_other_gpus(where: Any) -> None:
    state = running()
    state.record(Woke(10.0))
    state.record(Resize(J, where))
    track = track_of(state)
    assert (track.placement, track.resizes, track.preemptions) == (where, 1, 0)
    assert state.room.free[0] | sum(m for n, m in where.slices if n == 0) == 0b1111
    assert list(state.running) == [J]
    assert (track.held_gpu_s, track.executed_s) == (20.0, 10.0)


def test_it_is_not_at_work_until_that_is_told_and_the_time_counts_as_lost() -> None:
    state = running(interruption=Interruption(1.0, 2.0))
    state.record(Woke(10.0))
    state.record(Resize(J, placement((0, 0b1111))))
    track = track_of(state)
    assert (track.phase, track.speed, track.working_since) == (Phase.STARTING, 1.0, -1.0)
    state.record(Started(13.0, J))
    state.record(Woke(20.0))
    assert track.executed_by(20.0) == 17.0
    state.record(Preempt(J))
    assert track.lost_gpu_s == 4 * 3.0
    assert track.held_gpu_s == 2 * 10.0 + 4 * 10.0


def test_a_number_outside_its_range_is_refused_for_a_start_and_for_a_resize() -> None:
    state = running()
    before = fingerprint(state)
    with pytest.raises(IllegalEntry, match="1 to 6 of them"):
        state.record(Resize(J, placement((0, 0b1111), (1, 0b111))))
    assert fingerprint(state) == before
    state.record(Preempt(J))
    with pytest.raises(IllegalEntry, match="1 to 6 of them"):
        state.record(Start(J, placement((0, 0b1111), (1, 0b111))))


def test_a_rigid_job_may_be_moved_but_keeps_its_number() -> None:
    state = running(min_gpus=None, max_gpus=None)
    state.record(Resize(J, placement((1, 0b11))))
    with pytest.raises(IllegalEntry, match="'j' with 1 GPUs"):
        state.record(Resize(J, placement((1, 0b1))))


def test_gpus_of_somebody_else_are_refused_and_nothing_has_changed() -> None:
    state = running()
    state.record(Submitted(0.0, job("other", 4)))
    state.record(Start(JobId("other"), placement((1, 0b1111))))
    before = fingerprint(state)
    with pytest.raises(IllegalEntry, match="cannot resize job 'j'"):
        state.record(Resize(J, placement((0, 0b11), (1, 0b1))))
    assert fingerprint(state) == before


def test_who_cannot_give_way_now_is_not_moved() -> None:
    state = running()
    state.record(Pinned(1.0, J, "it did not save itself"))
    with pytest.raises(IllegalEntry, match="it did not save itself"):
        state.record(Resize(J, placement((1, 0b11))))


def test_on_a_draining_node_it_keeps_what_it_has_and_gets_no_more() -> None:
    state = running()
    state.record(NodeDraining(1.0, "n0"))
    with pytest.raises(IllegalEntry, match="draining"):
        state.record(Resize(J, placement((0, 0b111))))
    state.record(Resize(J, placement((0, 0b1), (1, 0b1))))


def test_cpus_and_quota_go_with_the_number_of_gpus() -> None:
    state = state_of(
        TenantSet(0.0, Tenant("us", 5.0)),
        Submitted(0.0, job("j", 2, min_gpus=1, max_gpus=8, cpus=4.0, tenant="us")),
        Start(J, placement((0, 0b11))),
    )
    assert (state.room.cpus[0], state.room.held["us"]) == (4.0, 2.0)
    state.record(Resize(J, placement((0, 0b1111))))
    assert (state.room.cpus[0], state.room.held["us"]) == (0.0, 4.0)
    with pytest.raises(IllegalEntry, match="quota of 5"):
        state.record(Resize(J, placement((0, 0b1111), (1, 0b11))))
    state.record(Resize(J, placement((1, 0b1))))
    assert (state.room.cpus[:2], state.room.held["us"]) == ([8.0, 6.0], 1.0)


def test_one_that_could_not_be_saved_goes_on_as_it_was() -> None:
    state = running()
    state.record(Resize(J, placement((1, 0b1111))))
    state.record(Stayed(5.0, J, placement((0, 0b11)), "it did not save itself in 5 s"))
    track = track_of(state)
    assert (track.placement, track.phase) == (placement((0, 0b11)), Phase.RUNNING)
    assert (track.resizes, track.pinned) == (0, "it did not save itself in 5 s")
    assert state.room.free[1] == 0b1111


def test_a_drafted_resize_is_recorded_as_it_was_drafted_or_taken_back() -> None:
    state = running()
    state.record(Submitted(0.0, job("next", 4)))
    plan = Plan(state, consolidated)
    plan.resize(track_of(state), placement((0, 0b1)))
    plan.start_at(track_of(state, JobId("next")), placement((0, 0b1110), (1, 0b1)))
    assert state.room.free[0] == 0
    before = plan.actions
    state.settle()
    assert state.room.free[0] == 0b1100
    for action in before:
        state.record(action)
    assert state.room.free[0] == 0
    assert state.room.free[1] == 0b1110


def test_a_draft_is_checked_like_a_start() -> None:
    state = running()
    state.record(Submitted(0.0, job("other", 2)))
    state.record(Start(JobId("other"), placement((0, 0b1100))))
    plan, before = Plan(state, consolidated), fingerprint(state)
    with pytest.raises(IllegalEntry, match="cannot resize job 'j'"):
        plan.resize(track_of(state), placement((0, 0b111)))
    assert plan.actions == []
    assert fingerprint(state) == before


def test_an_elastic_job_too_large_for_the_cluster_waits_for_the_most_that_fits() -> None:
    state = state_of(Submitted(0.0, job("j", 16, min_gpus=2, max_gpus=32)))
    assert not state.unplaceable
    assert track_of(state).shape.gpus == 8
    state.record(NodeJoined(1.0, Node("large", 16)))
    assert track_of(state).shape.gpus == 16


def test_a_snapshot_taken_after_a_resize_is_the_state() -> None:
    state = running(interruption=Interruption(1.0, 2.0), cpus=2.0)
    state.record(Woke(3.0))
    state.record(Resize(J, placement((0, 0b1111), (1, 0b1))))
    again = snapshot.restore(snapshot.take(state), 10)
    state.capacity[:] = state.capacity[-1:]  # that of long ago is forgotten
    assert fingerprint(again) == fingerprint(state)
    assert track_of(again).resizes == 1
