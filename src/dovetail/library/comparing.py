"""Several policies on the same jobs, and on jobs like them: figures with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import sqrt
from random import Random
from statistics import fmean, stdev
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.model import JobId
from dovetail.library.frames import as_frame
from dovetail.library.simulating import (
    ClusterOrText,
    Page,
    PolicyGiven,
    Simulation,
    experiment_of,
    job_rows,
    run,
)
from dovetail.library.trace_files import TraceGiven, as_trace
from dovetail.models.workload import Arrival
from dovetail.traces import Trace

# Of Student's distribution, for 95 %, by the number of runs less one; 1.96 beyond.
_STUDENT = (
    *(12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23),
    *(2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09),
)
_SHOWN = ("mean_jct_s", "p99_jct_s", "mean_wait_s", "makespan_s", "gpu_utilisation")

TraceForSeed = Callable[[int], TraceGiven]


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """The mean over the seeds, and where it lies in nineteen of twenty cases."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return _said(self.mean)
        return f"{_said(self.mean)} ± {_said(self.high - self.mean)}"


def _said(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`runs` has for each policy one simulation a seed, the same seeds in the same order."""

    runs: Mapping[str, Sequence[Simulation]] = field(repr=False)

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(self.runs)

    def figure(self, policy: str, name: str) -> MeanInterval:
        return interval([float(own[name]) for own in self._of(policy)])

    def difference(self, policy: str, other: str, name: str = "mean_jct_s") -> MeanInterval:
        """How much more the first has than the second, seed by seed: an interval without 0 says
        that one of them has less on jobs like these."""
        pairs = zip(self._of(policy), self._of(other), strict=True)
        return interval([float(one[name]) - float(two[name]) for one, two in pairs])

    def best(self, name: str = "mean_jct_s") -> str:
        """The policy with the least of it."""
        return min(self.policies, key=lambda policy: self.figure(policy, name).mean)

    def table(self, frame: str | None = None) -> Any:
        """A row for each policy, with the mean of every figure and its interval."""
        return as_frame([self._row(policy) for policy in self.policies], frame)

    def jobs(self, frame: str | None = None) -> Any:
        """A row for each job of every run."""
        rows = [
            {"policy": policy, "seed": seed, **row}
            for policy, runs in self.runs.items()
            for seed, own in enumerate(runs)
            for row in job_rows(own)
        ]
        return as_frame(rows, frame)

    def plot(self) -> Page:
        """The policies side by side, on the trace as it is."""
        from dovetail.reports.page import render

        return Page(render([own[0].record for own in self.runs.values()], "Dovetail", None, {}))

    def __str__(self) -> str:
        cells = [["policy", *_SHOWN]]
        cells += [
            [policy, *(str(self.figure(policy, name)) for name in _SHOWN)]
            for policy in self.policies
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        )

    def _of(self, policy: str) -> Sequence[Simulation]:
        if policy not in self.runs:
            raise BadInput(f"{policy!r} was not compared; {', '.join(self.runs)} were")
        return self.runs[policy]

    def _row(self, policy: str) -> dict[str, Any]:
        found: dict[str, Any] = {"policy": policy, "seeds": len(self._of(policy))}
        for name, value in self._of(policy)[0].figures.items():
            if isinstance(value, int | float):
                own = self.figure(policy, name)
                found |= {name: own.mean, f"{name}_low": own.low, f"{name}_high": own.high}
        return found


def compare(
    trace: TraceGiven | TraceForSeed,
    cluster: ClusterOrText,
    policies: Sequence[PolicyGiven],
    *,
    seeds: int = 1,
    predictor: str = "oracle",
    **more: Any,
) -> Comparison:
    """Each policy on the same jobs. The first seed is the trace as it is; every further one has jobs
    drawn from it anew, with replacement, at the same times of submission. A function of the seed is
    asked for a trace instead."""
    if seeds < 1 or not policies:
        raise BadInput("compare: give one policy and one seed at least")
    runs: dict[str, list[Simulation]] = {}
    of_seed = trace if callable(trace) else partial(resampled, as_trace(trace))
    for seed in range(seeds):
        own = of_seed(seed)
        experiment = experiment_of(own, cluster, predictor, {"seed": seed, **more})
        found = [run(experiment, policy) for policy in policies]
        if len({result.policy for result in found}) < len(found):
            raise BadInput("compare: two policies have one name; give each one of its own")
        for result in found:
            runs.setdefault(result.policy, []).append(result)
    return Comparison(runs)


def resampled(trace: Trace, seed: int) -> Trace:
    """Seed 0: as it is. Jobs that come after others would lose them, and are drawn without."""
    if seed == 0 or not trace.arrivals:
        return trace
    draw = Random(f"dovetail/{seed}")
    drawn = [_moved(draw.choice(trace.arrivals), own) for own in trace.arrivals]
    return replace(trace, arrivals=drawn)


def _moved(drawn: Arrival, place: Arrival) -> Arrival:
    """The one, with the time and the id of the other."""
    later = place.at - drawn.at
    job = drawn.job
    deadline = None if job.deadline is None else job.deadline + later
    job = replace(job, id=JobId(place.job.id), deadline=deadline, after=())
    cancel_at = None if drawn.cancel_at is None else drawn.cancel_at + later
    return replace(drawn, at=place.at, job=job, cancel_at=cancel_at)


def interval(values: Sequence[float]) -> MeanInterval:
    mean = fmean(values)
    if len(values) == 1:
        return MeanInterval(mean, mean, mean)
    freedom = len(values) - 1
    student = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else 1.96
    half = student * stdev(values) / sqrt(len(values))
    return MeanInterval(mean, mean - half, mean + half)
