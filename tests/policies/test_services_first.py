"""Replicas of services have the room that training of lower priority has taken."""

from __future__ import annotations

import pytest

from dovetail.core.entries import (
    JournalEntry,
    NodeJoined,
    Pinned,
    Preempt,
    Saved,
    Start,
    Started,
    Submitted,
    Unpinned,
)
from dovetail.core.model import Estimate, Interruption, Job, JobId, Node
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.daemon import active_policy
from dovetail.policies import registry
from dovetail.policies.placement import consolidated
from dovetail.policies.services_first import GAVE_WAY, ServicesFirst
from dovetail.testing import placement
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.entries import ServiceDeclared


def box(gpus: int, *training: Job) -> State:
    """A node full of training, and a service."""
    state = State()
    state.record(NodeJoined(0.0, Node("box", gpus)))
    for job in training:
        state.record(Submitted(0.0, job))
        placement = consolidated(state.room, state.tracks[job.id].shape)
        assert placement is not None
        state.record(Start(job.id, placement))
    state.record(ServiceDeclared(1.0, ServiceDesign("v1", "chat", most=4)))
    return state


def replica(number: int, gpus: int = 1, priority: float = 10.0) -> Submitted:
    name = JobId(f"r{number}")
    return Submitted(2.0, Job(name, gpus, group="v1", member=number, priority=priority))


def stopped_and_started(state: State) -> tuple[list[str], list[str]]:
    actions = list(ServicesFirst().decide(state))
    for action in actions:
        state.record(action)
    away = [str(action.job_id) for action in actions if isinstance(action, Preempt)]
    return away, [str(action.job_id) for action in actions if isinstance(action, Start)]


def test_a_replica_takes_free_room_and_nobody_gives_way() -> None:
    state = box(2, Job(JobId("a"), 1))
    state.record(replica(0))
    assert stopped_and_started(state) == ([], ["r0"])


def test_the_least_important_job_gives_way_and_only_as_many_as_needed() -> None:
    state = box(3, Job(JobId("a"), 1, priority=5.0), Job(JobId("b"), 1), Job(JobId("c"), 1))
    state.record(replica(0))
    away, started = stopped_and_started(state)
    assert started == ["r0"]
    assert len(away) == 1
    assert away[0] in ("b", "c")


def test_jobs_whose_place_is_not_needed_after_all_go_on() -> None:
    state = box(4, Job(JobId("small"), 1), Job(JobId("large"), 3))
    state.record(replica(0, gpus=3))
    assert stopped_and_started(state) == (["large"], ["r0"])


def test_a_replica_that_can_wake_only_where_it_sleeps_is_let_in_there() -> None:
    state = box(1)
    state.record(NodeJoined(2.0, Node("another", 2)))
    name, here = JobId("r0"), placement((0, 1))
    entries: list[JournalEntry] = [
        *(replica(0), Start(name, here), Started(3.0, name), Preempt(name)),
        Saved(3.0, name, "freeze", 0.1, 1, True, tied=True),
        *(Submitted(3.0, Job(JobId("a"), 1)), Start(JobId("a"), here)),
    ]
    for entry in entries:
        state.record(entry)
    again = restore(take(state), 10)
    assert stopped_and_started(state) == (["a"], ["r0"])
    assert stopped_and_started(again) == (["a"], ["r0"])


@pytest.mark.parametrize("name", sorted(registry.names()))
def test_no_policy_has_a_replica_that_runs_give_way_to_training(name: str) -> None:
    """Else the two would take the place from each other for ever."""
    state = box(1)
    state.record(replica(0))
    assert stopped_and_started(state) == ([], ["r0"])
    state.record(Started(3.0, JobId("r0")))
    policy = active_policy.make(name, view=state)
    for at in (4.0, 5.0, 500.0, 5_000.0, 50_000.0):
        job = Job(JobId(f"at-{at:g}"), 1, estimate=Estimate(1.0), priority=1.0)
        state.record(Submitted(at, job))
        for action in policy.decide(state):
            state.record(action)
        assert state.tracks[JobId("r0")].placement is not None


def test_a_replica_that_runs_gives_way_to_one_that_is_more_important() -> None:
    state = box(1)
    state.record(replica(0))
    stopped_and_started(state)
    state.record(replica(1, priority=20.0))
    assert stopped_and_started(state) == (["r0"], ["r1"])


def test_a_job_of_the_same_priority_does_not_give_way() -> None:
    state = box(1, Job(JobId("a"), 1, priority=10.0))
    state.record(replica(0))
    assert stopped_and_started(state) == ([], [])


def test_a_job_that_cannot_give_way_is_left_alone() -> None:
    state = box(1, Job(JobId("a"), 1, preemptible=False))
    state.record(replica(0))
    assert stopped_and_started(state) == ([], [])


def cost(save_s: float, restore_s: float) -> Interruption:
    return Interruption(save_s, restore_s)


def test_of_equally_important_jobs_the_one_gives_way_that_loses_least() -> None:
    state = box(
        3,
        Job(JobId("dear"), 1, interruption=cost(30.0, 60.0)),
        Job(JobId("cheap"), 1, interruption=cost(1.0, 2.0)),
        Job(JobId("middle"), 1, interruption=cost(5.0, 5.0)),
    )
    state.record(replica(0))
    assert stopped_and_started(state) == (["cheap"], ["r0"])
    assert state.tracks[JobId("cheap")].notes[GAVE_WAY] == {
        "to": "r0",
        "gpu_s": 3.0,
        "other": "middle",
        "other_gpu_s": 10.0,
    }


def test_a_job_that_may_be_killed_has_its_work_to_lose_until_it_has_been_suspended_once() -> None:
    state = box(
        2,
        Job(JobId("untried"), 1, restartable=True),
        Job(JobId("tried"), 1, restartable=True, interruption=cost(1.0, 1.0)),
    )
    for name in ("untried", "tried"):
        state.record(Started(1.0, JobId(name)))
    state.tracks[JobId("tried")].saved_in_s = 2.0
    state.record(Submitted(600.0, replica(0).job))
    assert stopped_and_started(state) == (["tried"], ["r0"])


def test_a_job_on_many_gpus_loses_more_than_one_on_few() -> None:
    state = box(
        5,
        Job(JobId("many"), 4, interruption=cost(10.0, 10.0)),
        Job(JobId("few"), 1, interruption=cost(20.0, 20.0)),
    )
    state.record(replica(0))
    assert stopped_and_started(state) == (["few"], ["r0"])


def test_a_replica_of_a_daemon_before_stays_too() -> None:
    state = box(1)
    state.record(replica(0))
    stopped_and_started(state)
    stays = state.tracks[JobId("r0")].pinned
    state.tracks[JobId("r0")].pinned = ""
    assert restore(take(state), 10).tracks[JobId("r0")].pinned == stays != ""


@pytest.mark.parametrize("job", [replica(0).job, Job(JobId("r0"), 1, preemptible=False)])
def test_what_stays_by_its_kind_or_user_stays_once_its_world_pins_it_no_more(job: Job) -> None:
    state = box(1)
    state.record(Submitted(2.0, job))
    state.record(Start(job.id, placement((0, 1))))
    state.record(Started(3.0, job.id))
    stays = state.tracks[job.id].pinned
    assert stays
    state.record(Pinned(4.0, job.id, "it uses NCCL"))
    assert state.tracks[job.id].pinned == "it uses NCCL"
    state.record(Unpinned(5.0, job.id))
    assert state.tracks[job.id].pinned == stays
