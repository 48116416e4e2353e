"""Deadlines that `flex` promises and keeps against ElasticFlow with exact knowledge.

Ten worlds by chance for each tightness: a deadline is `kappa` times the job's own length after it
came, `kappa` drawn around a middle. One kind of GPUs, and two kinds mixed, which ElasticFlow plans for
by the slower. `flex` is told lengths and speeds as they are, or one of them up to a fifth wrong. Its
constants were chosen on the first ten worlds; ten others show whether that holds.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from random import Random
from statistics import mean, stdev
from typing import NamedTuple

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

SEEDS: Mapping[str, range] = {"chosen on": range(10), "others": range(100, 110)}
KAPPAS = (0.8, 1.2, 2.0, 4.0)
JOBS = 60
CLUSTERS: Mapping[str, tuple[Node, ...]] = {
    "one kind": tuple(Node(f"n{i}", 4, "new") for i in range(3)),
    "two kinds": (Node("n0", 4, "new"), *[Node(f"n{i}", 4, "old") for i in (1, 2, 3)]),
}
SPEEDS = {"new": 1.0, "old": 0.4}
COST = Interruption(2.0, 3.0)
WRONG = 0.2
BROKEN: Mapping[str, float] = {"right": 0.0, "lengths wrong": 0.02, "speeds wrong": 0.02}
RIVAL = "elasticflow"
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


@dataclass(frozen=True)
class OffByKind:
    """Speeds wrong by up to that part either way; of each job on each kind by another."""

    part: float

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        error = Random(f"speed {job.id} {kind}").uniform(-self.part, self.part)
        return SPEEDS[kind] * sped_up(job, gpus) / (1.0 + error)


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


class Asked(NamedTuple):
    """One run."""

    cluster: str
    kappa: float
    seed: int
    beliefs: str  # of flex, or the rival


def run(asked: Asked) -> tuple[Asked, Kept]:
    jobs = jobs_of(asked.seed, asked.kappa)
    true_s = {one.job.id: one.work_s for one in jobs}
    lengths = OffBy(true_s, WRONG if asked.beliefs == "lengths wrong" else 0.0)
    speeds = OffByKind(WRONG) if asked.beliefs == "speeds wrong" else ByKind()
    policy: Policy = Flex(predictor=lengths, speeds=speeds)
    if asked.beliefs == RIVAL:
        policy = ElasticFlow(predictor=lengths, speeds=speeds, slot_s=0.0, refuse=False)
    return asked, kept(jobs, CLUSTERS[asked.cluster], policy)


def measured() -> Iterator[Line]:
    """Deadlines kept and promises broken, ten worlds for each kappa, twice; means with 95 %
    intervals."""
    asked = [
        Asked(cluster, kappa, seed, beliefs)
        for cluster in CLUSTERS
        for kappa in KAPPAS
        for seeds in SEEDS.values()
        for seed in seeds
        for beliefs in (*BROKEN, RIVAL)
    ]
    with multiprocessing.get_context("spawn").Pool() as pool:
        found = dict(pool.imap_unordered(run, asked))
    for worlds, seeds in SEEDS.items():
        for cluster in CLUSTERS:
            for kappa in KAPPAS:
                rows = {
                    beliefs: [found[Asked(cluster, kappa, seed, beliefs)] for seed in seeds]
                    for beliefs in (*BROKEN, RIVAL)
                }
                yield from _compared(f"{worlds}, {cluster}, kappa {kappa:g}", rows)


def _compared(what: str, rows: Mapping[str, Sequence[Kept]]) -> Iterator[Line]:
    theirs = [one.met for one in rows[RIVAL]]
    for beliefs, most in BROKEN.items():
        runs = rows[beliefs]
        ours = [one.met for one in runs]
        enough = beliefs != "right" or mean(ours) >= mean(theirs)
        promised, broken = sum(one.promised for one in runs), sum(one.broken for one in runs)
        shown = f"{broken} of {promised}, kept {_interval(ours)}"
        wanted = f"at most {most:.0%}; {RIVAL}, exact, keeps {_interval(theirs)}"
        yield Line(
            f"{what}, {beliefs}: broken", shown, wanted, broken <= most * promised and enough
        )


def _interval(values: Sequence[float]) -> str:
    return f"{mean(values):.1f} ± {_T * stdev(values) / sqrt(len(values)):.1f}"
