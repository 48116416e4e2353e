"""Plans: what is tried, and in which order it is said."""

from dovetail.core.entries import NodeJoined, Preempt, Start, Submitted
from dovetail.core.model import Node
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
