"""GPUs that an administrator has closed: nothing starts on them, who is there may stay."""

from typing import Any

import pytest

from dovetail.core import still
from dovetail.core.entries import (
    Finished,
    GpusClosed,
    GpusOpened,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    Occupied,
    Preempt,
    Start,
    Started,
    Stayed,
    Submitted,
)
from dovetail.core.errors import IllegalEntry
from dovetail.core.model import JobId, Node
from dovetail.core.plan import Plan
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.policies.housekeeping import Housekeeping
from dovetail.policies.placement import consolidated
from dovetail.testing import fingerprint, job, placement


def state_after(*entries: Any) -> State:
    state = State(past=10)
    for entry in entries:
        state.record(entry)
    return state


def box(*entries: Any, gpus: int = 2) -> State:
    return state_after(NodeJoined(0.0, Node("box", gpus)), *entries)


def running(name: str, mask: int, share: int = 1000) -> list[Any]:
    gpus = mask.bit_count()
    return [
        Submitted(0.0, job(name, gpus, share=share)),
        Start(JobId(name), placement((0, mask), share=share)),
        Started(0.0, JobId(name)),
    ]


def closed(mask: int, vacate: bool = False, at: float = 1.0) -> GpusClosed:
    return GpusClosed(at, "box", mask, "by root: fan", vacate)


def test_nothing_starts_on_a_closed_gpu_and_the_refusal_says_why() -> None:
    state = box(closed(0b01), Submitted(1.0, job("a")))
    assert consolidated(state.room, state.tracks[JobId("a")].shape) == placement((0, 0b10))
    with pytest.raises(IllegalEntry, match="GPU 0 of node 'box' is closed by root: fan"):
        state.record(Start(JobId("a"), placement((0, 0b01))))


def test_who_is_there_goes_on_and_its_gpu_is_free_for_nobody_afterwards_until_it_is_opened() -> (
    None
):
    state = box(*running("a", 0b01), closed(0b01))
    assert JobId("a") in state.running
    state.record(Finished(2.0, JobId("a")))
    assert state.room.free[0] == 0b10
    state.record(GpusOpened(3.0, "box", 0b01))
    assert state.room.free[0] == 0b11


def test_a_closed_gpu_that_strangers_use_is_not_free_before_both_are_over() -> None:
    state = box(closed(0b01), Occupied(2.0, "box", 0b01))
    state.record(GpusOpened(3.0, "box", 0b01))
    assert state.room.free[0] == 0b10
    state.record(Occupied(4.0, "box", 0))
    assert state.room.free[0] == 0b11


def test_the_rest_of_a_shared_gpu_that_is_closed_is_given_to_nobody_and_comes_back() -> None:
    state = box(*running("a", 0b01, share=400), closed(0b01), gpus=1)
    state.record(Submitted(1.0, job("b", share=500)))
    shape = state.tracks[JobId("b")].shape
    assert consolidated(state.room, shape) is None
    state.record(GpusOpened(2.0, "box", 0b01))
    assert consolidated(state.room, shape) == placement((0, 0b01), share=500)
    state.record(closed(0b01, at=2.0))
    state.record(Finished(3.0, JobId("a")))
    assert consolidated(state.room, shape) is None
    state.record(GpusOpened(4.0, "box", 0b01))
    assert state.room.free[0] == 0b1


def test_a_draft_that_stops_a_job_on_a_closed_gpu_gains_nothing_and_can_be_taken_back() -> None:
    state = box(*running("a", 0b01), closed(0b01), Submitted(1.0, job("b", 2)))
    before = fingerprint(state)
    plan, track = Plan(state, consolidated), state.tracks[JobId("a")]
    plan.stop(track)
    assert not plan.start(state.tracks[JobId("b")])
    assert plan.keep(track)
    state.settle()
    assert fingerprint(state) == before


def test_a_node_whose_gpus_are_all_closed_is_closed_whatever_its_world_says() -> None:
    state = box(closed(0b11), NodeDraining(2.0, "box"), NodeUp(3.0, "box"))
    assert state.room.open == [False]
    state.record(GpusOpened(4.0, "box", 0b10))
    assert state.room.open == [True]
    state.record(NodeDraining(5.0, "box"))
    state.record(GpusOpened(6.0, "box", 0b01))
    assert state.room.open == [False]


def test_who_is_on_gpus_to_be_vacated_gives_way_unless_it_cannot() -> None:
    state = box(*running("a", 0b01), *running("b", 0b10), closed(0b01, vacate=True))
    assert [action.job_id for action in Housekeeping().decide(state)] == ["a"]  # type: ignore[union-attr]
    state.record(Preempt(JobId("a")))
    state.record(Stayed(2.0, JobId("a"), placement((0, 0b01)), "its memory cannot be saved"))
    assert list(Housekeeping().decide(state)) == []
    assert state.room.free[0] == 0


def test_a_snapshot_and_a_still_know_what_is_closed() -> None:
    state = box(*running("a", 0b01, share=400), closed(0b01), NodeDraining(2.0, "box"), gpus=3)
    state.record(GpusClosed(3.0, "box", 0b10, "by ann", True))
    told = fingerprint(state)
    assert fingerprint(restore(take(state), 10))["closed"] == told["closed"]
    for copy in (
        restore(take(state), 10),
        still.revive(still.take(state, 3.0, state.tracks.values())),
    ):
        assert {k: fingerprint(copy)[k] for k in ("free", "withheld", "shares", "drained")} == {
            k: told[k] for k in ("free", "withheld", "shares", "drained")
        }


def test_a_node_that_returns_under_its_name_is_closed_where_it_was_by_the_names_of_its_gpus() -> (
    None
):
    cards = (("gpu0", "GPU-a"), ("gpu1", "GPU-b"))
    state = state_after(
        NodeJoined(0.0, Node("box", 2, labels=cards)),
        closed(0b10),
        NodeLeft(2.0, "box"),
        NodeJoined(3.0, Node("box", 2, labels=(("gpu0", "GPU-b"), ("gpu1", "GPU-c")))),
    )
    assert state.room.closed == {1: 0b01}
    assert state.room.free[1] == 0b10


def test_a_gpu_that_is_not_there_cannot_be_closed() -> None:
    with pytest.raises(IllegalEntry, match="node 'box' has 2 GPUs"):
        box(closed(0b100))
