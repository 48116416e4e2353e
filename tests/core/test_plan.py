"""Plans: what is tried, and in which order it is said."""

import pytest

from dovetail.core.entries import (
    NodeDraining,
    NodeJoined,
    Preempt,
    Saved,
    Start,
    Submitted,
    TenantSet,
)
from dovetail.core.errors import IllegalEntry
from dovetail.core.freed import Freed
from dovetail.core.model import JobId, Node, Placement, Tenant
from dovetail.core.plan import Plan
from dovetail.core.state import State
from dovetail.policies.placement import consolidated
from dovetail.testing import fingerprint, job, placement


def test_a_start_that_relies_on_a_later_stop_comes_after_it() -> None:
    state = State()
    state.record(NodeJoined(0.0, Node("n0", 3, memory_gb=12.0)))
    for number, name in enumerate("abc"):
        state.record(Submitted(0.0, job(name, memory_gb=4.0)))
        state.record(Start(JobId(name), placement((0, 1 << number))))
    state.record(Submitted(0.0, job("large", memory_gb=8.0)))
    a, b, c, large = (state.tracks[JobId(name)] for name in ("a", "b", "c", "large"))

    plan = Plan(state, consolidated)
    plan.stop(a)
    plan.stop(b)
    plan.start_at(large, placement((0, 1)))  # on the memory of a and b
    plan.stop(c)
    assert plan.keep(b)  # now it is on that of a and c
    assert plan.actions == [
        Preempt(JobId("a")),
        Preempt(JobId("c")),
        Start(JobId("large"), placement((0, 1))),
    ]

    for action in plan.actions:
        state.record(action)


def test_a_stop_is_taken_back_where_the_job_holds_less_than_it_asked_for() -> None:
    """Half of two GPUs is one GPU of the quota, which has room for no more."""
    state = State()
    state.record(NodeJoined(0.0, Node("n0", 2)))
    state.record(TenantSet(0.0, Tenant("us", 2.0)))
    for name in "ab":
        state.record(Submitted(0.0, job(name, 2, tenant="us")))
        state.record(Start(JobId(name), placement((0, 0b11), share=500)))

    plan = Plan(state, consolidated)
    plan.stop(state.tracks[JobId("b")])
    assert plan.keep(state.tracks[JobId("b")])
    assert plan.actions == []


def test_gpus_that_are_kept_for_a_job_take_their_part_of_its_cpus() -> None:
    """All of its CPUs would be more than the node has: then a stop could not be taken back."""
    state = State()
    state.record(NodeJoined(0.0, Node("n0", 8, cpus=16.0, memory_gb=64.0)))
    state.record(NodeJoined(0.0, Node("n1", 8, cpus=16.0, memory_gb=64.0)))
    state.record(Submitted(0.0, job("runs", 6, cpus=10.0)))
    state.record(Start(JobId("runs"), placement((0, 0b111111))))
    state.record(Submitted(0.0, job("gang", 12, cpus=24.0, memory_gb=48.0)))
    runs, gang = (state.tracks[JobId(name)] for name in ("runs", "gang"))

    plan = Plan(state, consolidated)
    plan.reserve(placement((0, 0b11000000)), gang)
    assert (plan.room.cpus[0], plan.room.memory_gb[0]) == (2.0, 56.0)
    plan.stop(runs)
    assert plan.keep(runs)
    assert plan.actions == []
    state.settle()
    assert state.room.cpus[0] == 6.0


def test_shared_gpus_are_freed_by_the_last_that_is_stopped() -> None:
    state = State()
    state.record(NodeJoined(0.0, Node("n0", 4)))
    places = {
        "a": placement((0, 0b011), share=500),
        "b": placement((0, 0b011), share=500),
        "c": placement((0, 0b100)),
    }
    for name, where in places.items():
        state.record(Submitted(0.0, job(name, where.gpus)))
        state.record(Start(JobId(name), where))
    a, b, c = (state.tracks[JobId(name)] for name in "abc")

    freed = Freed(state.room)
    assert [freed.add(a), freed.add(c), freed.add(b)] == [0, 1, 2]
    assert [freed.loses(a), freed.loses(c)] == [2, 1]
    freed.remove(a)
    assert freed.loses(b) == 0


# --------------------------------------------------------------- what a policy hands in is checked


def two_nodes() -> State:
    state = State()
    for node in (Node("ours", 2), Node("theirs", 2, tenant="them"), Node("old", 2, "old")):
        state.record(NodeJoined(0.0, node))
    state.record(TenantSet(0.0, Tenant("us", 3.0)))
    for name in "abc":
        state.record(Submitted(0.0, job(name, 2, tenant="us", kinds=("gpu",))))
    state.record(NodeDraining(0.0, "old"))
    return state


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ([placement((0, 0b11)), placement((0, 0b11))], "which has 0 free"),
        ([placement((1, 0b11))], "for tenant 'them' alone"),
        ([placement((2, 0b11))], "down, draining or gone"),
        ([placement((0, 0b1))], "with 1 GPUs"),
        ([placement((0, 0b110))], "has only 2 GPUs"),
        ([placement((7, 0b11))], "no node number 7"),
        ([placement((0, 0b11)), placement((0, 0b01), (1, 0b01))], "cannot start job 'b'"),
    ],
)
def test_a_start_that_was_drafted_is_checked_like_any_other(
    where: list[Placement], says: str
) -> None:
    state = two_nodes()
    before = fingerprint(state)
    plan = Plan(state, consolidated)
    with pytest.raises(IllegalEntry, match=says):
        tried(state, plan, where)
    state.settle()
    assert fingerprint(state) == before


def tried(state: State, plan: Plan, where: list[Placement]) -> None:
    for name, place in zip("abc", where, strict=False):
        plan.start_at(state.tracks[JobId(name)], place)
    for action in plan.actions:
        state.record(action)


def test_nobody_starts_anew_on_a_node_that_is_closed_though_it_may_stay_there() -> None:
    state = two_nodes()
    state.record(Start(JobId("a"), placement((0, 0b11))))
    state.record(NodeDraining(1.0, "ours"))
    running = state.running[JobId("a")]
    plan = Plan(state, consolidated)
    plan.stop(running)
    assert plan.keep(running)
    assert plan.actions == []
    assert running.placement is not None
    state.record(Preempt(JobId("a")))
    with pytest.raises(IllegalEntry, match="down, draining or gone"):
        state.record(Start(JobId("a"), placement((0, 0b11))))


def test_what_a_placement_rule_of_ours_has_found_is_not_looked_at_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = two_nodes()
    plan = Plan(state, consolidated)
    assert plan.start(state.tracks[JobId("a")])
    monkeypatch.setattr(type(state.room), "check", None)
    for action in plan.actions:
        state.record(action)
    assert list(state.running) == ["a"]


def test_a_rule_of_somebody_else_is_not_trusted() -> None:
    state = two_nodes()
    plan = Plan(state, lambda room, shape: room.single(1, 0b11))
    with pytest.raises(IllegalEntry, match=r"'a' at t=0: .* for tenant 'them' alone"):
        plan.start(state.tracks[JobId("a")])


def test_a_suspended_job_goes_on_where_its_processes_are_if_there_is_room() -> None:
    state = State()
    for name in ("n0", "n1"):
        state.record(NodeJoined(0.0, Node(name, 2)))
    state.record(Submitted(0.0, job("a")))
    state.record(Start(JobId("a"), placement((1, 1))))
    state.record(Preempt(JobId("a")))
    a = state.tracks[JobId("a")]
    assert Plan(state, consolidated).place(a) == placement((0, 1))  # it has ended there, or will
    state.record(Saved(1.0, JobId("a"), "freeze", 0.1, 1000, True))
    assert Plan(state, consolidated).place(a) == placement((1, 1))
    state.record(Submitted(1.0, job("b", gpus=2)))
    state.record(Start(JobId("b"), placement((1, 3))))
    assert Plan(state, consolidated).place(a) == placement((0, 1))
