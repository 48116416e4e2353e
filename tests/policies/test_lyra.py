"""Lyra: what services leave is lent to training, and taken back where fewest jobs stop."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chances import CHANCES
from dovetail.core.entries import (
    Amended,
    Cancelled,
    Finished,
    Held,
    NodeJoined,
    Preempt,
    Released,
    Resize,
    Start,
    Started,
    Submitted,
    Woke,
)
from dovetail.core.model import Interruption, Job, JobId, Node, Placement
from dovetail.core.shape import Shape
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.models.speed import by_kind_and_placement
from dovetail.policies.elastic.claims import CountClaim
from dovetail.policies.elastic.optimus import share_out
from dovetail.policies.lyra.policy import Lyra
from dovetail.testing import (
    World,
    arrival,
    check_ends_and_laws,
    check_purity,
    check_replay,
    check_restart,
    job,
    nodes,
    placement,
    policy_for,
    random_world,
    run_trace,
    with_elastic_jobs,
)


def running(*jobs: tuple[Job, Placement], servers: int = 3, gpus: int = 4) -> State:
    state = State()
    for n in range(servers):
        state.record(NodeJoined(0.0, Node(f"n{n}", gpus)))
    for own, where in jobs:
        state.record(Submitted(0.0, own))
        state.record(Start(own.id, where))
    for own, _ in jobs:
        state.record(Started(0.0, own.id))
    return state


def replica(name: str = "replica", gpus: int = 4, **rest: float) -> Job:
    return job(name, gpus, priority=10.0, preemptible=False, **rest)


def decided(state: State, at: float = 300.0) -> tuple[list[str], list[str], list[str]]:
    """Who stops, who becomes smaller, who starts."""
    state.record(Submitted(at, replica()))
    actions = list(Lyra(elastic=False).decide(state))
    for action in actions:
        if isinstance(action, Preempt | Resize | Start):
            state.record(action)
    return (
        [str(action.job_id) for action in actions if isinstance(action, Preempt)],
        [str(action.job_id) for action in actions if isinstance(action, Resize)],
        [str(action.job_id) for action in actions if isinstance(action, Start)],
    )


def test_of_three_servers_the_one_is_taken_back_that_stops_one_job_and_not_two() -> None:
    """One job on the first server; two jobs that each span the other two."""
    state = running(
        (job("alone", 4), placement((0, 0b1111))),
        (job("wide1", 4), placement((1, 0b0011), (2, 0b0011))),
        (job("wide2", 4), placement((1, 0b1100), (2, 0b1100))),
    )
    assert decided(state) == (["alone"], [], ["replica"])


def test_a_job_over_two_servers_makes_both_cheap() -> None:
    """For two replicas one job stops instead of two."""
    state = running(
        (job("a", 4), placement((0, 0b1111))),
        (job("b", 4), placement((1, 0b1111))),
        (job("wide", 8), placement((2, 0b1111), (3, 0b1111))),
        servers=4,
    )
    state.record(Submitted(300.0, replica("first")))
    assert decided(state) == (["wide"], [], ["first", "replica"])


def test_elastic_jobs_become_smaller_before_any_job_stops() -> None:
    state = running(
        (job("alone", 4), placement((0, 0b1111))),
        (job("grown", 8, min_gpus=4), placement((1, 0b1111), (2, 0b1111))),
    )
    stopped, smaller, started = decided(state)
    assert (stopped, smaller, started) == ([], ["grown"], ["replica"])
    own = state.tracks[JobId("grown")].placement
    assert own is not None
    assert own.gpus == 4


def test_where_servers_are_equal_the_one_that_loses_least_work_is_taken() -> None:
    state = running(
        (job("dear", 4, interruption=Interruption(60.0, 60.0)), placement((0, 0b1111))),
        (job("cheap", 4, interruption=Interruption(1.0, 1.0)), placement((1, 0b1111))),
        (job("middle", 4, interruption=Interruption(9.0, 9.0)), placement((2, 0b1111))),
    )
    assert decided(state)[0] == ["cheap"]


def test_a_job_that_cannot_give_way_keeps_its_server() -> None:
    state = running((job("pinned", 4, preemptible=False), placement((0, 0b1111))), servers=1)
    assert decided(state) == ([], [], [])


def test_what_is_lent_is_taken_back_within_five_minutes_and_free_room_is_used_at_once() -> None:
    arrivals = [
        arrival("training", 0.0, 5000.0, 8),
        arrival("early", 0.0, 100.0, 4, priority=10.0, preemptible=False),
        arrival("late", 450.0, 100.0, 4, priority=10.0, preemptible=False),
    ]
    run = run_trace("lyra", arrivals, nodes(3, 4))
    assert run.first_starts["early"] == 0.0
    assert run.first_starts["late"] == 450.0
    run = run_trace("lyra", arrivals, nodes(2, 4))
    assert run.first_starts["late"] == 600.0


@pytest.mark.parametrize("text", ["fifo", "srtf", "las", "sjf-skip"])
def test_without_replicas_and_elastic_jobs_it_is_the_policy_that_it_is_over(text: str) -> None:
    arrivals = [
        arrival(f"j{i}", 7.0 * i, 100.0 + 61.0 * (i % 5), 1 + i % 4, preemptible=i % 3 > 0)
        for i in range(20)
    ]
    alone = run_trace(text, arrivals, nodes(2, 4))
    under = run_trace(f"lyra:policy={text}", arrivals, nodes(2, 4))
    assert under.ends_at == alone.ends_at
    assert under.first_starts == alone.first_starts


def test_an_elastic_job_grows_on_what_is_lent_and_shrinks_when_it_is_taken_back() -> None:
    cost = Interruption(0.0, 1.0)
    arrivals = [
        arrival("training", 0.0, 8000.0, 4, min_gpus=2, max_gpus=12, interruption=cost),
        arrival("replica", 900.0, 900.0, 4, priority=10.0, preemptible=False),
    ]
    speed = by_kind_and_placement({}, scaling=1.0)
    run = run_trace("lyra:speeds=none/scaling=1", arrivals, nodes(3, 4), speed=speed)
    counts = [
        entry.placement.gpus
        for _, entry in run.entries
        if isinstance(entry, Start | Resize) and entry.job_id == "training"
    ]
    assert counts == [4, 12, 8, 12]
    assert not run.of(Preempt)
    assert run.first_starts["replica"] == 900.0


def test_a_waiting_job_has_what_it_asks_for_before_others_have_more() -> None:
    arrivals = [
        arrival("first", 0.0, 4000.0, 2, max_gpus=8),
        arrival("second", 310.0, 400.0, 6),
    ]
    run = run_trace("lyra", arrivals, nodes(2, 4), speed=by_kind_and_placement({}))
    assert run.first_starts["second"] == 600.0
    assert not run.of(Preempt)


def test_the_extra_gpus_are_shared_out_as_the_best_of_all_ways() -> None:
    """The gain of n GPUs is left · (1/base - 1/n): the greedy sharing is the knapsack's optimum."""

    def claim(base: int, most: int) -> CountClaim:
        own = job("j", base, max_gpus=most)
        return CountClaim(Track(own, Shape(0, own, ""), 0, 0.0, 0), range(base, most + 1), float)

    claims, left = [claim(1, 6), claim(2, 8), claim(3, 4)], [700.0, 3000.0, 900.0]
    for gpus in range(6, 18):
        given = share_out(gpus, claims, left)
        assert None not in given
        best = max(
            sum(
                s * (1 / own.counts[0] - 1 / n) for s, own, n in zip(left, claims, way, strict=True)
            )
            for way in product(*[own.counts for own in claims])
            if sum(way) <= gpus
        )
        gains = [
            s * (1 / own.counts[0] - 1 / n)
            for s, own, n in zip(left, claims, given, strict=True)
            if n is not None
        ]
        assert sum(gains) == pytest.approx(best)


def with_replicas(world: World, chance: Random) -> World:
    """A third of the jobs are replicas of services."""
    changed = [
        replace(came, job=replace(came.job, preemptible=False, priority=3.0))
        if chance.random() < 0.33
        else came
        for came in world.arrivals
    ]
    return replace(world, arrivals=changed)


@pytest.mark.parametrize("inner", ["srtf", "las/quantum=60", "easy", "fifo"])
@given(chance=CHANCES, turns=st.integers(0, 20))
def test_worlds_with_replicas_keep_the_contract(inner: str, chance: Random, turns: int) -> None:
    text = f"lyra:policy={inner}:round_s=6"
    world = with_replicas(with_elastic_jobs(random_world(chance), chance), chance)
    check_ends_and_laws(world, lambda: policy_for(world, text))
    check_purity(world, lambda: policy_for(world, text))
    check_replay(world, lambda: policy_for(world, text), turns)
    check_restart(world, lambda: policy_for(world, text), turns)


@given(chance=CHANCES)
def test_a_replica_is_never_stopped_and_waits_only_for_others_that_cannot_be(
    chance: Random,
) -> None:
    """One GPU each, and never more replicas than GPUs: none waits longer than a round."""
    replicas = [
        arrival(
            f"r{i}",
            chance.uniform(0.0, 100.0),
            chance.uniform(1.0, 60.0),
            priority=3.0,
            preemptible=False,
        )
        for i in range(4)
    ]
    training = [
        arrival(f"t{i}", chance.uniform(0.0, 100.0), chance.uniform(1.0, 90.0), 1 + i % 3)
        for i in range(8)
    ]
    came = sorted([*replicas, *training], key=lambda one: one.at)
    run = run_trace("lyra:policy=srtf:round_s=5", came, nodes(2, 2))
    stopped = {entry.job_id for _, entry in run.entries if isinstance(entry, Preempt)}
    assert not stopped & {one.job.id for one in replicas}
    for one in replicas:
        assert run.first_starts[one.job.id] - one.at <= 5.0 + 1e-6


def test_replicas_that_wait_are_known_however_they_came_to_wait() -> None:
    state, lyra = running((job("training", 4), placement((0, 0b1111))), servers=1), Lyra()
    assert not lyra.decide(state)  # from now on an index follows the replicas
    state.record(Submitted(1.0, replica("held")))
    state.record(Held(1.0, JobId("held"), "by its user"))
    state.record(Submitted(1.0, replica("amended")))
    state.record(Amended(1.0, replica("amended", 2)))
    state.record(Submitted(1.0, replica("cancelled")))
    state.record(Cancelled(2.0, JobId("cancelled")))
    state.record(Woke(300.0))
    actions = list(lyra.decide(state))
    assert [type(action) for action in actions[:2]] == [Preempt, Start]
    for action in actions:
        state.record(action)
    state.settle()
    assert list(state.running) == [JobId("amended")]
    state.record(Started(301.0, JobId("amended")))
    state.record(Released(302.0, JobId("held")))
    state.record(Finished(303.0, JobId("amended")))
    started = [own.job_id for own in lyra.decide(state) if isinstance(own, Start)]
    assert started == [JobId("held")]
