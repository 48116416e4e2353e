"""How the jobs and nodes of our families of instances are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from dovetail.core.model import Job, JobId, Node
from dovetail.models.cost import Costs, rates_of
from dovetail.models.hourly import Hourly
from dovetail.models.workload import Arrival

PRICE = 0.2  # money per kWh
BIG, SMALL = ("A100", 8, 400.0, 300.0), ("T4", 4, 100.0, 70.0)  # GPUs, watts when on, per busy GPU


def usual_length(chance: Random) -> float:
    """Seconds, spread over two orders of magnitude."""
    return min(chance.lognormvariate(7.5, 1.1), 40_000.0)


@dataclass(frozen=True, slots=True)
class Load:
    """Jobs without options: how much they ask of the GPUs, and what they say of themselves."""

    jobs: int = 80
    load: float = 0.7  # part of the GPUs that they need, at speed 1
    sizes: Sequence[int] = (1, 1, 1, 2, 4)
    shares: Sequence[int] = (1000,)
    due: tuple[float, float] | None = (1.5, 5.0)  # after so many times what it takes
    late: tuple[float, float] | None = None  # money a second
    priorities: Sequence[float] = (0.0,)
    tenants: Sequence[str] = ("",)
    kinds: Sequence[tuple[str, ...]] = ((),)
    length: Callable[[Random], float] = usual_length


def nodes_of(*kinds: tuple[str, int, float, float], count: int = 2) -> list[Node]:
    return [
        Node(f"{kind}-{i}", gpus, kind, idle_watts=idle, gpu_watts=busy)
        for kind, gpus, idle, busy in kinds
        for i in range(count)
    ]


def drawn(chance: Random, load: Load, nodes: Sequence[Node]) -> list[Arrival]:
    """Arrivals are Poisson."""
    lengths = [load.length(chance) for _ in range(load.jobs)]
    sizes = [chance.choice(load.sizes) for _ in range(load.jobs)]
    shares = [chance.choice(load.shares) if size == 1 else 1000 for size in sizes]
    work = sum(s * g * part / 1000 for s, g, part in zip(lengths, sizes, shares, strict=True))
    gap_s = work / (sum(node.gpus for node in nodes) * load.load) / load.jobs
    arrivals, at = [], 0.0
    for number, (seconds, gpus, share) in enumerate(zip(lengths, sizes, shares, strict=True)):
        job = Job(
            JobId(f"j{number}"),
            gpus=gpus,
            share=share,
            kinds=chance.choice(load.kinds),
            tenant=chance.choice(load.tenants),
            priority=chance.choice(load.priorities),
            deadline=None if load.due is None else at + seconds * chance.uniform(*load.due),
            late_cost_per_s=None if load.late is None else chance.uniform(*load.late),
        )
        arrivals.append(Arrival(at, job, seconds))
        at += chance.expovariate(1.0 / gap_s)
    return arrivals


def priced(nodes: Sequence[Node], price: float = PRICE) -> Costs:
    return Costs(rates_of(nodes), Hourly([price], "price"))
