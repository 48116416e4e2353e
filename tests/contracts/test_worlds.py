"""What the simulated world keeps, whatever is drawn for it; for every world see the shipped contract."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given

from chances import CHANCES
from dovetail.core.entries import NodeJoined, Submitted
from dovetail.core.journal import Journal
from dovetail.core.loop import Backend, refuse_unplaceable
from dovetail.core.state import State
from dovetail.policies.queueing import FifoSkip
from dovetail.testing import World, random_world

BACKENDS: dict[str, Callable[[World], Backend]] = {"simulated": World.cluster}
WORLDS = CHANCES.map(random_world)
every_backend = pytest.mark.parametrize("name", BACKENDS)


def told_by(backend: Backend) -> list[list[float]]:
    """Run to the end, checking every turn; the times of the events of each turn."""
    state, policy, turns = State(), FifoSkip(), []
    while events := backend.observe():
        for event in events:
            state.record(event)  # a world never tells what contradicts what it told before
        turns.append([event.at for event in events])
        refuse_unplaceable(backend, state, Journal(lambda entries, times: None))
        for action in list(policy.decide(state)):
            state.record(action)
            backend.act(action)
        state.settle()
    assert not state.tracks
    return turns


@every_backend
@given(world=WORLDS)
def test_time_never_runs_backwards(name: str, world: World) -> None:
    times = [at for turn in told_by(BACKENDS[name](world)) for at in turn]
    assert times == sorted(times)


@every_backend
@given(world=WORLDS)
def test_each_turn_ends_at_a_later_instant_or_with_something_new(name: str, world: World) -> None:
    turns = told_by(BACKENDS[name](world))
    assert all(turn for turn in turns)
    assert len(turns) <= 20 * (len(world.arrivals) + len(world.node_events) + 1)


@every_backend
@given(world=WORLDS)
def test_a_world_that_is_over_stays_over(name: str, world: World) -> None:
    backend = BACKENDS[name](world)
    told_by(backend)
    assert not backend.observe()
    assert not backend.observe()


@every_backend
@given(world=WORLDS)
def test_nodes_are_told_before_the_jobs_that_need_them(name: str, world: World) -> None:
    first = BACKENDS[name](world).observe()
    kinds = [type(event) for event in first]
    assert kinds[: len(world.nodes)] == [NodeJoined] * len(world.nodes)
    assert Submitted not in kinds[: len(world.nodes) + len(world.tenants)]


@every_backend
def test_two_worlds_do_not_touch_each_other(name: str) -> None:
    world = random_world(Random("7"))
    first, second = BACKENDS[name](world), BACKENDS[name](world)
    assert first.observe() == second.observe()
    alone = told_by(BACKENDS[name](world))
    assert told_by(BACKENDS[name](world)) == alone
