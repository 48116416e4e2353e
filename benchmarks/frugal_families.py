"""`frugal` against every other policy, over families of instances that differ in what costs something.

    python -m benchmarks frugal_families

What it settles on was found on seeds 0 to 89 of the first families; it is judged on seeds 100 to 109,
and on families that were drawn for the first time when most was settled (`LEFT_OUT`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import mean

from benchmarks.families import FAMILIES, LEFT_OUT
from benchmarks.lines import Line
from dovetail.core.errors import DovetailError
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.experiments.workers import workers
from dovetail.policies.registry import names

FRUGAL = "frugal"
JUDGED_ON = range(100, 110)
NEARLY = 1.02  # times the cheapest is as good as the cheapest
NOTHING = 1e-9
# The others as they are named; without those that take minutes and are no cheaper than random greedy.
ADAPTED = {
    "andreas-random-greedy": "andreas-random-greedy:passes=20",
    "round-robin": "round-robin:slice_s=600",
    "gandiva": "gandiva:slice_s=600",
}
TOO_SLOW = ("andreas-local-search", "andreas-path-relinking")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One instance: frugal's cost over the least of all others', and whose that is."""

    ratio: float
    best: str


def rivals() -> list[str]:
    return [ADAPTED.get(name, name) for name in names() if name not in (FRUGAL, *TOO_SLOW)]


def outcome(task: tuple[str, int, Sequence[str]]) -> Outcome:
    family, seed, policies = task
    runs = {FRUGAL: simulate(FAMILIES[family](seed), FRUGAL).summary}
    for policy in policies:
        try:  # each on an instance of its own: nodes fail as drawn from the beginning
            runs[policy] = simulate(FAMILIES[family](seed), policy).summary
        except DovetailError:
            continue  # one that cannot go on is no rival
    counted = what_counts(FAMILIES[family](seed), runs)
    costs = {policy: float(run[counted]) for policy, run in runs.items()}
    own = costs.pop(FRUGAL)
    best = min(costs, key=costs.__getitem__)
    return Outcome(_ratio(own, costs[best]), best)


def what_counts(experiment: Experiment, runs: Mapping[str, Mapping[str, float | int | str]]) -> str:
    """The total cost; where nothing has a price, how late jobs were; without deadlines, how long
    they took."""
    if any(float(run["total_cost"]) > NOTHING for run in runs.values()):
        return "total_cost"
    due = any(arrival.job.deadline is not None for arrival in experiment.arrivals)
    return "tardiness_s" if due else "mean_jct_s"


def _ratio(own: float, least: float) -> float:
    if own <= NOTHING:
        return 1.0 if least <= NOTHING else 0.0
    return own / least if least > NOTHING else inf


def measured(seeds: Sequence[int] = JUDGED_ON) -> Iterator[Line]:
    """Frugal's cost over that of the cheapest other policy: mean, worst, and how many within 2 %."""
    policies = rivals()
    tasks = [(family, seed, policies) for family in FAMILIES for seed in seeds]
    with workers() as pool:
        found = pool.map(outcome, tasks)
        for family in FAMILIES:
            yield _line(family, [next(found) for _ in seeds])


def _line(family: str, found: Sequence[Outcome]) -> Line:
    ratios = [one.ratio for one in found]
    near = sum(ratio <= NEARLY for ratio in ratios)
    rival = max(found, key=lambda one: one.ratio).best
    return Line(
        f"{family}{' (left out)' if family in LEFT_OUT else ''}",
        f"{mean(ratios):.3f}, worst {max(ratios):.3f} ({rival}), {near} of {len(found)}",
        f"at most {NEARLY:g} on average",
        mean(ratios) <= NEARLY,
    )
