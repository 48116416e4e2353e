"""`flex` against Sia, AFS and Optimus on Gavel's traces, and on ten others that were drawn like each.

Jobs of these cannot change their number of GPUs: GPU kinds, nodes and order are left to decide. All are
told the same. Lengths: jobs name their steps in their commands, as Gavel's do, and report them.
Speeds: of similar models; or, once a job of its model has run somewhere, as it was seen to go there.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import sqrt
from statistics import mean, stdev
from typing import NamedTuple

from benchmarks import allocation_gavel, gavel_draws
from benchmarks.lines import Line
from dovetail import traces
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.speed_table import SpeedTable
from dovetail.models.workload import Arrival
from dovetail.traces.clusters.cluster_text import read_cluster
from dovetail.traces.clusters.speed_tables import read_speed_table

CLUSTER = "2x4:v100+4x4:p100+3x4:k80"  # Gavel's: servers of four GPUs
SEEDS = range(10)
RECORDED = -1  # instead of a seed: the trace whose results are recorded
SPEEDS = ("similar", "seen")
POLICIES: Mapping[
    str, str
] = {  # where lengths are asked for: by steps, before any are told by history
    "optimus": "optimus:left=reports",
    "afs": "afs:left=reports",
    "sia": "sia",
    "flex": "flex",
}
WANTED = 0.9
_T = 2.262  # Student's, for 95 % of ten


class Asked(NamedTuple):
    """One run."""

    trace: str
    seed: int
    speeds: str
    policy: str


class Figures(NamedTuple):
    """Completion times, in seconds."""

    mean_s: float
    p99_s: float


@cache
def _table() -> SpeedTable:
    return read_speed_table(allocation_gavel.TABLE)


def experiment(trace: str, seed: int, speeds: str) -> Experiment:
    nodes = read_cluster(CLUSTER)
    return Experiment(
        _arrivals(trace, seed), nodes, speed_table=_table(), speeds=speeds, predictor="history-mean"
    )


def _arrivals(trace: str, seed: int) -> Sequence[Arrival]:
    if seed == RECORDED:
        path = allocation_gavel.GOLDEN / f"traces/{trace}.trace"
        return traces.read(path, speeds=_table()).arrivals
    return gavel_draws.drawn(gavel_draws.RECIPES[trace], _table(), seed)


def run(asked: Asked) -> tuple[Asked, Figures]:
    made = experiment(asked.trace, asked.seed, asked.speeds)
    summary = simulate(made, POLICIES[asked.policy]).summary
    return asked, Figures(float(summary["mean_jct_s"]), float(summary["p99_jct_s"]))


def measured() -> Iterator[Line]:
    """Mean and 99th percentile: of the recorded traces; of ten drawn ones, ratios with intervals."""
    if not allocation_gavel.GOLDEN.exists():
        print("     Gavel's traces are not here: left out")
        return
    asked = [
        Asked(trace, seed, speeds, policy)
        for trace in gavel_draws.RECIPES
        for speeds in SPEEDS
        for seed in (RECORDED, *SEEDS)
        for policy in POLICIES
    ]
    with multiprocessing.get_context("spawn").Pool() as pool:
        found = dict(pool.imap_unordered(run, asked))
    for trace in gavel_draws.RECIPES:
        for speeds in SPEEDS:
            yield from _recorded(trace, speeds, found)
            yield from _drawn(trace, speeds, found)


def _recorded(trace: str, speeds: str, found: Mapping[Asked, Figures]) -> Iterator[Line]:
    of = {policy: found[Asked(trace, RECORDED, speeds, policy)] for policy in POLICIES}
    ours = of.pop("flex")
    best = min(of, key=lambda policy: of[policy].mean_s)
    shown = ", ".join(f"{policy} {one.mean_s:.0f} ({one.p99_s:.0f})" for policy, one in of.items())
    yield Line(
        f"{trace}, speeds {speeds}: flex {ours.mean_s:.0f} ({ours.p99_s:.0f})",
        f"{ours.mean_s / of[best].mean_s - 1:+.1%} of {best}",
        f"-10 %; mean (p99): {shown}",
        ours.mean_s <= WANTED * of[best].mean_s,
    )


def _drawn(trace: str, speeds: str, found: Mapping[Asked, Figures]) -> Iterator[Line]:
    def of(policy: str, seed: int) -> Figures:
        return found[Asked(trace, seed, speeds, policy)]

    rivals = [policy for policy in POLICIES if policy != "flex"]
    best = min(rivals, key=lambda policy: mean([of(policy, seed).mean_s for seed in SEEDS]))
    means = [of("flex", seed).mean_s / of(best, seed).mean_s for seed in SEEDS]
    tails = [of("flex", seed).p99_s / of(best, seed).p99_s for seed in SEEDS]
    what = f"ten like {trace}, speeds {speeds}, over {best}"
    yield Line(f"{what}: mean", _interval(means), f"{WANTED:g}", mean(means) <= WANTED)
    yield Line(f"{what}: p99", _interval(tails), "1", mean(tails) <= 1.0)


def _interval(values: Sequence[float]) -> str:
    return f"{mean(values):.3f} ± {_T * stdev(values) / sqrt(len(values)):.3f}"
