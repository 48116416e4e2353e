"""An auditor that believes nothing reads what every policy writes, under every option of `simulate`."""

import gc
import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest

from contracts_texts import TEXTS
from dovetail.core.entries import (
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    Start,
    Started,
)
from dovetail.core.journal import read
from dovetail.core.model import Interruption, Job, JobId, Node, Option, Tenant
from dovetail.experiments.experiment import Experiment, simulate, with_interruption_cost
from dovetail.models.cost import Costs, rates_of
from dovetail.models.failures import NodeFailures
from dovetail.models.hourly import Hourly
from dovetail.models.power import Limited, PowerTable
from dovetail.models.workload import Arrival
from dovetail.policies.placement import PLACEMENTS
from dovetail.predict.learned import LEARNED
from dovetail.predict.registry import DURATIONS
from dovetail.testing import Audit, arrival, nodes, run_trace
from dovetail.testing.audit_work import check_work

NODES = (
    Node("a", 4, "A", 16.0, 16.0, 64.0, "r1", idle_watts=100.0, gpu_watts=300.0),
    Node("b", 2, "B", 32.0, idle_watts=50.0, gpu_watts=200.0),
    Node("c", 4, "A", 16.0, rack="r2", idle_watts=100.0, gpu_watts=300.0),
)
EVENTS = [
    NodeDraining(5.0, "b"), NodeDown(20.0, "a"), NodeUp(31.0, "a"), NodeUp(40.0, "b"),
    NodeLeft(50.0, "c"), NodeJoined(70.0, Node("c", 2, "A", 16.0)), NodeLeft(200.0, "c"),
]  # fmt: skip
POWER = PowerTable(
    {("net", kind): [Limited(0, 1.0, 300.0), Limited(150, 1.4, 150.0)] for kind in "AB"}
)

# Every option of `simulate` that changes what happens, with the values it is tried with.
OPTIONS: Mapping[str, Sequence[Any]] = {
    "placement": sorted(PLACEMENTS),
    "predictor": [name for name in DURATIONS if name not in LEARNED or name == "recent-mean"],
    "kind_speeds": [{}, {"A": 2.0, "B": 0.4}],
    "across": [(1.0, 1.0), (0.8, 0.9)],
    "pair_speed": [None, 0.6, 0.4],
    "interruption": [None, (0.0, 20.0), (5.0, 3.0)],
    "fails": [False, True],
    "node_failures": [None, NodeFailures(200.0, 10.0, 3)],
    "node_events": [(), EVENTS],
    "tenants": [(), (Tenant("x", 2.0), Tenant("y", 7.0))],
    "jobs": ["whole", "shares and hosts", "options"],
    "power": [False, True],
    "price": [False, True],
}


def covering() -> list[dict[str, Any]]:
    """Rows in which every two values of two options come together: greedily, from a seed."""
    names = list(OPTIONS)
    missing = {
        (i, a, j, b)
        for i, j in combinations(range(len(names)), 2)
        for a, b in product(range(len(OPTIONS[names[i]])), range(len(OPTIONS[names[j]])))
    }
    chance, rows = Random("covering"), []
    while missing:
        drawn = [[chance.randrange(len(OPTIONS[name])) for name in names] for _ in range(60)]
        best = max(drawn, key=lambda row: len(missing & _pairs(row)))
        if not missing & _pairs(best):  # aim at one that is left
            i, a, j, b = min(missing)
            best[i], best[j] = a, b
        missing -= _pairs(best)
        rows.append({name: OPTIONS[name][best[n]] for n, name in enumerate(names)})
    return rows


def _pairs(row: Sequence[int]) -> set[tuple[int, int, int, int]]:
    return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}


ROWS = covering()


def experiment_of(row: Mapping[str, Any], number: int) -> Experiment:
    chance = Random(f"audited/{number}")
    arrivals = sorted([_arrival(chance, n, row) for n in range(14)], key=lambda a: a.at)
    if row["interruption"] is not None:
        arrivals = with_interruption_cost(arrivals, *row["interruption"])
    price = Hourly([0.2, 0.1, 0.4], "price") if row["price"] else Costs().price
    costs = Costs(rates_of(NODES), price=price, power=POWER if row["power"] else Costs().power)
    return Experiment(
        arrivals,
        NODES,
        row["tenants"],
        row["node_events"],
        row["node_failures"],
        row["placement"],
        row["predictor"],
        row["kind_speeds"],
        across_nodes=row["across"][0],
        across_racks=row["across"][1],
        pair_speed=row["pair_speed"],
        costs=costs,
    )


def _arrival(chance: Random, number: int, row: Mapping[str, Any]) -> Arrival:
    at, work_s = chance.choice([0.0, 0.0, 3.0, 10.0, 60.0]), chance.choice([0.0, 5.0, 20.0, 90.0])
    asked = Job(
        JobId(f"j{number}"),
        user=chance.choice("uv"),
        tenant=chance.choice("xy"),
        model="net",
        deadline=chance.choice([None, at + 2 * work_s]),
        interruption=Interruption(lost_s=chance.choice([0.0, 4.0, inf])),
        **SIZES[row["jobs"]](chance, work_s),
    )
    if not row["fails"]:
        return Arrival(at, asked, work_s)
    asked = replace(asked, retries=1)
    cancel_at = at + 30.0 if chance.random() < 0.1 else None
    return Arrival(at, asked, work_s, chance.choice([(), (3.0,), (0.0, 8.0)]), cancel_at)


def _whole(chance: Random, work_s: float) -> dict[str, Any]:
    return {"gpus": chance.choice([1, 1, 2, 4, 6])}


def _shares(chance: Random, work_s: float) -> dict[str, Any]:
    ways: list[dict[str, Any]] = [
        {"share": 500}, {"share": 300}, {"gpus": 2, "cpus": 6.0, "memory_gb": 9.0},
        {"gpus": 0, "cpus": 3.0}, {"gpu_memory_gb": 20.0},
    ]  # fmt: skip
    return chance.choice(ways)


def _options(chance: Random, work_s: float) -> dict[str, Any]:
    if not work_s:
        return {}
    ways = (Option("A", 1, work_s), Option("A", 2, 0.6 * work_s), Option("B", 1, 1.5 * work_s))
    return {"kinds": ("A",), "options": ways, "settles": chance.random() < 0.3}


SIZES: Mapping[str, Callable[[Random, float], dict[str, Any]]] = {
    "whole": _whole, "shares and hosts": _shares, "options": _options,
}  # fmt: skip


def journal_of(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


@pytest.mark.parametrize("text", {text.split(":")[0]: text for text in reversed(TEXTS)}.values())
def test_the_auditor_finds_nothing_whatever_the_options(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        gc, "collect", lambda: 0
    )  # before each of a thousand runs it would take long
    for number, row in enumerate(ROWS):
        experiment = experiment_of(row, number)
        path = tmp_path / "journal.jsonl.gz"
        try:
            summary = simulate(experiment, text, journal=path).summary
            audit = Audit().read_text(journal_of(path))
            check_figures(audit, summary, experiment, row)
        except Exception as error:
            raise AssertionError(f"row {number}, {row}: {error}") from error


def check_figures(
    audit: Audit, summary: Mapping[str, Any], experiment: Experiment, row: Mapping[str, Any]
) -> None:
    """What the summary says, worked out again."""
    check_work(audit.work, {a.job.id: a.work_s for a in experiment.arrivals})
    ends = [*audit.ended.values()]
    assert len(ends) == len(experiment.arrivals)
    for tag, name in (("finished", "finished"), ("cancelled", "cancelled"), ("refuse", "refused")):
        assert ends.count(tag) == summary[name], name
    assert summary["gpu_seconds_used"] == pytest.approx(audit.busy_gpu_s, rel=1e-6, abs=1e-5)
    if not row["power"]:
        watts = {node.kind: (node.idle_watts, node.gpu_watts) for node in NODES}
        energy = audit.joules(lambda node: watts[node.kind]) / 3.6e6
        assert summary["energy_kwh"] == pytest.approx(energy, rel=1e-6, abs=1e-9)


def test_every_two_values_of_two_options_come_together() -> None:
    assert len(ROWS) <= 30
    for one, other in combinations(OPTIONS, 2):
        seen = [(row[one], row[other]) for row in ROWS]
        for a, b in product(OPTIONS[one], OPTIONS[other]):
            assert any(x is a and y is b for x, y in seen) or (a, b) in seen


# ---------------------------------------------------------------------------- the auditor has teeth


def lived() -> list[str]:
    cost = Interruption(save_s=5.0, restore_s=2.0)
    jobs = [
        arrival("long", 0.0, 60.0, interruption=cost),
        arrival("short", 10.0, 5.0, interruption=cost),
    ]
    return run_trace("srtf", jobs, nodes(1, 1)).text.splitlines()


def audited(lines: list[str]) -> None:
    check_work(Audit().read_text(lines).work, {JobId("long"): 60.0, JobId("short"): 5.0})


def test_it_passes_what_is_right() -> None:
    audited(lived())


@pytest.mark.parametrize(
    ("kind", "says"),
    [(Started, "before it is at work|it had 60.0 to do"), (Start, "without GPUs|does not have")],
)
def test_it_finds_an_entry_that_is_missing(kind: type[Any], says: str) -> None:
    lines = lived()
    places = [n for n, entry in enumerate(read(lines)) if isinstance(entry, kind)]
    for place in places:
        with pytest.raises(AssertionError, match=says):
            audited(lines[:place] + lines[place + 1 :])


def test_it_finds_a_start_before_the_gpus_are_free() -> None:
    lines = [
        line.replace('"at":15.0,"started":"short"', '"at":12.0,"started":"short"')
        for line in lived()
    ]
    with pytest.raises(AssertionError, match="at work before t=15"):
        Audit().read_text(sorted(lines, key=lambda line: float(line[6:].split(",")[0])))


def test_it_finds_work_that_was_not_done() -> None:
    audit = Audit().read_text(lived())
    with pytest.raises(AssertionError, match="it had 61"):
        check_work(audit.work, {JobId("long"): 61.0, JobId("short"): 5.0})
