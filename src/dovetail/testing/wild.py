"""Worlds that nobody would think of: every speed, share, failure and number that may be given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

from dovetail.core.model import Estimate, Interruption, Job, JobId, Node, Option, Tenant
from dovetail.models.failures import NodeFailures
from dovetail.models.speed import by_kind_and_placement, same_for_all_pairs
from dovetail.models.workload import Arrival
from dovetail.testing.worlds import World, random_node_events

KINDS = ("A", "B", "C")
_SPEEDS = (1.0, 1.0, 2.0, 0.5, 0.3, 7.0, 1.0 / 3.0, 0.02, 100.0)
_TIMES = (0.0, 0.0, 0.0, 1.0, 1.0, 2.5, 10.0, 10.0, 60.0, 1e-9, 3e3)
_LENGTHS = (0.0, 0.0, 1.0, 1.0, 10.0, 10.0, 33.3, 60.0, 100.0, 1e-9, 0.1 + 0.2, 1e3)
_LEAVING = (0.0, 2.0, 10.0, 10.0, 31.0)
_COSTS = (0.0, 0.0, 0.5, 1.0, 5.0, 30.0, 200.0)


def wild_world(chance: Random, most_jobs: int = 10) -> World:
    """Small; every job can end in it, and no law forbids any of it."""
    cluster = [_node(chance, number) for number in range(chance.choice([1, 1, 2, 3]))]
    quotas = chance.random() < 0.25
    tenants = [Tenant("a", chance.choice([0.5, 1.0, 3.0])), Tenant("b", 8.0)] if quotas else []
    kinds = KINDS if chance.random() < 0.3 else ()
    cost = _interruption(chance)
    late = chance.choice([0.0, 0.0, 0.0, 1e9])  # clocks that have run for long are coarse
    arrivals = [_arrival(chance, number, kinds, cost, late) for number in range(most_jobs)]
    arrivals = arrivals[: chance.randint(1, most_jobs)]
    arrivals.sort(key=lambda arrival: arrival.at)
    speed = by_kind_and_placement(
        {kind: chance.choice(_SPEEDS) for kind in KINDS},
        across_nodes=chance.choice([1.0, 0.8, 0.1, 1.5]),
        across_racks=chance.choice([1.0, 0.9]),
    )
    pairs = chance.choice([None, 0.4, 0.5, 0.6, 1.0, 1.7, 0.01])
    return World(
        arrivals,
        cluster,
        tenants,
        random_node_events(chance, cluster, 0.7, _LEAVING, Node("late", 4, "A"), late),
        speed if kinds or chance.random() < 0.7 else None,
        None if pairs is None else same_for_all_pairs(pairs),
        NodeFailures(3e6, 30.0, chance.randrange(9)) if chance.random() < 0.1 else None,
    )


def _node(chance: Random, number: int) -> Node:
    gpus = chance.choice([1, 1, 2, 4])
    return Node(
        f"n{number}",
        gpus,
        kind=chance.choice(["A", "A", *KINDS]),
        gpu_memory_gb=chance.choice([0.0, 16.0]),
        cpus=chance.choice([inf, inf, 4.0 * gpus, 3.3]),
        memory_gb=chance.choice([inf, inf, 10.0 * gpus]),
        rack=chance.choice(["", "r1"]),
        tenant=chance.choice(["", "", "", "", "", "a"]),
        idle_watts=chance.choice([0.0, 100.0]),
        gpu_watts=chance.choice([0.0, 300.0]),
    )


def _interruption(chance: Random) -> Interruption | None:
    if chance.random() < 0.5:
        return None
    lost_s = chance.choice([inf, 0.0, 4.0])
    return Interruption(chance.choice(_COSTS), chance.choice(_COSTS), lost_s)


def _arrival(
    chance: Random, number: int, kinds: Sequence[str], cost: Interruption | None, late: float
) -> Arrival:
    at, work_s = late + chance.choice(_TIMES), chance.choice(_LENGTHS)
    slack = chance.choice([2.0, 1.0, 0.0, -1.0, 0.7, 1e3])
    asked = Job(
        JobId(f"j{number}"),
        user=chance.choice(["", "u", "v"]),
        tenant=chance.choice(["", "", "a", "b"]),
        model=chance.choice(["", "resnet"]),
        priority=chance.choice([0.0, 0.0, 1.0, -2.0, 1e9]),
        weight=chance.choice([1.0, 1.0, 0.001, 50.0]),
        deadline=chance.choice([None, max(at + slack * work_s, 0.0), 0.0]),
        late_cost_per_s=chance.choice([None, None, 0.0, 0.001, 10.0]),
        estimate=chance.choice([None, Estimate(work_s), Estimate(0.0), Estimate(1e9)]),
        preemptible=chance.random() < 0.95,
        **_size(chance, kinds, work_s),
    )
    if cost is not None and chance.random() < 0.8:
        asked = replace(asked, interruption=cost)
    cancel_at = at + chance.choice(_TIMES) if chance.random() < 0.1 else None
    failures: tuple[float, ...] = ()
    if chance.random() < 0.15:
        asked = replace(asked, retries=chance.randint(0, 2))
        failures = (chance.choice([0.0, 2.0, 20.0]), chance.choice([0.0, 3.0]))
    return Arrival(at, asked, work_s, failures, cancel_at)


def _size(chance: Random, kinds: Sequence[str], work_s: float) -> dict[str, Any]:
    if kinds and work_s > 0:
        ways = [(kind, gpus) for kind in kinds for gpus in (1, 2, 4)]
        ways = [ways[0], *chance.sample(ways[1:], chance.randint(0, 4))]
        options = tuple(
            Option(kind, gpus, work_s * (chance.choice([1.0, 0.5, 3.0]) if i else 1.0))
            for i, (kind, gpus) in enumerate(ways)
        )
        return {"kinds": ("A",), "options": options, "settles": chance.random() < 0.3}
    what = chance.random()
    if what < 0.6:
        return {"gpus": chance.choice([1, 1, 2, 2, 4, 3, 8])}
    if what < 0.7:
        return {"gpus": chance.choice([1, 2]), "kinds": chance.choice([("A",), ("B", "A")])}
    if what < 0.85:
        return {"share": chance.choice([500, 250, 700, 333, 1])}
    if what < 0.95:
        gpus = chance.choice([1, 2])
        return {"gpus": gpus, "cpus": chance.choice([4.0, 3.3]) * gpus, "memory_gb": 2.0 * gpus}
    return chance.choice([{"gpus": 0, "cpus": 2.0}, {"gpu_memory_gb": 12.0}])
