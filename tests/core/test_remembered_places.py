"""What the book remembers of places that were too small, against looking everywhere each time."""

from random import Random

import pytest

from dovetail.core.entries import Finished, NodeJoined, Occupied, Start, Submitted
from dovetail.core.freed import FreedHosts
from dovetail.core.model import WHOLE_GPU, JobId, Node, Placement, Slice
from dovetail.core.plan import Plan
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.state import State
from dovetail.policies.placement import consolidated
from dovetail.testing import job, placement


def everywhere(room: Room, shape: Shape) -> Placement | None:
    """Where `consolidated` puts jobs that ask for CPUs, by looking at every node."""
    open_nodes = [n for n in range(len(room.nodes)) if room.open[n]]
    if not shape.gpus:
        fitting = [(room.count[n], n) for n in open_nodes if room.host_has(n, shape, 0)]
        return Placement((Slice(min(fitting)[1], 0),)) if fitting else None
    if shape.share != WHOLE_GPU:
        return shared_everywhere(room, shape, open_nodes)
    by_room = sorted(open_nodes, key=lambda n: (room.count[n], n))
    for n in by_room:
        if room.count[n] >= shape.gpus and room.host_has(n, shape, shape.gpus):
            return Placement((Slice(n, room.lowest(n, shape.gpus)),))
    if sum(room.count[n] for n in open_nodes) < shape.gpus:
        return None
    slices, left = [], shape.gpus
    for n in sorted(open_nodes, key=lambda n: (-room.count[n], n)):
        most = min(left, room.count[n])
        taken = max(k for k in range(most + 1) if not k or room.host_has(n, shape, k))
        if taken:
            slices.append(Slice(n, room.lowest(n, taken)))
            left -= taken
        if not left:
            return Placement(tuple(slices))
    return None


def shared_everywhere(room: Room, shape: Shape, nodes: list[int]) -> Placement | None:
    halves = [
        (left, n, gpu)
        for (n, gpu), left in room.shares.items()
        if left >= shape.share and n in nodes and room.host_has(n, shape, 1)
    ]
    if halves:
        _, n, gpu = min(halves)
        return Placement((Slice(n, 1 << gpu),), shape.share)
    whole = [(room.count[n], n) for n in nodes if room.count[n] and room.host_has(n, shape, 1)]
    if not whole:
        return None
    n = min(whole)[1]
    return Placement((Slice(n, room.lowest(n, 1)),), shape.share)


ASKED = (
    *((1, 1000, 2.0, 0.0), (1, 1000, 5.0, 3.0), (2, 1000, 6.0, 1.0), (4, 1000, 4.0, 30.0)),
    *((6, 1000, 13.2, 0.0), (1, 500, 1.0, 0.0), (1, 250, 3.0, 2.0), (0, 1000, 3.0, 0.0)),
    *((12, 1000, 24.0, 12.0), (0, 1000, 1.0, 9.0), (3, 1000, 0.0, 20.0)),
)


def shapes_for(room: Room) -> list[Shape]:
    shapes = [
        Shape(lane, job(gpus=gpus, share=share, cpus=cpus, memory_gb=memory_gb), "")
        for lane, (gpus, share, cpus, memory_gb) in enumerate(ASKED)
    ]
    return [shape for shape in shapes if not room.why_never(shape)]


@pytest.mark.parametrize("seed", range(40))
def test_places_are_found_as_by_looking_everywhere(seed: int) -> None:
    chance, room = Random(f"places/{seed}"), Room()
    for i in range(chance.randint(1, 5)):
        room.add(Node(f"n{i}", chance.choice([2, 4, 8]), cpus=8.0, memory_gb=32.0))
    shapes = shapes_for(room)
    taken: list[tuple[Placement, Shape]] = []
    for _ in range(300):
        shape, what = chance.choice(shapes), chance.random()
        for own in chance.sample(shapes, 2):
            assert consolidated(room, own) == everywhere(room, own)
        if what < 0.55:
            found = consolidated(room, shape)
            if found is not None:
                room.take(found, shape)
                taken.append((found, shape))
        elif what < 0.85 and taken:
            room.give(*taken.pop(chance.randrange(len(taken))))
        elif what < 0.93:
            n = chance.randrange(len(room.nodes))
            room.set_open(n, not room.open[n])
        else:
            host = (chance.choice([0.0, 3.3, 12.0]), chance.choice([0.0, 7.0, 40.0]))
            room.set_strangers(chance.randrange(len(room.nodes)), chance.randrange(4), *host)
        if chance.random() < 0.2 and taken:
            try_out(chance, room, taken, shapes)


def try_out(
    chance: Random, room: Room, taken: list[tuple[Placement, Shape]], shapes: list[Shape]
) -> None:
    """In draft, and then back."""
    for given in chance.sample(taken, chance.randint(1, len(taken))):
        room.draft_give(*given)
        shape = chance.choice(shapes)
        found = consolidated(room, shape)
        assert found == everywhere(room, shape)
        if found is not None and chance.random() < 0.5:
            room.draft_take(found, shape)
    room.rollback()


@pytest.mark.parametrize("seed", range(20))
def test_stopping_jobs_makes_room_exactly_when_it_is_counted_to(seed: int) -> None:
    chance, state = Random(f"stops/{seed}"), State()
    for i in range(4):
        state.record(NodeJoined(0.0, Node(f"n{i}", 8, cpus=16.0, memory_gb=64.0)))
    for i in range(60):
        gpus, cpus = chance.choice([1, 2, 4, 12, 0]), chance.choice([1.0, 2.0, 3.3])
        asked = job(f"j{i}", gpus, cpus=cpus * max(gpus, 1), memory_gb=chance.choice([0.0, 4.0]))
        state.record(Submitted(0.0, asked))
        found = consolidated(state.room, state.tracks[JobId(f"j{i}")].shape)
        if found is not None:
            state.record(Start(JobId(f"j{i}"), found))
    waiting = [track for track in state.tracks.values() if track.placement is None]
    for track in [track for track in waiting if track.shape.gpus][:10]:
        assert consolidated(state.room, track.shape) is None
        hosts = FreedHosts(state.room, state.room.pools[0], track.shape)
        plan = Plan(state, consolidated)
        for victim in chance.sample(list(state.running.values()), len(state.running)):
            hosts.add(victim)
            plan.stop(victim)
            assert (hosts.gpus >= track.shape.gpus) == (plan.place(track) is not None)
        state.settle()


def test_a_release_looks_for_strangers_on_its_own_nodes_only() -> None:
    """Also on nodes that were given back in a draft, which nobody looked at then."""
    state = State()
    for i in range(50):
        state.record(NodeJoined(0.0, Node(f"n{i}", 2)))
    for n, name in enumerate("abc"):
        state.record(Submitted(0.0, job(name)))
        state.record(Start(JobId(name), placement((n, 1))))
    for i in range(50):
        state.record(Occupied(1.0, f"n{i}", 0b01))
    plan, changes = Plan(state, consolidated), state.room.changes
    plan.stop(state.tracks[JobId("a")])
    for action in plan.actions:
        state.record(action)
    assert state.room.changes == changes
    state.record(Finished(2.0, JobId("b")))
    assert state.room.changes == changes + 2
    assert [state.room.free[n] for n in range(3)] == [0b10, 0b10, 0b10]
    state.record(Finished(3.0, JobId("c")))
    assert state.room.changes == changes + 3
    assert state.room.free[2] == 0b10
