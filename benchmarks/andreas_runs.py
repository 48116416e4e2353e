"""What policies cost on instances as ANDREAS has them, many at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from dovetail.experiments.experiment import Experiment, simulate
from dovetail.experiments.workers import workers
from dovetail.traces.readers.andreas_folder import Instance, read_instance
from dovetail.traces.synthetic.andreas_instances import Scenario, draw

BASELINES = {"FIFO": "andreas-fifo", "EDF": "andreas-edf", "Priority": "andreas-priority"}
RANDOM_GREEDY, LOCAL_SEARCH = "andreas-random-greedy", "andreas-local-search"
FRUGAL = "frugal"
RECORDED = Path(__file__).parents[2] / "shared" / "golden" / "andreas"
STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # by degrees of freedom

Source = Scenario | Path  # drawn by chance, or recorded


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    seeds: Sequence[int]
    nodes: Sequence[int]
    limit_s: float  # for each search of HiGHS; 0: none


@dataclass(frozen=True, slots=True)
class Costs:
    """What an instance costs in all, and for lateness, by policy."""

    total: Mapping[str, float]
    late: Mapping[str, float]

    def saved(self, policy: str, by: str) -> float:
        """Per cent of what the other costs."""
        return 100 * (1 - self.total[policy] / self.total[by])

    def above_best(self, policy: str) -> float:
        """Per cent above the best of FIFO, EDF and Priority; below it if negative."""
        best = min(self.total[baseline] for baseline in BASELINES.values())
        return 100 * (self.total[policy] / best - 1)

    def late_part(self, policy: str) -> float:
        return 100 * self.late[policy] / self.total[policy]


def instance_of(source: Source) -> Instance:
    return read_instance(source) if isinstance(source, Path) else draw(source)


def costs_of(task: tuple[Source, Sequence[str]]) -> Costs:
    source, policies = task
    instance = instance_of(source)
    experiment = Experiment(instance.trace.arrivals, instance.nodes, costs=instance.costs)
    runs = {policy: simulate(experiment, policy).summary for policy in policies}
    return Costs(
        {policy: float(run["total_cost"]) for policy, run in runs.items()},
        {policy: float(run["tardiness_cost"]) for policy, run in runs.items()},
    )


def all_costs(sources: Iterable[Source], policies: Sequence[str]) -> Iterator[Costs]:
    """In the order of the sources, each as soon as it is there, on all cores."""
    with workers() as pool:
        yield from pool.map(costs_of, [(source, policies) for source in sources])


def recorded(beginning: str) -> list[Path]:
    """The authors' folders; none where they are not at hand."""
    return sorted(RECORDED.glob(f"{beginning}*")) if RECORDED.exists() else []


def recorded_totals(folder: Path) -> dict[str, float]:
    """By their method; of one that was run twice the last."""
    with open(folder / "results.csv", newline="") as file:
        return {row[0]: float(row[7]) for row in csv.reader(file)}


def interval(values: Sequence[float]) -> str:
    """The mean, and by how much it may be off at 95 %."""
    if len(values) < 2:
        return f"{values[0]:.1f}"
    t = STUDENT_95[len(values) - 2] if len(values) - 2 < len(STUDENT_95) else 1.96
    return f"{mean(values):.1f} ± {t * stdev(values) / len(values) ** 0.5:.1f}"


def spread(values: Sequence[float]) -> str:
    return f"{mean(values):+.1f} % ({min(values):+.1f} to {max(values):+.1f})"
