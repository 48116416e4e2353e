"""`flex` on several GPU kinds and nodes: jobs change places, and gangs stay together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.core.entries import Resize, Start
from dovetail.core.model import Job, JobId, Node
from dovetail.models.speed import by_kind_and_placement
from dovetail.models.workload import Arrival
from dovetail.policies.flex.claims import Claimant, GpuWay
from dovetail.policies.flex.exchange import exchanged
from dovetail.policies.flex.policy import Flex
from dovetail.predict.duration import Oracle
from dovetail.testing import World, arrival, run_world
from dovetail.testing.runs import PolicyRun

FAST, SLOW = 0, 1
SPEEDS = {"fast": 1.0, "slow": 0.5}


@dataclass(frozen=True)
class KindSpeeds:
    """Speeds as they are."""

    speeds: Mapping[str, float] = field(default_factory=lambda: SPEEDS)

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        return self.speeds[kind]


def gang(name: str, slow: float, gpus: int = 1, **more: Any) -> Claimant:
    """At speed 1 on the fast kind."""
    ways = [GpuWay(FAST, gpus, 1.0), GpuWay(SLOW, gpus, slow)]
    return Claimant(JobId(name), ways, 100.0, **more)


def pools(
    claimants: Sequence[Claimant], given: Mapping[str, int], free: Mapping[int, int]
) -> object:
    """By name of the job: who ends up where, beginning there."""
    ways = {one.id: {way.pool: way for way in one.ways} for one in claimants}
    begin = {JobId(name): ways[JobId(name)][pool] for name, pool in given.items()}
    return {str(job): way.pool for job, way in exchanged(claimants, begin, free).items()}


def test_the_fast_gpu_goes_from_whom_it_helps_little_to_whom_it_helps_most() -> None:
    claimants = [gang("little", slow=0.9), gang("much", slow=0.2)]
    found = pools(claimants, {"little": FAST, "much": SLOW}, {FAST: 0, SLOW: 0})
    assert found == {"little": SLOW, "much": FAST}


def test_small_jobs_make_room_for_a_gang_that_gains_more_than_they_lose() -> None:
    claimants = [gang("a", 0.95), gang("b", 0.95), gang("gang", 0.1, gpus=2)]
    found = pools(claimants, {"a": FAST, "b": FAST, "gang": SLOW}, {FAST: 0, SLOW: 0})
    assert found == {"a": SLOW, "b": SLOW, "gang": FAST}


def test_nobody_gives_way_to_a_lower_priority() -> None:
    claimants = [gang("first", slow=0.9, priority=1.0), gang("second", slow=0.2)]
    given = {"first": FAST, "second": SLOW}
    assert pools(claimants, given, {FAST: 0, SLOW: 0}) == given


def test_a_gpu_that_is_free_is_used_however_slow_it_is() -> None:
    assert pools([gang("only", slow=0.01)], {}, {FAST: 0, SLOW: 1}) == {"only": SLOW}


def runs(jobs: Sequence[tuple[str, float, int, float]], cluster: Sequence[Node]) -> PolicyRun:
    """Of jobs by name, time of submission, GPUs and length."""
    arrivals = [Arrival(at, Job(JobId(name), gpus), work_s) for name, at, gpus, work_s in jobs]
    lengths = {one.job.id: one.work_s for one in arrivals}
    flex = Flex(predictor=Oracle(lengths), speeds=KindSpeeds())
    return run_world(World(arrivals, cluster, speed=by_kind_and_placement(SPEEDS)), flex)


def test_a_job_moves_to_a_faster_kind_that_frees_although_nobody_waits() -> None:
    cluster = [Node("f", 1, "fast"), Node("s", 1, "slow")]
    found = runs([("first", 0.0, 1, 1000.0), ("second", 0.0, 1, 900.0)], cluster)
    assert found.ended[JobId("second")].ended_at == 1000.0 + (900.0 - 1000.0 * 0.5)


def test_a_small_job_moves_aside_so_that_a_gang_has_a_node_to_itself() -> None:
    jobs = [
        ("x", 0.0, 1, 10.0),
        ("y", 0.0, 1, 900.0),
        ("z", 0.0, 1, 900.0),
        ("gang", 20.0, 2, 50.0),
    ]
    found = runs(jobs, [Node("n0", 2, "fast"), Node("n1", 2, "fast")])
    begun = [entry for _, entry in found.entries if isinstance(entry, Start | Resize)]
    (placement,) = [entry.placement for entry in begun if entry.job_id == "gang"]
    assert len(placement.slices) == 1


def test_who_is_long_in_the_system_has_the_fast_gpu_while_there_are_gpus_for_all() -> None:
    """It is the short one that has it where somebody has to wait."""

    def first_on_fast(*lengths: float) -> str:
        jobs = [arrival(f"{length:g}", 0.0, length) for length in lengths]
        nodes = (Node("f", 1, "fast"), Node("s", 2, "slow"))
        world = World(jobs, nodes, speed=by_kind_and_placement(SPEEDS))
        policy = Flex(predictor=Oracle({a.job.id: a.work_s for a in jobs}), speeds=KindSpeeds())
        begun = run_world(world, policy).of(Start)
        return str(next(one.job_id for one in begun if one.placement.slices[0].node == 0))

    assert first_on_fast(100.0, 2000.0) == "2000"
    assert first_on_fast(100.0, 500.0, 2000.0, 3000.0) == "100"
