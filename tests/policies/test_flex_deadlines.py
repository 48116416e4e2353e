"""What flex promises it keeps, on GPUs of several kinds and from beliefs."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from benchmarks.flex_deadlines import COST, WRONG, Asked, ByKind, OffBy, OffByKind, run
from benchmarks.flex_deadlines import SPEEDS as KINDS
from benchmarks.leaderboard.loads import generated
from benchmarks.leaderboard.runs import figures

from dovetail.core.entries import Refuse
from dovetail.core.model import Node
from dovetail.core.track import Phase
from dovetail.models.speed import by_kind_and_placement
from dovetail.models.workload import Arrival
from dovetail.policies.flex.policy import Flex
from dovetail.policies.flex.promises import plan_of
from dovetail.testing import PolicyRun, World, arrival, check_snapshot, run_world

CLUSTER = (Node("n0", 4, "new"), Node("n1", 4, "old"), Node("n2", 4, "old"))


def _jobs(seed: int, number: int = 40) -> list[Arrival]:
    chance, made = Random(seed), []
    for i in range(number):
        at, work = chance.uniform(0, 3000), chance.choice([60.0, 200.0, 900.0])
        due = None if chance.random() < 0.2 else at + work * chance.uniform(0.5, 4.0)
        size: dict[str, Any] = {"min_gpus": 1, "max_gpus": 4} if chance.random() < 0.7 else {}
        gpus = chance.choice([1, 2])
        made.append(arrival(f"j{i}", at, work, gpus, deadline=due, interruption=COST, **size))
    return sorted(made, key=lambda one: one.at)


def _played(jobs: list[Arrival], off_by: float = 0.0, **rest: object) -> PolicyRun:
    world = World(jobs, CLUSTER, speed=by_kind_and_placement(KINDS))
    believed = OffBy({one.job.id: one.work_s for one in jobs}, off_by)
    rest = {"speeds": ByKind(), **rest}
    return run_world(world, Flex(predictor=believed, **rest))  # type: ignore[arg-type]


def _promised(done: PolicyRun) -> list[tuple[str, bool]]:
    """The jobs with a promise, and whether it was kept."""
    return [
        (track.job.id, track.ended_at <= (track.job.deadline or 0.0) + 1e-6)
        for track in done.ended.values()
        if plan_of(track) is not None
    ]


@pytest.mark.parametrize("seed", range(6))
def test_no_promise_is_broken_when_beliefs_are_right(seed: int) -> None:
    promised = _promised(_played(_jobs(seed)))
    assert len(promised) > 10
    assert [job_id for job_id, kept in promised if not kept] == []


def test_few_promises_are_broken_when_beliefs_are_a_fifth_wrong() -> None:
    promised = [row for seed in range(6) for row in _promised(_played(_jobs(seed), off_by=0.2))]
    broken = [job_id for job_id, kept in promised if not kept]
    assert len(broken) <= 0.02 * len(promised)


def test_few_promises_are_broken_when_beliefs_of_speeds_are_a_fifth_wrong() -> None:
    runs = [_played(_jobs(seed), speeds=OffByKind(WRONG)) for seed in range(6)]
    promised = [row for done in runs for row in _promised(done)]
    assert len(promised) > 60
    broken = [job_id for job_id, kept in promised if not kept]
    assert len(broken) <= 0.02 * len(promised)


@pytest.mark.parametrize(("kappa", "seed"), [(1.2, 206), (4.0, 203)])
def test_a_job_that_is_nearly_done_keeps_its_gpus_to_the_end(kappa: float, seed: int) -> None:
    """It was stopped in its last second, as its plan was over, and ended late."""
    _, found = run(Asked("two kinds", kappa, seed, "right"))
    assert found.broken == 0


def test_a_promised_job_that_has_used_up_its_room_grows_all_the_same() -> None:
    """One of 54 hours stayed on two GPUs, of 16 that it may have, while the others were free."""
    found = figures(generated(4, elastic=True), "flex", lambda done: None)
    assert found["makespan_s"] < 50 * 3600.0


def test_jobs_that_have_just_begun_do_not_move_each_other_for_ever() -> None:
    _, found = run(Asked("two kinds", 2.0, 0, "speeds wrong"))
    assert found.met > 30


def test_promises_leave_room_for_speeds_that_were_believed_too_high() -> None:
    """A job that can just be in time if it is as fast as believed is promised that after twenty others
    were; not after others were half as fast, and not before anything was seen."""
    alone = [arrival("last", 3000.0, 100.0, 1, deadline=3115.0)]
    before = [arrival(f"j{i}", 150.0 * i, 50.0, 1, deadline=150.0 * i + 140.0) for i in range(20)]

    def promised(jobs: list[Arrival], **rest: Any) -> bool:
        done = _played(jobs, **rest)
        return plan_of(done.ended["last"]) is not None  # type: ignore[index]

    assert promised([*before, *alone])
    assert not promised(alone)
    assert not promised([*before, *alone], speeds=_TwiceAsFast())


@pytest.mark.parametrize("rounds", [10, 40])
def test_what_jobs_have_shown_of_their_speed_outlives_a_restart(rounds: int) -> None:
    jobs = _jobs(1, 25)
    lengths = OffBy({one.job.id: one.work_s for one in jobs})
    world = World(jobs, CLUSTER, speed=by_kind_and_placement(KINDS))
    check_snapshot(world, lambda: Flex(predictor=lengths, speeds=OffByKind(WRONG)), rounds)


class _TwiceAsFast:
    """As is believed of all jobs but the last."""

    def speed(self, job: Any, kind: str, gpus: int, nodes: int) -> float:
        return ByKind().speed(job, kind, gpus, nodes) * (1.0 if job.id == "last" else 2.0)


def test_a_job_without_a_promise_runs_as_well_as_it_can_or_is_refused_if_asked() -> None:
    jobs = [arrival("a", 0.0, 1000.0, 1, deadline=100.0)]
    assert _played(jobs).phase("a") is Phase.FINISHED
    done = _played(jobs, refuse=True)
    assert done.phase("a") is Phase.REFUSED
    (refusal,) = done.of(Refuse)
    assert refusal.reason == (
        "its deadline in 1 min 40 s cannot be promised: it could be done in 20 min; give a later "
        "one, or none"
    )


def test_a_promise_is_made_on_another_kind_where_one_is_full() -> None:
    jobs = [arrival(f"j{i}", 0.0, 100.0, 4, deadline=255.0) for i in range(3)]
    done = _played(jobs, doubt=0.0)
    plans = [plan_of(track) for track in done.ended.values()]
    assert sorted(plan.pool for plan in plans if plan is not None) == [0, 0, 1]
    assert max(done.ends_at.values()) <= 255.0
