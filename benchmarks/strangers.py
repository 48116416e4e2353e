"""Families as somebody else drew them to find where `frugal` is dear: gangs as large as a node, lengths
with a heavy tail, bursts, deadlines that leave next to nothing; mostly with interruptions that cost.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from benchmarks.drawing import BIG, SMALL, Load, drawn, nodes_of, priced
from dovetail.core.model import JobId, Node, Option, Tenant
from dovetail.experiments.experiment import Experiment, with_interruption_cost
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.workload import Arrival
from dovetail.traces.readers.andreas_folder import timed_job

MIDDLE = ("V100", 4, 250.0, 200.0)
BURST = 12  # jobs at once


def full_node_gangs(seed: int) -> Experiment:
    return _full_node_gangs(Random(f"full-node gangs/{seed}"), 0.0, 0.0)


def full_node_gangs_interrupted(seed: int) -> Experiment:
    return _full_node_gangs(Random(f"full-node gangs interrupted/{seed}"), 30.0, 300.0)


def _full_node_gangs(chance: Random, save_s: float, restore_s: float) -> Experiment:
    """One GPU, all of a node, or all there is."""
    nodes = nodes_of(BIG)
    load = Load(60, chance.choice([0.5, 0.8, 1.2]), sizes=(1, 8, 16), late=(1e-4, 1e-3))
    arrivals = with_interruption_cost(drawn(chance, load, nodes), save_s, restore_s)
    return Experiment(arrivals, nodes, costs=priced(nodes), across_nodes=0.7)


def heavy_tails(seed: int) -> Experiment:
    """A few jobs are most of the work."""
    chance = Random(f"heavy tails/{seed}")
    nodes = nodes_of(BIG, MIDDLE, SMALL, count=1)
    late = chance.choice([None, (1e-4, 1e-3)])
    load = Load(60, chance.choice([0.5, 0.9, 1.3]), late=late, length=_pareto)
    arrivals = with_interruption_cost(drawn(chance, load, nodes), 20.0, 90.0)
    speeds = {"V100": 0.6, "T4": 0.3}
    return Experiment(arrivals, nodes, kind_speeds=speeds, costs=priced(nodes))


def _pareto(chance: Random) -> float:
    return min(200.0 * chance.paretovariate(0.9), 200_000.0)


def bursts(seed: int) -> Experiment:
    """Many of a tenant's jobs at once, against quotas."""
    chance = Random(f"bursts/{seed}")
    nodes = nodes_of(BIG, SMALL)
    late = chance.choice([None, (1e-4, 1e-3)])
    load = Load(72, chance.choice([0.5, 0.9]), due=(1.3, 6.0), late=late, tenants=("a", "b", "c"))
    apart, arrivals = drawn(chance, load, nodes), list[Arrival]()
    for number, arrival in enumerate(apart):
        first = apart[number - number % BURST]
        earlier = arrival.at - first.at
        due = None if arrival.job.deadline is None else arrival.job.deadline - earlier
        job = replace(arrival.job, tenant=first.job.tenant, deadline=due)
        arrivals.append(Arrival(first.at, job, arrival.work_s))
    quotas = [Tenant("a", 12), Tenant("b", 8), Tenant("c")]
    costed = with_interruption_cost(arrivals, 60.0, 240.0)
    return Experiment(costed, nodes, quotas, costs=priced(nodes))


def odd_options(seed: int) -> Experiment:
    """Few ways to run each job, that do not follow from each other; interruption is not free."""
    chance = Random(f"odd options/{seed}")
    sizes = {"AAA": 2, "BBB": 3, "CCC": 6}
    watts = {kind: (chance.uniform(50, 300), chance.uniform(40, 300)) for kind in sizes}
    nodes = [Node(f"n{i}", sizes[kind], kind) for i, kind in enumerate([*sizes, "AAA", "CCC"])]
    rates = {
        kind: NodeRates(per_hour=(0.0, *[(on + k * busy) / 5000 for k in range(1, gpus + 1)]))
        for (kind, gpus), (on, busy) in zip(sizes.items(), watts.values(), strict=True)
    }
    gap_s, arrivals, at = chance.choice([200.0, 500.0, 1200.0]), list[Arrival](), 0.0
    for number in range(50):
        ways = [(kind, gpus) for kind, most in sizes.items() for gpus in range(1, most + 1)]
        seconds = min(chance.lognormvariate(7.5, 1.1), 30_000.0)
        options = [
            Option(kind, gpus, seconds * chance.uniform(0.4, 1.6) / gpus ** chance.uniform(0, 1.1))
            for kind, gpus in chance.sample(ways, chance.randint(1, 5))
        ]
        fastest = min([option.seconds for option in options])
        due, late = at + fastest * chance.uniform(1.1, 6.0), chance.uniform(1e-4, 2e-3)
        job = timed_job(f"j{number}", options, options, deadline=due, late_cost_per_s=late)
        arrivals.append(Arrival(at, job, job.options[0].seconds))
        at += chance.expovariate(1.0 / gap_s)
    return Experiment(with_interruption_cost(arrivals, 30.0, 60.0), nodes, costs=Costs(rates))


def tiny_deadlines(seed: int) -> Experiment:
    """Next to no slack; whoever waits is late."""
    chance = Random(f"tiny deadlines/{seed}")
    nodes = nodes_of(BIG, SMALL)
    late = chance.choice([None, (1e-4, 1e-3)])
    load = Load(60, chance.choice([0.4, 0.8]), due=(1.01, 1.3), late=late)
    arrivals = with_interruption_cost(drawn(chance, load, nodes), 15.0, 45.0)
    return Experiment(arrivals, nodes, costs=priced(nodes))


# ------------------------------------------------------------------- drawn when all was settled


def two_shifts(seed: int) -> Experiment:
    """Nothing, then more than there is room for, then nothing; wide jobs beside short ones."""
    chance = Random(f"two shifts/{seed}")
    nodes = nodes_of(BIG, MIDDLE)
    calm = Load(25, 0.4, sizes=(1, 2, 4), late=(1e-4, 1e-3))
    rush = Load(35, 2.0, sizes=(1, 4, 8, 12), due=(1.2, 3.0), late=(1e-4, 2e-3))
    first, second = drawn(chance, calm, nodes), drawn(chance, rush, nodes)
    later = [
        replace(a, job=replace(a.job, id=JobId(f"r{a.job.id}"), deadline=_moved(a, first[12].at)))
        for a in second
    ]
    rushed = [replace(a, at=a.at + first[12].at) for a in later]
    arrivals = sorted([*first, *rushed], key=lambda arrival: arrival.at)
    save_s, restore_s = chance.choice([(0.0, 0.0), (45.0, 120.0)])
    costed = with_interruption_cost(arrivals, save_s, restore_s)
    speeds = {"V100": 0.7}
    return Experiment(costed, nodes, kind_speeds=speeds, costs=priced(nodes), across_nodes=0.85)


def _moved(arrival: Arrival, later: float) -> float | None:
    due = arrival.job.deadline
    return None if due is None else due + later


def shared_gpus(seed: int) -> Experiment:
    """Mostly parts of GPUs, beside gangs of more than a node; deadlines without a price for some."""
    chance = Random(f"shared GPUs/{seed}")
    nodes = nodes_of(SMALL, count=3)
    late = chance.choice([None, (1e-4, 1e-3)])
    load = Load(60, chance.choice([0.5, 1.0]), (1, 1, 1, 2, 6), (250, 500, 1000), (1.3, 4.0), late)
    arrivals = with_interruption_cost(drawn(chance, load, nodes), 5.0, 60.0)
    return Experiment(arrivals, nodes, costs=priced(nodes), across_nodes=0.9)
