"""ANDREAS' published table, and how far ahead of it `frugal` is.

    python -m benchmarks.andreas_table [--quick] [--first-seed 0] [table recorded optimum datacenter]

`table`: ten seeds of every load with N = 10 and 20 nodes and 10 N + 1 jobs; what random greedy and
frugal save against FIFO, EDF and Priority (mean ± 95 %). `recorded`: the same against the totals that
the authors recorded. `optimum`: N = 3 against what one who knows the future would pay. `datacenter`:
rented nodes, most of the loads beyond what they can bear. All of it takes some ten minutes on two
cores; --quick a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from statistics import mean

from benchmarks.andreas_recorded import recorded_runs
from benchmarks.andreas_runs import (
    BASELINES,
    FRUGAL,
    RANDOM_GREEDY,
    Costs,
    Extent,
    Source,
    all_costs,
    costs_of,
    instance_of,
    interval,
    recorded,
    spread,
)
from benchmarks.lines import Line
from dovetail.bounds.solver import solved
from dovetail.bounds.time_slots import Slotted
from dovetail.experiments.workers import workers
from dovetail.traces.synthetic.andreas_instances import Scenario

LOADS = ("exponential:5000", "exponential:8000", "high", "mixed", "low")
DATACENTER_LOADS = ("high", "mixed", "low", "exponential:50000")
# What the authors' program saved against FIFO: least and most over their seeds, in per cent.
AUTHORS = {
    (10, "exponential:5000"): (63.3, 69.6),
    (10, "exponential:8000"): (11.8, 57.2),
    (10, "high"): (29.4, 47.8),
    (10, "mixed"): (6.9, 18.8),
    (10, "low"): (3.6, 7.9),
    (20, "exponential:5000"): (50.8, 72.6),
    (20, "high"): (4.8, 16.4),
}
PUBLISHED = (30.0, 62.0)
SLOT_S, FINE_SLOT_S = 600.0, 150.0


# ---------------------------------------------------------------------------------------------- table


def table(extent: Extent) -> Iterator[Line]:
    """What is saved against FIFO, EDF and Priority, in per cent; lateness in per cent of the total."""
    print(f"{'N load':>10}{'FIFO':>45}{'EDF':>15}{'Priority':>15}{'late':>8}")
    policies = (*BASELINES.values(), RANDOM_GREEDY, FRUGAL)
    cells = [(nodes, load) for nodes in extent.nodes for load in LOADS]
    sources = [Scenario(n, 10 * n, load, s) for n, load in cells for s in extent.seeds]
    costs = all_costs(sources, policies)
    for nodes, load in cells:
        own = [next(costs) for _ in extent.seeds]
        for policy in (RANDOM_GREEDY, FRUGAL):
            print(row(nodes, load, policy, own), flush=True)
        yield from verdicts(nodes, load, own)


def row(nodes: int, load: str, policy: str, costs: Sequence[Costs]) -> str:
    against = "".join(
        interval([one.saved(policy, by) for one in costs]).rjust(15) for by in BASELINES.values()
    )
    late = mean(one.late_part(policy) for one in costs)
    return f"{nodes:>5} {load:<17}{policy:<21} {against[4:]}{late:8.2f}"


def verdicts(nodes: int, load: str, costs: Sequence[Costs]) -> Iterator[Line]:
    what = f"N = {nodes}, {load}"
    found = mean(one.saved(RANDOM_GREEDY, BASELINES["FIFO"]) for one in costs)
    if (nodes, load) in AUTHORS:
        low, high = AUTHORS[nodes, load]
        yield Line(
            f"{what}: random greedy, {published(found)}",
            f"{found:.1f} %",
            f"{low:g} to {high:g} %",
            low <= found <= high,
        )
    ahead = [one.saved(FRUGAL, RANDOM_GREEDY) for one in costs]
    late = mean(one.late_part(FRUGAL) for one in costs)
    yield Line(
        f"{what}: frugal below it; late",
        f"{interval(ahead)} %, {late:.2f} %",
        "10 %, at most 1 %",
        mean(ahead) >= 10 and late <= 1,
    )


def published(found: float) -> str:
    low, high = PUBLISHED
    if low <= found <= high:
        return f"in {low:g}–{high:g}"
    return f"{'below' if found < low else 'above'} {low:g}–{high:g}"


# -------------------------------------------------------------------------------------------- optimum


def optimum(extent: Extent) -> Iterator[Line]:
    """N = 3: frugal above who knows the future. A linear program says what nobody can go below; HiGHS
    searches for the best schedule in whole slots, which frugal need not keep to."""
    for load in LOADS:
        above = [above_bound(Scenario(3, 30, load, seed)) for seed in extent.seeds]
        yield at_most_10(f"N = 3, {load}: frugal above the bound", above)
    if folders := recorded("ANDREAS-N3-"):
        above = [above_bound(folder) for folder in folders]
        yield at_most_10(f"N = 3, {len(folders)} recorded folders: above it", above)
    if not extent.limit_s:
        return
    sources: list[Source] = [Scenario(3, 30, load, extent.seeds[0]) for load in LOADS]
    with workers() as pool:
        found = pool.map(above_schedule, [(source, extent.limit_s) for source in sources])
        for load, (above_it, gap) in zip(LOADS, found, strict=True):
            yield Line(
                f"N = 3, {load}: above a schedule",
                f"{above_it:+.1f} % (gap {gap:.1f} %)",
                "at most 10 %",
                above_it <= 10,
            )


def at_most_10(what: str, above: Sequence[float]) -> Line:
    return Line(what, spread(above), "at most 10 %", max(above) <= 10)


def above_bound(source: Source) -> float:
    """Per cent above what is proven to be the least, and so at most as much above the optimum."""
    instance = instance_of(source)
    arrivals, nodes, costs = instance.trace.arrivals, instance.nodes, instance.costs
    least = solved(Slotted(arrivals, nodes, costs, FINE_SLOT_S, relaxed=True), 60.0).bound
    return 100 * (costs_of((source, (FRUGAL,))).total[FRUGAL] / least - 1)


def above_schedule(task: tuple[Source, float]) -> tuple[float, float]:
    """Per cent above the best schedule in whole slots, and what the search left open of it."""
    source, limit_s = task
    instance = instance_of(source)
    arrivals, nodes, costs = instance.trace.arrivals, instance.nodes, instance.costs
    best = solved(Slotted(arrivals, nodes, costs, SLOT_S, relaxed=False), limit_s)
    cost = costs_of((source, (FRUGAL,))).total[FRUGAL]
    return 100 * (cost / best.cost - 1), 100 * (1 - best.bound / best.cost)


# ----------------------------------------------------------------------------------------- datacenter


def datacenter(extent: Extent) -> Iterator[Line]:
    """Rented nodes: frugal above the best of FIFO, EDF and Priority on each instance."""
    policies = (*BASELINES.values(), FRUGAL)
    cells = [(nodes, load) for nodes in (3, 10) for load in DATACENTER_LOADS]
    sources = [
        Scenario(n, 10 * n, load, s, "datacenter") for n, load in cells for s in extent.seeds
    ]
    costs = all_costs(sources, policies)
    for nodes, load in cells:
        above = [next(costs).above_best(FRUGAL) for _ in extent.seeds]
        yield never_worse(f"datacenter, N = {nodes}, {load}", above)
    folders = recorded("datacenter")
    if folders:
        above = [one.above_best(FRUGAL) for one in all_costs(folders, policies)]
        yield never_worse(f"datacenter, {len(folders)} recorded folders", above)


def never_worse(what: str, above: Sequence[float]) -> Line:
    return Line(what, spread(above), "never above, -10 %", max(above) <= 0 and mean(above) <= -10)


SECTIONS: dict[str, Callable[[Extent], Iterator[Line]]] = {
    "table": table,
    "recorded": recorded_runs,
    "optimum": optimum,
    "datacenter": datacenter,
}


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--quick", action="store_true", help="two seeds, ten nodes")
    options.add_argument("--first-seed", type=int, default=0)
    options.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    given = options.parse_args(argv)
    if unknown := [name for name in given.sections if name not in SECTIONS]:
        options.error(f"there is no section {unknown[0]!r}; choose from {', '.join(SECTIONS)}")
    first = given.first_seed
    whole = Extent(range(first, first + 10), (10, 20), limit_s=30.0)
    extent = Extent(range(first, first + 2), (10,), limit_s=0.0) if given.quick else whole
    missed = 0
    for name in given.sections or SECTIONS:
        print(f"\n{name}: {SECTIONS[name].__doc__}")
        for line in SECTIONS[name](extent):
            print(line, flush=True)
            missed += not line.holds
    print(f"\n{missed} missed" if missed else "\nall hold")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
