"""Several policies on the same jobs, and on jobs like them: figures with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.experiments.seeds import with_seed
from dovetail.experiments.summary_table import other_ends
from dovetail.library.frames import as_frame
from dovetail.library.simulating import (
    ClusterOrText,
    Page,
    PolicyGiven,
    Simulation,
    experiment_of,
    run,
)
from dovetail.library.trace_files import TraceGiven, as_trace
from dovetail.results.intervals import (
    MeanInterval,
    difference,
    figure_interval,
    figure_of,
    least,
    mean_figures,
)
from dovetail.results.job_table import job_table

_SHOWN = ("mean_jct_s", "p99_jct_s", "mean_wait_s", "makespan_s", "gpu_utilisation")

TraceForSeed = Callable[[int], TraceGiven]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`runs` has for each policy one simulation a seed, the same seeds in the same order."""

    runs: Mapping[str, Sequence[Simulation]] = field(repr=False)

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(self.runs)

    def figure(self, policy: str, name: str) -> MeanInterval:
        return figure_interval(name, self._values(policy, name))

    def difference(self, policy: str, other: str, name: str = "mean_jct_s") -> MeanInterval:
        """How much more the first has than the second, seed by seed: an interval without 0 says
        that one of them has less on jobs like these."""
        return difference(self._values(policy, name), self._values(other, name))

    def best(self, name: str = "mean_jct_s") -> str:
        """The policy with the least of it."""
        return least({policy: self.figure(policy, name) for policy in self.policies})

    def table(self, frame: str | None = None) -> Any:
        """A row for each policy, with the mean of every figure and its interval."""
        return as_frame([self._row(policy) for policy in self.policies], frame)

    def jobs(self, frame: str | None = None) -> Any:
        """A row for each job of every run."""
        rows = [
            {"policy": policy, "seed": seed, **row}
            for policy, runs in self.runs.items()
            for seed, own in enumerate(runs)
            for row in job_table(own.record)
        ]
        return as_frame(rows, frame)

    def plot(self) -> Page:
        """A picture of the policies side by side, on the trace as it is."""
        from dovetail.reports.page import render

        return Page(render([own[0].record for own in self.runs.values()], "Dovetail", None, {}))

    def __str__(self) -> str:
        cells = [["policy", *_SHOWN]]
        cells += [
            [policy, *(str(self.figure(policy, name)) for name in _SHOWN)]
            for policy in self.policies
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        for policy, runs in self.runs.items():
            lines += other_ends(policy, [run.figures for run in runs])
        return "\n".join(lines)

    def _values(self, policy: str, name: str) -> list[float]:
        return [figure_of(own.figures, name) for own in self._of(policy)]

    def _of(self, policy: str) -> Sequence[Simulation]:
        if policy not in self.runs:
            raise BadInput(f"{policy!r} was not compared; {', '.join(self.runs)} were")
        return self.runs[policy]

    def _row(self, policy: str) -> dict[str, Any]:
        own = self._of(policy)
        figures = mean_figures([run.figures for run in own])
        return {"policy": policy, "seeds": len(own), **figures}


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
    if isinstance(policies, str):
        policies = [policies]
    if seeds < 1 or not policies:
        raise BadInput("compare: give one policy and one seed at least")
    runs: dict[str, list[Simulation]] = {}
    one = None if callable(trace) else as_trace(trace)
    for seed in range(seeds):
        if callable(trace):
            own = experiment_of(trace(seed), cluster, predictor, {"seed": seed, **more})
        else:
            assert one is not None
            own = with_seed(experiment_of(one, cluster, predictor, more), seed)
        found = [run(own, policy) for policy in policies]
        if len({result.policy for result in found}) < len(found):
            raise BadInput("compare: two policies have one name; give each one of its own")
        for result in found:
            runs.setdefault(result.policy, []).append(result)
    return Comparison(runs)
