"""Which running jobs frugal stops for one that asks for CPUs, memory, shares or several nodes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from benchmarks.journals import crowded_world
from hypothesis import given

from chances import CHANCES
from dovetail.core.entries import NodeDraining, NodeJoined, Start, Started, Submitted
from dovetail.core.inventory import Pool
from dovetail.core.model import Job, JobId, Node
from dovetail.core.shape import Shape
from dovetail.core.state import State
from dovetail.models.cost import Costs
from dovetail.policies.andreas.drafting import BooksSpec, ProblemDraft
from dovetail.policies.frugal.guests import Guest, Guests
from dovetail.policies.placement import consolidated
from dovetail.predict.duration import UserEstimate
from dovetail.testing import policy_for, run_world


def crowded(chance: Random) -> State:
    """A few nodes of two kinds, one of them perhaps closed, with gangs, shares and waiting jobs."""
    state = State()
    for i in range(chance.randint(2, 9)):
        kind = chance.choice(["a", "a", "b"])
        state.record(NodeJoined(0.0, Node(f"n{i}", chance.choice([4, 8]), kind, cpus=16.0)))
    for i in range(chance.randint(1, 30)):
        state.record(Submitted(0.0, _job(chance, i)))
        track = state.tracks[JobId(f"j{i}")]
        found = consolidated(state.room, track.shape) if chance.random() < 0.7 else None
        if found is not None:
            state.record(Start(track.job.id, found))
            state.record(Started(0.0, track.job.id))
    if chance.random() < 0.3:
        state.record(NodeDraining(0.0, "n0"))
    return state


def _job(chance: Random, number: int) -> Job:
    gpus = chance.choice([1, 1, 2, 4, 8, 12])
    cpus, share = chance.choice([0.0, 1.0, 4.0]), 1000
    parts = chance.choice([0, 0, 2]) if gpus > 1 else 0
    if gpus == 1 and chance.random() < 0.2:
        share = 500
    return Job(JobId(f"j{number}"), gpus, cpus=cpus, share=share, nodes=parts)


def guests_of(state: State, chance: Random) -> list[Guest]:
    found = []
    for track in state.running.values():
        assert track.placement is not None
        gpus = {n: mask.bit_count() for n, mask in track.placement.slices}
        found.append(Guest(track, gpus, chance.choice([0.0, 0.0, 1.0, 2.0, 3.0])))
    return found


def greedy(state: State, pool: Pool, shape: Shape, guests: Sequence[Guest]) -> list[Guest]:
    """The rule written out: the nodes that could be emptiest first, on each the least worth first."""
    room = state.room
    free = {n: room.count[n] for n in pool.members if room.open[n]}
    could = {n: free[n] + sum(guest.gpus.get(n, 0) for guest in guests) for n in free}
    needed, victims = shape.gpus, list[Guest]()
    for n in sorted(could, key=lambda n: (-could[n], n)):
        for guest in guests:
            if free[n] < min(needed, shape.each) and n in guest.gpus and guest not in victims:
                victims.append(guest)
                for other, more in guest.gpus.items():
                    free[other] = free.get(other, 0) + more
        needed -= free[n] if not shape.nodes else shape.each * (free[n] >= shape.each)
        if needed <= 0:
            return victims
    return []


@given(chance=CHANCES)
def test_who_is_stopped_is_found_by_the_rule_however_many_have_asked_before(chance: Random) -> None:
    state = crowded(chance)
    all_guests = guests_of(state, chance)
    kept = Guests(state.room, all_guests)
    gone: list[Guest] = []
    for worth in (4.0, 3.0, 2.0, 1.0, 0.5):
        kept.spare(worth)
        weak = [guest for guest in all_guests if guest.worth < worth and guest not in gone]
        weak.sort(key=lambda guest: guest.worth)
        for track in state.tracks.values():
            shape = track.shape
            found = [greedy(state, pool, shape, weak) for pool in state.room.eligible(shape)]
            expected = min([some for some in found if some], key=len, default=[])
            assert kept.to_stop_for(shape) == expected
        if weak and chance.random() < 0.5:  # one is stopped, and its GPUs are free from now on
            victim = chance.choice(weak)
            assert victim.track.placement is not None
            state.room.draft_give(victim.track.placement, victim.track.shape)
            gone.append(victim)
            kept.stopped([victim])


def test_who_was_stopped_in_vain_goes_on_where_nodes_are_kept_free_for_others() -> None:
    """A gang for which GPUs were kept free took all of its CPUs there; a job that was to give way to
    another could not be kept then, and was stopped twice."""
    world = crowded_world(Random("journals/29"))
    ended = run_world(world, policy_for(world, "frugal", "topology")).ended
    assert len(ended) == len(world.arrivals)


@given(chance=CHANCES)
def test_a_draft_without_the_decided_is_as_if_they_had_never_been_in_it(chance: Random) -> None:
    state = crowded(chance)
    books = BooksSpec(Costs(), UserEstimate()).of(state)
    draft = ProblemDraft(state, books, movable=True)
    tracks, others = list(draft.tracks), list(draft.others)
    demands = {demand.job_id: demand.left for demand in draft.problem.demands}
    decided = {job_id for job_id in state.tracks if chance.random() < 0.4}
    draft.leave_out(decided)
    assert draft.tracks == [track for track in tracks if track.job.id not in decided]
    assert draft.others == [track for track in others if track.job.id not in decided]
    left = {demand.job_id: demand.left for demand in draft.problem.demands}
    assert left == {job_id: some for job_id, some in demands.items() if job_id not in decided}
    moved = {demand.node: 0 for demand in draft.problem.demands}
    for demand in draft.problem.demands:
        moved[demand.node] += demand.gpus
    for pool in draft.problem.pools:
        free = [state.room.count[n] + moved.get(n, 0) for n in pool.nodes]
        assert pool.free == free
