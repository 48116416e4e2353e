"""The same policies on the trace and on traces like it: how much of a difference is chance?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from random import Random
from typing import Any

from dovetail.core.model import JobId
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.experiments.parallel import Failure, each
from dovetail.experiments.summary_table import TITLES, other_ends
from dovetail.models.workload import Arrival
from dovetail.results.intervals import (
    MeanInterval,
    difference,
    figure_of,
    interval,
    least,
    mean_figures,
)
from dovetail.results.record import RunRecord
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text, unit_of
from dovetail.text.tables import figures_table, wrapped

_SHOWN = ("mean_jct_s", "p99_jct_s", "mean_wait_s", "makespan_s", "gpu_utilisation")
_JUDGED = "mean_jct_s"


def with_seed(experiment: Experiment, seed: int) -> Experiment:
    """Seed 0: as it is. Each further one has jobs drawn from it anew, and other failures and noise."""
    if seed == 0:
        return experiment
    failures = experiment.failures
    return replace(
        experiment,
        arrivals=resampled(experiment.arrivals, seed),
        seed=experiment.seed + seed,
        failures=None if failures is None else failures.of_seed(experiment.seed + seed),
    )


def resampled(arrivals: Sequence[Arrival], seed: int) -> Sequence[Arrival]:
    """Seed 0: as they are. Else drawn with replacement, at the same times of submission. Jobs that
    come after others would lose them, and are drawn without."""
    if seed == 0 or not arrivals:
        return arrivals
    draw = Random(f"dovetail/{seed}")
    return [_moved(draw.choice(arrivals), own) for own in arrivals]


def _moved(drawn: Arrival, place: Arrival) -> Arrival:
    """The one, with the time and the id of the other."""
    later = place.at - drawn.at
    job = drawn.job
    deadline = None if job.deadline is None else job.deadline + later
    job = replace(job, id=JobId(place.job.id), deadline=deadline, after=())
    cancel_at = None if drawn.cancel_at is None else drawn.cancel_at + later
    return replace(drawn, at=place.at, job=job, cancel_at=cancel_at)


@dataclass(frozen=True, slots=True)
class RunsOfSeeds:
    """For each policy a run a seed, the same seeds in the same order. A policy of which one run has
    failed is among the failures."""

    runs: Mapping[str, Sequence[RunRecord]]
    failures: Sequence[Failure] = ()
    exit_code: int = 0

    def values(self, policy: str, figure: str) -> list[float]:
        return [figure_of(own.summary, figure) for own in self.runs[policy]]

    def summaries(self) -> list[dict[str, Any]]:
        """A row for each policy, with the mean of every figure and its interval."""
        return [
            {"policy": policy, "seeds": len(own), **mean_figures([run.summary for run in own])}
            for policy, own in self.runs.items()
        ]


def simulate_seeds(
    experiment: Experiment, policies: Sequence[str], seeds: int, quiet: bool
) -> RunsOfSeeds:
    pairs = [(policy, seed) for policy in policies for seed in range(seeds)]

    def one(number: int, tell: Callable[[int], object]) -> RunRecord:
        policy, seed = pairs[number]
        return simulate(with_seed(experiment, seed), policy, progress=tell)

    names = [f"{policy}, seed {seed}" for policy, seed in pairs]
    sizes = [len(experiment.arrivals)] * len(pairs)
    outcome = each(names, sizes, one, "simulating", quiet)
    runs: dict[str, list[RunRecord]] = {policy: [] for policy in policies}
    for (policy, _), found in zip(pairs, outcome.results, strict=True):
        if not isinstance(found, Failure):
            runs[policy].append(found)
    whole = {policy: own for policy, own in runs.items() if len(own) == seeds}
    return RunsOfSeeds(whole, outcome.failures, outcome.exit_code)


def seeds_table(found: RunsOfSeeds, seeds: int) -> list[str]:
    """A row for each policy, as `mean ± half of the interval`; then who has less, and is it chance."""
    columns = [["policy", *found.runs]]
    for name in _SHOWN:
        own = [interval(found.values(policy, name)) for policy in found.runs]
        columns.append([TITLES[name], *_cells(name, own)])
    lines = figures_table([list(row) for row in zip(*columns, strict=True)])
    for failed in found.failures:
        lines += wrapped(f"{failed.name}  failed: {failed.reason}")
    lines += wrapped(
        f"means of {counted(seeds, 'seed')} ± half of their 95 % interval; seed 0 is the trace, each "
        "other one draws its jobs anew"
    )
    for policy, runs in found.runs.items():
        lines += other_ends(policy, [run.summary for run in runs])
    return [*lines, *_judged(found)] if len(found.runs) > 1 else lines


def _cells(name: str, intervals: Sequence[MeanInterval]) -> list[str]:
    """All in one unit, so that they compare at a glance."""
    if not name.endswith("_s"):
        return [f"{own.mean:.1%} ± {own.half * 100:.1f}" for own in intervals]
    means = sorted(own.mean for own in intervals if not isnan(own.mean))
    if not means:
        return ["-"] * len(intervals)
    unit = unit_of(means[(len(means) - 1) // 2])
    return [
        "-"
        if isnan(own.mean)
        else f"{own.mean / unit.seconds:.1f} ± {own.half / unit.seconds:.1f} {unit.name}"
        for own in intervals
    ]


def _judged(found: RunsOfSeeds) -> list[str]:
    values = {policy: found.values(policy, _JUDGED) for policy in found.runs}
    means = {policy: interval(own) for policy, own in values.items()}
    best = least(means)
    if isnan(means[best].mean):
        return []
    lines = [f"least mean JCT: {best}; seed by seed"]
    for policy in [own for own in values if own != best]:
        more = difference(values[policy], values[best])
        if isnan(more.mean):
            continue
        told = f"{policy} has {duration_text(more.mean)} ± {duration_text(more.half)} more"
        lines += wrapped(f"  {told}{', which may be chance' if more.low <= 0 else ''}")
    return lines
