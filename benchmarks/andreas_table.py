"""The published table of ANDREAS: what its policies save against first-principle methods.

    python -m benchmarks.andreas_table [--seeds 10] [--nodes 10,20] [--policies andreas-random-greedy]

Each row is a load on a cluster of N nodes with 10 N + 1 jobs. The part of the cost that a policy saves
is taken seed by seed; shown are the mean and its 95 % interval.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import mean, stdev

from dovetail.app.experiment import Experiment, simulate
from dovetail.policies.registry import BUILTIN
from dovetail.traces.scenarios import Scenario, draw

LOADS = ("exponential:5000", "exponential:8000", "high", "mixed", "low")
BASELINES = {"FIFO": "andreas-fifo", "EDF": "andreas-edf", "Priority": "andreas-priority"}
RANDOM_GREEDY = "andreas-random-greedy"
# What the authors' program saved against FIFO: least and most over their seeds, in per cent.
MEASURED = {
    (10, "exponential:5000"): (63.3, 69.6),
    (10, "exponential:8000"): (11.8, 57.2),
    (10, "high"): (29.4, 47.8),
    (10, "mixed"): (6.9, 18.8),
    (10, "low"): (3.6, 7.9),
    (20, "exponential:5000"): (50.8, 72.6),
    (20, "high"): (4.8, 16.4),
}
PUBLISHED = (30.0, 62.0)
STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # by degrees of freedom


@dataclass(frozen=True)
class Cell:
    """The costs of one seed, by policy."""

    nodes: int
    load: str
    seed: int
    total: dict[str, float]
    late: dict[str, float]


def measured(task: tuple[int, str, int, tuple[str, ...]]) -> Cell:
    nodes, load, seed, policies = task
    instance = draw(Scenario(nodes, 10 * nodes, load, seed))
    experiment = Experiment(instance.trace.arrivals, instance.nodes, costs=instance.costs)
    runs = {p: simulate(experiment, p).summary for p in (*BASELINES.values(), *policies)}
    return Cell(
        nodes,
        load,
        seed,
        {p: float(run["total_cost"]) for p, run in runs.items()},
        {p: float(run["tardiness_cost"]) for p, run in runs.items()},
    )


def saved(cells: Sequence[Cell], policy: str, baseline: str) -> list[float]:
    """Per cent of the baseline's cost, seed by seed."""
    return [100 * (1 - cell.total[policy] / cell.total[baseline]) for cell in cells]


def interval(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:5.1f}"
    t = STUDENT_95[len(values) - 2] if len(values) - 2 < len(STUDENT_95) else 1.96
    return f"{mean(values):5.1f} ± {t * stdev(values) / len(values) ** 0.5:4.1f}"


def row(nodes: int, load: str, policy: str, cells: Sequence[Cell]) -> str:
    against = "  ".join(interval(saved(cells, policy, b)).rjust(12) for b in BASELINES.values())
    over_rg = ""
    if policy != RANDOM_GREEDY and RANDOM_GREEDY in cells[0].total:
        over_rg = f"  {interval(saved(cells, policy, RANDOM_GREEDY))} % less than random greedy"
    late = mean(100 * cell.late[policy] / cell.total[policy] for cell in cells)
    begins = f"{nodes:>3}  {load:<17} {policy:<24} {against}  {late:5.2f}"
    return f"{begins}{over_rg}  {verdict(nodes, load, policy, cells)}"


def verdict(nodes: int, load: str, policy: str, cells: Sequence[Cell]) -> str:
    """Does the random greedy save what the authors' does, and what they have published?"""
    found = mean(saved(cells, policy, BASELINES["FIFO"]))
    said = []
    if policy == RANDOM_GREEDY and (nodes, load) in MEASURED:
        low, high = MEASURED[nodes, load]
        said.append(f"{'in' if low <= found <= high else 'OUTSIDE'} {low:g}–{high:g}")
    if PUBLISHED[0] <= found <= PUBLISHED[1]:
        said.append(f"within the published {PUBLISHED[0]:g}–{PUBLISHED[1]:g}")
    return ", ".join(said)


def main(argv: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--nodes", default="10,20")
    usual = [RANDOM_GREEDY, *(["frugal"] if "frugal" in BUILTIN else [])]
    options.add_argument("--policies", default=",".join(usual))
    given = options.parse_args(argv)
    policies = tuple(given.policies.split(","))
    print(
        "Saved against FIFO, EDF and Priority in % (mean ± 95 %); lateness in % of the total cost"
    )
    print(
        f"{'N':>3}  {'load':<17} {'policy':<24} {'FIFO':>12}  {'EDF':>12}  {'Priority':>12}   late"
    )
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for nodes in map(int, given.nodes.split(",")):
            for load in LOADS:
                tasks = [(nodes, load, seed, policies) for seed in range(given.seeds)]
                cells = list(pool.map(measured, tasks))
                for policy in policies:
                    print(row(nodes, load, policy, cells), flush=True)


if __name__ == "__main__":
    main()
