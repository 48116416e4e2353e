"""ElasticFlow, Chronus and GENIE in the simulated world: what they promise they keep."""

from __future__ import annotations

from random import Random

import pytest

from dovetail.core.entries import NodeJoined, Refuse, Resize, Start, Submitted
from dovetail.core.model import Interruption, Node, Placement
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.state import State
from dovetail.core.track import Phase
from dovetail.models.speed import by_kind_and_placement
from dovetail.models.workload import Arrival
from dovetail.policies.deadline.elasticflow import ElasticFlow
from dovetail.policies.deadline.genie import Genie
from dovetail.policies.placement import consolidated
from dovetail.policies.registry import make
from dovetail.predict.duration import Oracle, UserEstimate
from dovetail.predict.speed import SameEverywhere
from dovetail.testing import (
    PolicyRun,
    World,
    arrival,
    check_policy,
    job,
    knowledge,
    nodes,
    run_trace,
)
from dovetail.testing.runs import run_world

LINEAR = by_kind_and_placement({}, scaling=1.0)


def _elastic(name: str, at: float, work_s: float, deadline: float | None) -> Arrival:
    """Its work is told for one GPU; on up to four it is as many times as fast."""
    return arrival(name, at, work_s, 1, min_gpus=1, max_gpus=4, deadline=deadline)


def _linear_elasticflow(world: World, **rest: object) -> ElasticFlow:
    durations = {one.job.id: one.work_s for one in world.arrivals}
    return ElasticFlow(predictor=Oracle(durations), speeds=SameEverywhere(1.0), **rest)  # type: ignore[arg-type]


def _played(arrivals: list[Arrival], gpus: int = 4, **rest: object) -> PolicyRun:
    world = World(arrivals, nodes(1, gpus), speed=LINEAR)
    return run_world(world, _linear_elasticflow(world, **rest))


# ------------------------------------------------------------------------------------ ElasticFlow


def test_a_job_alone_grows_to_all_gpus_and_shrinks_for_one_that_is_promised_the_rest() -> None:
    first = _elastic("a", 0.0, 400.0, 250.0)
    second = arrival("b", 10.0, 100.0, 2, deadline=115.0)
    done = _played([first, second], slot_s=0.0)
    assert [start.placement.gpus for start in done.of(Start)] == [4, 2]
    assert [resize.placement.gpus for resize in done.of(Resize)] == [2, 4]
    assert done.ends_at["b"] <= 115.0
    assert done.ends_at["a"] <= 250.0


def test_a_deadline_that_cannot_be_kept_is_refused_with_what_could_be() -> None:
    done = _played([_elastic("a", 0.0, 400.0, 90.0)], slot_s=0.0)
    assert done.phase("a") is Phase.REFUSED
    (refusal,) = done.of(Refuse)
    assert refusal.reason == (
        "its deadline in 1 min 30 s cannot be promised: it could be done in 1 min 40 s; give a later "
        "one, or none"
    )


def test_a_newcomer_is_refused_rather_than_a_promise_broken() -> None:
    done = _played([_elastic("a", 0.0, 400.0, 105.0), _elastic("b", 1.0, 100.0, 60.0)], slot_s=0.0)
    assert (done.phase("a"), done.phase("b")) == (Phase.FINISHED, Phase.REFUSED)
    assert done.ends_at["a"] <= 105.0


def test_a_job_without_a_promise_may_run_on_what_is_left() -> None:
    done = _played(
        [_elastic("a", 0.0, 200.0, 105.0), _elastic("b", 1.0, 400.0, 60.0)],
        slot_s=0.0,
        refuse=False,
    )
    assert (done.phase("a"), done.phase("b")) == (Phase.FINISHED, Phase.FINISHED)
    assert done.ends_at["a"] <= 105.0


def test_events_within_a_slot_are_decided_together_at_its_end() -> None:
    done = _played([_elastic("a", 0.0, 400.0, None), _elastic("b", 10.0, 60.0, None)], slot_s=60.0)
    assert done.first_starts == {"a": 0.0, "b": 60.0}


def test_without_deadlines_nobody_is_refused() -> None:
    done = _played([_elastic(f"j{i}", float(i), 50.0, None) for i in range(12)])
    assert done.of(Refuse) == []


@pytest.mark.parametrize("seed", range(12))
def test_no_promise_is_broken_when_beliefs_are_right(seed: int) -> None:
    chance = Random(seed)
    arrivals = []
    for i in range(25):
        at, work = chance.uniform(0, 2000), chance.choice([50.0, 200.0, 900.0])
        due = at + work * chance.uniform(0.3, 3.0)
        arrivals.append(
            _elastic(f"e{i}", at, work, due)
            if chance.random() < 0.6
            else arrival(f"r{i}", at, work, chance.choice([1, 2]), deadline=due)
        )
    arrivals.sort(key=lambda one: one.at)
    done = _played(arrivals, slot_s=0.0)
    finished = [track for track in done.ended.values() if track.phase is Phase.FINISHED]
    assert finished
    late = [t.job.id for t in finished if t.ended_at > (t.job.deadline or 0) + 1e-6]
    assert late == []


def test_growing_must_pay_for_the_restart() -> None:
    cost = Interruption(20.0, 30.0)
    short = arrival("a", 0.0, 200.0, 1, min_gpus=1, max_gpus=2, interruption=cost)
    blocker = arrival("b", 0.0, 170.0, 1)
    done = _played([blocker, short], gpus=2, slot_s=0.0)
    assert done.of(Resize) == []


def test_the_contract_is_kept_with_slots() -> None:
    check_policy(lambda: ElasticFlow(predictor=_Guess(), slot_s=7.0), worlds=15)


class _Guess:
    """Takes every job for equally long, which is often wrong."""

    def duration_s(self, job: object, view: object) -> float:
        return 20.0


# ----------------------------------------------------------------------------------------- Chronus


def _of_leases(name: str, at: float, leases: int, before: int) -> Arrival:
    return arrival(name, at, 60.0 * leases, 4, deadline=60.0 * before)


def test_chronus_promises_the_leases_there_are_and_rejects_the_rest() -> None:
    jobs = [
        _of_leases("J1", 0.0, 2, 4),
        _of_leases("J2", 0.0, 2, 4),
        _of_leases("J3", 0.0, 1, 4),
        _of_leases("J4", 0.0, 1, 5),
    ]
    done = run_trace("chronus:lease_s=60:predictor=oracle", jobs, nodes(1, 4))
    assert done.phase("J3") is Phase.REFUSED
    assert done.first_starts["J4"] == 240.0
    for name, deadline in (("J1", 240.0), ("J2", 240.0), ("J4", 300.0)):
        assert done.ends_at[name] <= deadline
    (refusal,) = done.of(Refuse)
    assert refusal.reason.startswith(
        "its deadline in 4 min cannot be promised: leases of 4 GPUs are free to have it done in 5 min"
    )


def test_chronus_lets_a_job_without_a_deadline_use_a_lease_that_nobody_owns() -> None:
    jobs = [_of_leases("due", 0.0, 1, 3), arrival("other", 0.0, 60.0, 4)]
    done = run_trace("chronus:lease_s=60:predictor=oracle", jobs, nodes(1, 4))
    assert done.ends_at["other"] == 60.0
    assert done.ends_at["due"] <= 180.0


@pytest.mark.parametrize("seed", range(12))
def test_an_accepted_job_never_misses_when_estimates_are_exact(seed: int) -> None:
    chance = Random(seed)
    jobs = []
    for i in range(30):
        at, work = chance.uniform(0, 3000), chance.choice([30.0, 60.0, 250.0, 600.0])
        due = None if chance.random() < 0.3 else at + work * chance.uniform(1.0, 5.0)
        jobs.append(arrival(f"j{i}", at, work, chance.choice([1, 2, 4, 8]), deadline=due))
    jobs.sort(key=lambda one: one.at)
    done = run_trace("chronus:lease_s=60:predictor=oracle", jobs, nodes(2, 4))
    finished = [t for t in done.ended.values() if t.phase is Phase.FINISHED and t.job.deadline]
    assert finished
    assert [t.job.id for t in finished if t.ended_at > (t.job.deadline or 0) + 1e-6] == []


def test_a_job_that_outlives_its_prediction_loses_its_leases() -> None:
    jobs = [arrival("long", 0.0, 300.0, 4, deadline=240.0), _of_leases("J", 130.0, 1, 5)]
    world = World(jobs, nodes(1, 4))
    known = knowledge(world)
    policy = make("chronus:lease_s=60:predictor=user-estimate", consolidated, known)
    assert run_world(world, policy).ends_at["J"] <= 300.0


# ------------------------------------------------------------------------------------------- GENIE


@pytest.mark.parametrize(("policy", "late"), [("edf", 0), ("genie", 0), ("sjf", 1)])
def test_earliest_deadline_and_least_allowance_meet_all_where_the_shortest_first_misses_one(
    policy: str, late: int
) -> None:
    due = {"a": 3.0, "b": 10.0, "c": 4.0}
    jobs = [
        arrival(name, 0.0, work, deadline=due[name])
        for name, work in (("a", 2.0), ("b", 1.0), ("c", 2.0))
    ]
    done = run_trace(f"{policy}", jobs, nodes(1, 1))
    assert sum(done.ends_at[name] > deadline for name, deadline in due.items()) == late


def test_genie_gives_an_elastic_job_the_fewest_workers_that_are_on_time() -> None:
    done = run_trace("genie", [_elastic("a", 0.0, 100.0, 70.0)], nodes(1, 4))
    assert [start.placement.gpus for start in done.of(Start)] == [2]


@pytest.mark.parametrize(
    "policy", ["chronus:refuse=false", "elasticflow:refuse=false", "genie", "flex"]
)
def test_an_elastic_job_that_asks_for_more_than_there_is_runs_on_what_there_is(policy: str) -> None:
    wide = arrival("wide", 0.0, 30.0, 16, min_gpus=5, deadline=100.0)
    assert set(run_trace(policy, [wide], nodes(1, 6)).ended) == {"wide"}


def test_genie_looks_once_at_jobs_alike_and_starts_as_many_as_fit() -> None:
    """Those of two GPUs fit once, those of four never; who may have one or two is looked at alone."""
    state = State()
    state.record(NodeJoined(0.0, Node("n0", 3)))
    for number in range(3):
        state.record(Submitted(0.0, job(f"two{number}", 2, deadline=50.0 - number)))
        state.record(Submitted(0.0, job(f"four{number}", 4, deadline=10.0)))
    state.record(Submitted(0.0, job("either", 2, min_gpus=1, max_gpus=2, deadline=100.0)))
    asked: list[int] = []

    def place(room: Room, shape: Shape) -> Placement | None:
        asked.append(shape.gpus)
        return consolidated(room, shape)

    genie = Genie(place=place, predictor=UserEstimate(5.0))
    started = [
        (own.job_id, own.placement.gpus) for own in genie.decide(state) if isinstance(own, Start)
    ]
    assert started == [("two2", 2), ("either", 1)]
    assert asked.count(2) <= 4
