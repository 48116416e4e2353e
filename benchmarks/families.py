"""Families of small instances that differ in what costs something, drawn by chance.

A family is a function from a seed to an `Experiment`. What holds on one is said for others of its kind
only if it was settled on other seeds than it is judged on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from benchmarks import strangers
from benchmarks.drawing import BIG, SMALL, Load, drawn, nodes_of, priced
from dovetail.core.model import JobId, Node, Option, Tenant
from dovetail.experiments.experiment import Experiment, with_interruption_cost
from dovetail.models.cost import Costs, NodeRates, rates_of
from dovetail.models.failures import NodeFailures
from dovetail.models.hourly import HOUR_S, Hourly
from dovetail.models.workload import Arrival
from dovetail.traces.readers.andreas_folder import timed_job
from dovetail.traces.synthetic.andreas_instances import Scenario, draw

Family = Callable[[int], Experiment]
AUTHORS = ("exponential:5000", "exponential:8000", "high", "mixed", "low")
RENTED = ("high", "mixed", "low", "exponential:50000")


# --------------------------------------------------------------------------------------- the families


def of_the_authors(seed: int) -> Experiment:
    instance = draw(Scenario(5, 50, AUTHORS[seed % len(AUTHORS)], seed))
    return Experiment(instance.trace.arrivals, instance.nodes, costs=instance.costs)


def rented(seed: int) -> Experiment:
    instance = draw(Scenario(3, 30, RENTED[seed % len(RENTED)], seed, "datacenter"))
    return Experiment(instance.trace.arrivals, instance.nodes, costs=instance.costs)


def scaling(seed: int) -> Experiment:
    return _scaling(Random(f"scaling/{seed}"), (450.0, 900.0, 1800.0, 3600.0), 9.0)


def scaling_in_overload(seed: int) -> Experiment:
    return _scaling(Random(f"scaling in overload/{seed}"), (100.0, 150.0, 250.0), 3.0)


def _scaling(chance: Random, gaps: Sequence[float], laxest: float) -> Experiment:
    """Every job runs on 1 to 7 GPUs of three kinds of unequal speed and power."""
    sizes = {"AAA": 3, "BBB": 5, "CCC": 7}
    speeds = {kind: chance.uniform(0.7, 1.5) for kind in sizes}
    rates = {kind: NodeRates(per_hour=_growing(chance, gpus)) for kind, gpus in sizes.items()}
    nodes = [Node(f"n{i}", sizes[kind], kind) for i, kind in enumerate([*sizes, "AAA", "BBB"])]
    gap_s = chance.choice(gaps)
    arrivals, at = [], 0.0
    for number in range(60):
        seconds = min(chance.lognormvariate(9.0, 1.0), 60_000.0)
        grows = chance.uniform(0.3, 0.95)
        options = [
            Option(kind, gpus, seconds / (speeds[kind] * gpus**grows))
            for kind, most in sizes.items()
            for gpus in range(1, most + 1)
            if gpus == 1 or chance.random() < 0.8
        ]
        times = [option.seconds for option in options]
        due = at + chance.choice([chance.uniform(1.1, laxest) * min(times), 3 * max(times)])
        late = chance.uniform(0.0001, 0.01)
        job = timed_job(f"j{number}", options, options, deadline=due, late_cost_per_s=late)
        arrivals.append(Arrival(at, job, job.options[0].seconds))
        at += chance.expovariate(1.0 / gap_s)
    return Experiment(arrivals, nodes, costs=Costs(rates))


def _growing(chance: Random, gpus: int) -> tuple[float, ...]:
    """Money per hour of a node with 0, 1, 2, … busy GPUs."""
    first, power = chance.uniform(0.03, 0.1), chance.uniform(0.5, 0.9)
    return (0.0, *[first * k**power for k in range(1, gpus + 1)])


def unequal_kinds(seed: int) -> Experiment:
    """Jobs without options on kinds whose speeds nobody tells."""
    chance = Random(f"unequal/{seed}")
    nodes = nodes_of(BIG, SMALL, ("V100", 4, 250.0, 200.0))
    speeds = {"T4": chance.uniform(0.2, 0.6), "V100": chance.uniform(0.4, 1.0), "A100": 1.0}
    late = chance.choice([None, (1e-4, 1e-3)])
    load = Load(load=chance.choice([0.3, 0.5]), due=(2.0, 6.0), late=late)
    arrivals = drawn(chance, load, nodes)
    return Experiment(arrivals, nodes, kind_speeds=speeds, costs=priced(nodes))


def without_prices(seed: int) -> Experiment:
    """Energy costs nothing; lateness does, by priority."""
    chance = Random(f"no prices/{seed}")
    nodes = [Node(f"n{i}", 4) for i in range(3)]
    load = Load(150, chance.choice([0.8, 1.2, 2.0]), due=(1.1, 3.0), priorities=(1, 2, 3, 4, 5))
    return Experiment(drawn(chance, load, nodes), nodes)


def without_deadlines(seed: int) -> Experiment:
    chance = Random(f"no deadlines/{seed}")
    nodes = nodes_of(BIG, SMALL)
    load = Load(load=chance.choice([0.3, 0.6, 0.9]), due=None)
    return Experiment(drawn(chance, load, nodes), nodes, costs=priced(nodes))


def overload(seed: int) -> Experiment:
    chance = Random(f"overload/{seed}")
    nodes = nodes_of(BIG, SMALL, count=1)
    load = Load(150, chance.choice([1.3, 1.8, 2.5]), due=(1.2, 4.0), late=(1e-4, 1e-3))
    return Experiment(drawn(chance, load, nodes), nodes, costs=priced(nodes))


def busy(seed: int) -> Experiment:
    """As much work as there are GPUs, for a while."""
    chance = Random(f"busy/{seed}")
    nodes = nodes_of(BIG, SMALL, count=1)
    load = Load(100, chance.choice([0.9, 1.4, 2.0]), late=(1e-4, 1e-3))
    return Experiment(drawn(chance, load, nodes), nodes, costs=priced(nodes))


def costly_interruption(seed: int) -> Experiment:
    chance = Random(f"interruption/{seed}")
    nodes = nodes_of(BIG, SMALL)
    load = Load(jobs=120, load=chance.choice([0.6, 0.9, 1.3]), late=(1e-4, 1e-3))
    save_s, restore_s = chance.choice([(30.0, 60.0), (120.0, 300.0), (0.0, 900.0)])
    arrivals = with_interruption_cost(drawn(chance, load, nodes), save_s, restore_s)
    return Experiment(arrivals, nodes, costs=priced(nodes))


def tenants(seed: int) -> Experiment:
    """Quotas, nodes of one's own, interruption that costs; lateness has no price."""
    chance = Random(f"tenants/{seed}")
    own = [Node("own", 8, "A100", tenant="nlp", idle_watts=400.0, gpu_watts=300.0)]
    nodes = [*nodes_of(BIG, SMALL), *own]
    load = Load(
        jobs=120,
        load=chance.choice([0.5, 0.8]),
        tenants=("vision", "nlp", "", ""),
        kinds=((), (), ("A100",), ("T4",)),
    )
    arrivals = with_interruption_cost(drawn(chance, load, nodes), 30.0, 60.0)
    quotas = [Tenant("vision", 8), Tenant("nlp")]
    return Experiment(arrivals, nodes, quotas, costs=priced(nodes))


def gangs_and_shares(seed: int) -> Experiment:
    """Jobs over several nodes, and jobs on a part of a GPU."""
    chance = Random(f"gangs/{seed}")
    nodes = nodes_of(BIG, count=4)
    load = Load(load=0.6, sizes=(1, 1, 1, 2, 8, 16), shares=(1000, 500, 250), late=(1e-4, 1e-3))
    arrivals = with_interruption_cost(drawn(chance, load, nodes), 10.0, 30.0)
    return Experiment(arrivals, nodes, costs=priced(nodes), across_nodes=0.8)


def wide_jobs(seed: int) -> Experiment:
    """Some that fill a node of the one kind, or two of the other, which is thriftier."""
    chance = Random(f"wide/{seed}")
    nodes = nodes_of(BIG, SMALL)
    late = chance.choice([None, (1e-4, 1e-3)])
    load = Load(load=chance.choice([0.4, 0.8]), sizes=(1, 1, 2, 4, 8), due=(1.5, 6.0), late=late)
    arrivals = with_interruption_cost(drawn(chance, load, nodes), 30.0, 60.0)
    speed, across = chance.choice([(1.0, 1.0), (1.0, 0.8), (0.5, 0.9)])
    return Experiment(
        arrivals, nodes, costs=priced(nodes), kind_speeds={"T4": speed}, across_nodes=across
    )


def by_the_hour(seed: int) -> Experiment:
    """Energy that is cheap at night."""
    chance = Random(f"hours/{seed}")
    nodes = nodes_of(BIG, count=3)
    load = Load(load=chance.choice([0.3, 0.6]), due=(2.0, 12.0), late=(1e-4, 1e-3))
    price = Hourly([0.1] * 7 + [0.3] * 12 + [0.2] * 5, "price")
    costs = Costs(rates_of(nodes), price)
    return Experiment(drawn(chance, load, nodes), nodes, costs=costs)


def failing_nodes(seed: int) -> Experiment:
    """Nodes that fail now and then, and with them the work since the last minute that was saved."""
    chance = Random(f"failures/{seed}")
    nodes = nodes_of(BIG, SMALL)
    load = Load(100, chance.choice([0.5, 0.9]), late=(1e-4, 1e-3))
    arrivals = with_interruption_cost(drawn(chance, load, nodes), 10.0, 30.0)
    failures = NodeFailures(40 * HOUR_S, HOUR_S, seed)
    return Experiment(arrivals, nodes, costs=priced(nodes), failures=failures)


def costly_switching(seed: int) -> Experiment:
    """Money for every node that is switched on, and for every job that is moved."""
    chance = Random(f"switching/{seed}")
    nodes = nodes_of(BIG, SMALL)
    load = Load(100, chance.choice([0.4, 0.8]), late=(1e-4, 1e-3))
    costs = replace(priced(nodes), switch_on=0.05, move=0.02)
    return Experiment(drawn(chance, load, nodes), nodes, costs=costs)


def mixed_crowd(seed: int) -> Experiment:
    """Some with deadlines, some without, on kinds of unequal speed, interruption not free."""
    chance = Random(f"mixed/{seed}")
    nodes = nodes_of(BIG, SMALL)
    due = drawn(chance, Load(60, 0.4, late=(1e-4, 1e-3)), nodes)
    free = drawn(chance, Load(60, 0.4, sizes=(1, 2, 8), due=None), nodes)
    free = [replace(a, job=replace(a.job, id=JobId(f"f{a.job.id}"))) for a in free]
    arrivals = sorted([*due, *free], key=lambda arrival: arrival.at)
    arrivals = with_interruption_cost(arrivals, 10.0, 60.0)
    return Experiment(arrivals, nodes, kind_speeds={"T4": 0.4}, costs=priced(nodes))


def nothing_counts(seed: int) -> Experiment:
    """No price, no watts, no deadlines: how long jobs take is all there is."""
    chance = Random(f"nothing/{seed}")
    nodes = [Node(f"n{i}", 8) for i in range(2)]
    load = Load(load=chance.choice([0.6, 0.9, 1.2]), due=None)
    return Experiment(drawn(chance, load, nodes), nodes)


def only_deadlines(seed: int) -> Experiment:
    """No price, no watts: how late jobs are is all there is."""
    chance = Random(f"deadlines/{seed}")
    nodes = [Node(f"n{i}", 4) for i in range(3)]
    load = Load(150, chance.choice([0.8, 1.2, 2.0]), due=(1.1, 3.0))
    return Experiment(drawn(chance, load, nodes), nodes)


SETTLED_ON: Mapping[str, Family] = {
    "the authors'": of_the_authors,
    "rented nodes": rented,
    "scaling jobs": scaling,
    "scaling in overload": scaling_in_overload,
    "unequal kinds": unequal_kinds,
    "no prices": without_prices,
    "no deadlines": without_deadlines,
    "busy": busy,
    "overload": overload,
    "costly interruption": costly_interruption,
    "tenants": tenants,
    "gangs and shares": gangs_and_shares,
    "wide jobs": wide_jobs,
    "price by the hour": by_the_hour,
    "only deadlines": only_deadlines,
    "nothing counts": nothing_counts,
    "costly switching": costly_switching,
    "full-node gangs": strangers.full_node_gangs,
    "full-node gangs, interrupted": strangers.full_node_gangs_interrupted,
    "heavy tails": strangers.heavy_tails,
    "bursts of tenants": strangers.bursts,
    "odd options": strangers.odd_options,
    "tiny deadlines": strangers.tiny_deadlines,
}
# Drawn for the first time when all was settled.
LEFT_OUT: Mapping[str, Family] = {
    "failing nodes": failing_nodes,
    "mixed crowd": mixed_crowd,
    "two shifts": strangers.two_shifts,
    "shared GPUs": strangers.shared_gpus,
}
FAMILIES: Mapping[str, Family] = {**SETTLED_ON, **LEFT_OUT}
