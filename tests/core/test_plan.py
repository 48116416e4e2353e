"""Plans: what is tried, and in which order it is said."""

from dovetail.core.entries import NodeJoined, Preempt, Start, Submitted, TenantSet
from dovetail.core.freed import Freed
from dovetail.core.model import Node, Tenant
from dovetail.core.plan import Plan
from dovetail.core.state import State
from dovetail.policies.placement import consolidated
from dovetail.testing import job, placement


def test_a_start_that_relies_on_a_later_stop_comes_after_it() -> None:
    state = State()
    state.record(NodeJoined(0.0, Node("n0", 3, memory_gb=12.0)))
    for number, name in enumerate("abc"):
        state.record(Submitted(0.0, job(name, memory_gb=4.0)))
        state.record(Start(name, placement((0, 1 << number))))
    state.record(Submitted(0.0, job("large", memory_gb=8.0)))
    a, b, c, large = (state.tracks[name] for name in ("a", "b", "c", "large"))

    plan = Plan(state, consolidated)
    plan.stop(a)
    plan.stop(b)
    plan.start_at(large, placement((0, 1)))  # on the memory of a and b
    plan.stop(c)
    assert plan.keep(b)  # now it is on that of a and c
    assert plan.actions == [Preempt("a"), Preempt("c"), Start("large", placement((0, 1)))]

    for action in plan.actions:
        state.record(action)


def test_a_stop_is_taken_back_where_the_job_holds_less_than_it_asked_for() -> None:
    """Half of two GPUs is one GPU of the quota, which has room for no more."""
    state = State()
    state.record(NodeJoined(0.0, Node("n0", 2)))
    state.record(TenantSet(0.0, Tenant("us", 2.0)))
    for name in "ab":
        state.record(Submitted(0.0, job(name, 2, tenant="us")))
        state.record(Start(name, placement((0, 0b11), share=500)))

    plan = Plan(state, consolidated)
    plan.stop(state.tracks["b"])
    assert plan.keep(state.tracks["b"])
    assert plan.actions == []


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
        state.record(Start(name, where))
    a, b, c = (state.tracks[name] for name in "abc")

    freed = Freed(state.room)
    assert [freed.add(a), freed.add(c), freed.add(b)] == [0, 1, 2]
    assert [freed.loses(a), freed.loses(c)] == [2, 1]
    freed.remove(a)
    assert freed.loses(b) == 0
