"""Deadlines that `flex` promises and keeps against ElasticFlow with exact knowledge.

Ten worlds by chance for each tightness: a deadline is `kappa` times the job's own length after it
came, `kappa` drawn around a middle. One kind of GPUs, and two kinds mixed, which ElasticFlow plans for
by the slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from random import Random
from statistics import mean, stdev

from benchmarks.lines import Line
from dovetail.core.loop import Policy
from dovetail.core.model import Interruption, Job, JobId, Node
from dovetail.core.track import Phase, Track
from dovetail.core.view import View
from dovetail.models.scaling import sped_up
from dovetail.models.speed import by_kind_and_placement
from dovetail.models.workload import Arrival
from dovetail.policies.deadline.elasticflow import ElasticFlow
from dovetail.policies.flex.policy import Flex
from dovetail.policies.flex.promises import plan_of
from dovetail.testing import World, arrival, run_world

SEEDS = range(10)
KAPPAS = (0.8, 1.2, 2.0, 4.0)
JOBS = 60
CLUSTERS: Mapping[str, tuple[Node, ...]] = {
    "one kind": tuple(Node(f"n{i}", 4, "new") for i in range(3)),
    "two kinds": (Node("n0", 4, "new"), *[Node(f"n{i}", 4, "old") for i in (1, 2, 3)]),
}
SPEEDS = {"new": 1.0, "old": 0.4}
COST = Interruption(2.0, 3.0)
_T = 2.262  # Student's, for 95 % of ten


@dataclass(frozen=True)
class OffBy:
    """The true length, wrong by up to that part either way; the same for a job each time."""

    true_s: Mapping[JobId, float]
    part: float = 0.0

    def duration_s(self, job: Job, view: View) -> float:
        error = Random(f"error {job.id}").uniform(-self.part, self.part)
        return self.true_s[job.id] / (1.0 + error)


@dataclass(frozen=True)
class ByKind:
    """Speeds as they are."""

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        return SPEEDS[kind] * sped_up(job, gpus)


def jobs_of(seed: int, kappa: float) -> list[Arrival]:
    chance, made = Random(f"{seed}/{kappa}"), []
    for i in range(JOBS):
        at, work = chance.uniform(0, 6000), chance.choice([60.0, 200.0, 900.0, 1500.0])
        gpus = chance.choice([1, 2, 4])
        job = arrival(f"j{i}", at, work, gpus, interruption=COST).job
        most = 8 if chance.random() < 0.7 else gpus
        due = at + work * kappa * chance.uniform(0.5, 1.5)
        made.append(Arrival(at, _with(job, due, most), work))
    return sorted(made, key=lambda one: one.at)


def _with(job: Job, due: float, most: int) -> Job:
    least = 1 if most > job.gpus else job.gpus
    return Job(
        job.id, job.gpus, deadline=due, min_gpus=least, max_gpus=most, interruption=job.interruption
    )


@dataclass(frozen=True)
class Kept:
    """What became of the deadlines of one run."""

    met: int
    promised: int
    broken: int


def kept(jobs: Sequence[Arrival], cluster: Sequence[Node], policy: Policy) -> Kept:
    world = World(jobs, cluster, speed=by_kind_and_placement(SPEEDS))
    ended = run_world(world, policy).ended.values()
    promised = [track for track in ended if plan_of(track) or track.notes.get("elasticflow")]
    met = [track for track in ended if track.phase is Phase.FINISHED and _on_time(track)]
    return Kept(len(met), len(promised), sum(not _on_time(track) for track in promised))


def _on_time(track: Track) -> bool:
    assert track.job.deadline is not None
    return track.ended_at <= track.job.deadline + 1e-6


def measured() -> Iterator[Line]:
    """Deadlines kept and promises broken, ten worlds for each kappa; means with 95 % intervals."""
    for name, cluster in CLUSTERS.items():
        for kappa in KAPPAS:
            yield from _compared(name, cluster, kappa)


def _compared(name: str, cluster: Sequence[Node], kappa: float) -> Iterator[Line]:
    right, wrong, rival = [], [], []
    for seed in SEEDS:
        jobs = jobs_of(seed, kappa)
        true_s = {one.job.id: one.work_s for one in jobs}
        flex = Flex(predictor=OffBy(true_s), speeds=ByKind())
        right.append(kept(jobs, cluster, flex))
        wrong.append(kept(jobs, cluster, Flex(predictor=OffBy(true_s, 0.2), speeds=ByKind())))
        exact = ElasticFlow(predictor=OffBy(true_s), speeds=ByKind(), slot_s=0.0, refuse=False)
        rival.append(kept(jobs, cluster, exact))
    ours, theirs = [one.met for one in right], [one.met for one in rival]
    yield Line(
        f"{name}, kappa {kappa:g}: kept of {JOBS}",
        _interval(ours),
        f"at least ElasticFlow's {_interval(theirs)}",
        mean(ours) >= mean(theirs),
    )
    yield _broken(f"{name}, kappa {kappa:g}: broken, beliefs right", right, 0.0)
    yield _broken(f"{name}, kappa {kappa:g}: broken, 20 % wrong", wrong, 0.02)


def _interval(values: Sequence[float]) -> str:
    return f"{mean(values):.1f} ± {_T * stdev(values) / sqrt(len(values)):.1f}"


def _broken(what: str, runs: Sequence[Kept], most: float) -> Line:
    promised, broken = sum(one.promised for one in runs), sum(one.broken for one in runs)
    wanted = f"at most {most:.0%}" if most else "none"
    return Line(what, f"{broken} of {promised}", wanted, broken <= most * promised)
