"""Two objectives in conflict, and the runs that no other run dominates: the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.core.errors import BadInput
from dovetail.experiments.experiment import Experiment
from dovetail.models.cost import FREE, Costs
from dovetail.results.record import RunRecord

_EQUAL = 1e-9  # of a figure: less is rounding error


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the summary, of which less is better."""

    key: str
    label: str
    unit: str  # "s" for times; "" for money, in the unit of the prices


@dataclass(frozen=True, slots=True)
class Objective:
    """The figure to minimise, and the figure that pays for it."""

    name: str
    figure: Figure
    against: Figure
    columns: tuple[tuple[str, str], ...]  # of the terminal's table: keys and titles

    @property
    def title(self) -> str:
        return f"{self.figure.label} against {self.against.label.lower()}"


_JCT = Figure("mean_jct_s", "Mean completion time", "s")
_LATENESS = Figure("tardiness_s", "Lateness of all jobs", "s")
_TIMES = (("mean_jct_s", "mean JCT"), ("p99_jct_s", "p99"), ("makespan_s", "makespan"))
_MONEY = (
    ("energy_cost", "energy cost"),
    ("tardiness_cost", "lateness cost"),
    ("total_cost", "total"),
    ("tardiness_s", "lateness"),
    ("deadline_misses", "misses"),
)
OBJECTIVES: Mapping[str, Objective] = {
    own.name: own
    for own in (
        Objective("cost", Figure("total_cost", "Total cost", ""), _LATENESS, _MONEY),
        Objective(
            "energy",
            Figure("energy_kwh", "Energy", "kWh"),
            _JCT,
            (("energy_kwh", "kWh"), *_TIMES),
        ),
        Objective("co2", Figure("co2_kg", "CO2", "kg"), _JCT, (("co2_kg", "CO2 kg"), *_TIMES)),
        Objective("jct", _JCT, Figure("p99_jct_s", "99th percentile", "s"), _TIMES),
        Objective("makespan", Figure("makespan_s", "Makespan", "s"), _JCT, _TIMES),
    )
}


def objective_of(name: str, experiment: Experiment) -> Objective:
    """The objective of that name, if the experiment has figures for it."""
    found = OBJECTIVES.get(name)
    if found is None:
        raise BadInput(f"--objective {name!r} is not known; there are {', '.join(OBJECTIVES)}")
    costs = experiment.charged()
    missing = ""
    if name in ("energy", "co2", "cost") and not (costs.rates or costs.by_node):
        missing = (
            "power nodes draw; give idle_watts and gpu_watts in the file of --cluster, or --costs"
        )
    elif name == "cost" and costs.price is FREE and not _priced(costs):
        missing = "electricity costs; give --price"
    elif name == "co2" and costs.carbon is FREE:
        missing = "carbon is in electricity; give --carbon"
    if missing:
        raise BadInput(f"--objective {name}: it is not known what {missing}")
    return found


def _priced(costs: Costs) -> bool:
    """Is it given in money, whatever a kWh costs?"""
    return bool(costs.by_node) or any(rates.per_hour for rates in costs.rates.values())


def on_front(points: Sequence[Sequence[float]]) -> list[bool]:
    """For each point: is there none that is as good in all figures and better in one?"""
    return [not any(_beats(other, point) for other in points) for point in points]


def _beats(other: Sequence[float], point: Sequence[float]) -> bool:
    slack = [_EQUAL * max(abs(own), abs(its)) for own, its in zip(point, other, strict=True)]
    as_good = all(o <= p + s for o, p, s in zip(other, point, slack, strict=True))
    return as_good and any(o < p - s for o, p, s in zip(other, point, slack, strict=True))


def point_of(run: RunRecord, objective: Objective) -> tuple[float, float]:
    """Across and up."""
    summary = run.summary
    return float(summary[objective.against.key]), float(summary[objective.figure.key])


def judged(runs: Sequence[RunRecord], objective: Objective) -> list[RunRecord]:
    """The same runs, each with `pareto` in its summary: is it on the front?"""
    front = on_front([point_of(run, objective) for run in runs])
    return [
        replace(run, summary={**run.summary, "pareto": is_on})
        for run, is_on in zip(runs, front, strict=True)
    ]
