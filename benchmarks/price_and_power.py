"""Shifting work to hours with little carbon, and choosing power limits: what they save.

Everything is run in the simulator under `frugal`, against starting at once without limits; only the
bounds are computed. The carbon table is known to the policy as a forecast that turns out right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.lines import Line
from dovetail.core.model import Job, JobId, Node, Seconds
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.cost import Costs, rates_of
from dovetail.models.hourly import HOUR_S, Hourly
from dovetail.models.power import PowerTable
from dovetail.models.workload import Arrival
from dovetail.traces.clusters.hourly_tables import read_hourly
from dovetail.traces.clusters.power_tables import read_power_tables

DATA = Path(__file__).parents[2] / "shared" / "data"
CARBON = DATA / "carbon" / "opendc_carbon_NL_2021-2024.parquet"
ZEUS = {kind: DATA / "zeus" / f"summary_power_{kind.lower()}.csv" for kind in ("A40", "V100")}

SHORTEST_S, LONGEST_S, SLACK_S = 1 * HOUR_S, 8 * HOUR_S, 24 * HOUR_S
EVERY_S = 6 * HOUR_S  # a job comes
GPU_WATTS = 300.0
SINGLE = [Node(f"n{i}", 1, gpu_watts=GPU_WATTS) for i in range(32)]
SERVERS = [Node(f"n{i}", 8, idle_watts=800.0, gpu_watts=GPU_WATTS) for i in range(4)]
LIMITED_S = 10 * HOUR_S  # a job without a limit


def measured() -> Iterator[Line]:
    """CO2 of jobs that can wait a day, and energy under power limits."""
    if CARBON.exists():
        yield from shifted(read_hourly(str(CARBON), "carbon"), EVERY_S)
    else:
        print("     the carbon table is not here: left out")
    if all(path.exists() for path in ZEUS.values()):
        yield from limited({kind: f"{kind}={path}" for kind, path in ZEUS.items()})
    else:
        print("     the tables of Zeus are not here: left out")


# ------------------------------------------------------------------------------------------ carbon


def shifted(carbon: Hourly, every_s: Seconds) -> Iterator[Line]:
    """Jobs of one to eight hours over the whole table, each with a day of slack."""
    arrivals = patient_jobs(carbon, every_s)
    for nodes, price, policy, where in (
        (SINGLE, 0.0, "frugal:carbon=1", "nodes of one GPU, carbon alone"),
        (SINGLE, 0.2, "frugal:carbon=0.1", "the same, 0.2 per kWh, 0.1 per kg"),
        (SERVERS, 0.0, "frugal:carbon=1", "servers of eight GPUs, carbon alone"),
    ):
        costs = Costs(rates_of(nodes), price=Hourly([price], "price"), carbon=carbon)
        experiment = Experiment(arrivals, nodes, costs=costs)
        at_once = simulate(experiment, "fifo").summary
        ours = simulate(experiment, policy).summary
        saved = 1 - float(ours["co2_kg"]) / float(at_once["co2_kg"])
        late = int(ours["deadline_misses"])
        yield Line(
            f"CO2, {where}", f"{-saved:+.1%}, {late} late", "at least 20 % less, none late",
            saved >= 0.2 and not late,
        )  # fmt: skip
    yield from _bounds(arrivals, carbon)


def _bounds(arrivals: Sequence[Arrival], carbon: Hourly) -> Iterator[Line]:
    at_once = sum(carbon.total(a.at, a.at + a.work_s) for a in arrivals)
    for least, how in ((least_suspended, "suspending"), (least_in_one_go, "in one go")):
        best = sum(least(carbon, a.at, a.work_s, SLACK_S) for a in arrivals)
        yield Line(
            f"the least possible for one GPU each, {how}", f"{best / at_once - 1:+.1%}", "", True
        )


def patient_jobs(carbon: Hourly, every_s: Seconds) -> list[Arrival]:
    chance = Random("price and power")
    last = len(carbon.values) * HOUR_S - LONGEST_S - SLACK_S
    arrivals = []
    for number in range(int(last / every_s) + 1):
        at, work_s = number * every_s, chance.uniform(SHORTEST_S, LONGEST_S)
        job = Job(JobId(f"j{number}"), deadline=at + work_s + SLACK_S, late_cost_per_s=1e-3)
        arrivals.append(Arrival(at, job, work_s))
    return arrivals


def least_suspended(carbon: Hourly, at: Seconds, work_s: Seconds, slack_s: Seconds) -> float:
    """Grams for a kilowatt in the cheapest hours of the job's window, times seconds."""
    hours = []
    now, end = at, at + work_s + slack_s
    while now < end:
        then = min(carbon.changes_after(now), end)
        hours.append((carbon.at(now), then - now))
        now = then
    total, left = 0.0, work_s
    for value, seconds in sorted(hours):
        total += value * min(seconds, left)
        left -= min(seconds, left)
    return total


def least_in_one_go(carbon: Hourly, at: Seconds, work_s: Seconds, slack_s: Seconds) -> float:
    """The same without ever stopping: then it begins or ends with an hour, or as its window does."""
    last, starts = at + slack_s, [at, at + slack_s]
    hour = carbon.changes_after(at)
    while hour <= last + work_s:
        starts += [hour, hour - work_s]
        hour += HOUR_S
    return min(carbon.total(s, s + work_s) for s in starts if at <= s <= last)


# ------------------------------------------------------------------------------------ power limits


@dataclass(frozen=True, slots=True)
class Spent:
    """By jobs that all take as long without a limit."""

    kwh: float
    seconds: float


def limited(tables: Mapping[str, str]) -> Iterator[Line]:
    """Every model of each table for ten hours on a GPU of its own, with and without limits."""
    before, after = [], []
    for kind, table in tables.items():
        power = read_power_tables([table], [kind])
        before.append(spent(kind, power, "fifo"))
        after.append(spent(kind, power, "frugal"))
        yield _saved(f"{kind}, {len(power.models)} models", before[-1:], after[-1:])
    yield _saved("all of them", before, after)


def spent(kind: str, power: PowerTable, policy: str) -> Spent:
    """No deadlines: what time is worth is then the policy's own `haste`."""
    arrivals = [
        Arrival(0.0, Job(JobId(model), model=model), LIMITED_S) for model in sorted(power.models)
    ]
    nodes = [Node(f"n{i}", 1, kind) for i in range(len(arrivals))]
    costs = Costs(price=Hourly([0.2], "price"), power=power)
    summary = simulate(Experiment(arrivals, nodes, costs=costs), policy).summary
    return Spent(float(summary["energy_kwh"]), len(arrivals) * float(summary["mean_jct_s"]))


def _saved(what: str, before: Iterable[Spent], after: Iterable[Spent]) -> Line:
    kwh, seconds = [
        sum(getattr(one, name) for one in after) / sum(getattr(one, name) for one in before) - 1
        for name in ("kwh", "seconds")
    ]
    return Line(
        f"power limits, {what}", f"energy {kwh:+.1%}, time {seconds:+.1%}",
        "at most -12 %, +10 %", kwh <= -0.12 and seconds <= 0.1,
    )  # fmt: skip
