"""ANDREAS' deterministic methods once more: no core, no loop, no index, short enough to be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from dovetail.core.model import Node
from dovetail.models.cost import Costs
from dovetail.models.workload import Arrival

AT_ONCE_S = 1e-7


@dataclass
class Going:
    arrival: Arrival
    left: float = 1.0
    run: tuple[str, int, str] | None = None  # kind, GPUs, node
    times: dict[tuple[str, int], float] = field(default_factory=dict)

    def seconds(self) -> float:
        assert self.run is not None
        return self.times[self.run[:2]] * self.left


def total_cost(
    arrivals: Sequence[Arrival], nodes: Sequence[Node], costs: Costs, method: str
) -> float:
    """The money that the whole run costs under `greedy`, `fifo`, `edf` or `priority`."""
    size = {node.id: node.gpus for node in nodes}
    kind = {node.id: node.kind for node in nodes}
    free = dict(size)
    lists = {k: sorted(n for n in size if kind[n] == k) for k in set(kind.values())}
    coming = [
        Going(a, times={(o.kind, o.gpus): o.seconds for o in sorted(a.job.options)})
        for a in sorted(arrivals, key=lambda a: a.at)
    ]
    here: list[Going] = []
    now = money = 0.0
    while coming or here:
        if not here:
            now = max(now, coming[0].arrival.at)
        while coming and coming[0].arrival.at <= now + AT_ONCE_S:
            here.append(coming.pop(0))
        if method == "greedy":
            free = dict(size)
            for own in lists.values():
                own.sort(key=lambda n: (free[n], n))
            for job in here:
                job.run = None
        for job in sorted([j for j in here if not j.run], key=lambda j: _key(j, method, now)):
            for kind_, gpus in _ranked(job, now, costs):
                fitting = [n for n in lists.get(kind_, []) if free[n] >= gpus]
                if fitting:
                    job.run = (kind_, gpus, fitting[0])
                    _use(lists[kind_], free, fitting[0], gpus)
                    break
        running = [job for job in here if job.run]
        step = min([job.seconds() for job in running], default=inf)
        step = min(step, coming[0].arrival.at - now if coming else inf)
        busy = {n: size[n] - free[n] for n in size if free[n] < size[n]}
        money += sum(costs.per_hour(kind[n], k) for n, k in busy.items()) * step / 3600
        now += step
        for job in running:
            assert job.run is not None
            job.left -= step / job.times[job.run[:2]]
            if job.seconds() <= AT_ONCE_S or job.left <= 1e-9:
                here.remove(job)
                money += _late(job, now, costs)
                free[job.run[2]] += job.run[1]
                lists[job.run[0]].sort(key=lambda n: (free[n], n))
    return money


def _key(job: Going, method: str, now: float) -> float:
    asked = job.arrival.job
    assert asked.deadline is not None
    assert asked.late_cost_per_s is not None
    if method != "greedy":
        keys = {"fifo": job.arrival.at, "edf": asked.deadline, "priority": -asked.late_cost_per_s}
        return keys[method]
    late = now + min(job.times.values()) * job.left - asked.deadline
    return -late * (asked.late_cost_per_s if late > 0 else 1.0)


def _ranked(job: Going, now: float, costs: Costs) -> list[tuple[str, int]]:
    deadline = job.arrival.job.deadline
    assert deadline is not None
    in_time = [way for way, t in job.times.items() if now + t * job.left <= deadline]
    in_time.sort(key=lambda way: costs.per_hour(*way) * job.times[way])
    late = [way for way in job.times if way not in in_time]
    return in_time + sorted(late, key=lambda way: job.times[way])


def _use(nodes: list[str], free: dict[str, int], node: str, gpus: int) -> None:
    nodes.remove(node)
    free[node] -= gpus
    nodes.insert(sum(free[n] < free[node] for n in nodes), node)


def _late(job: Going, now: float, costs: Costs) -> float:
    deadline = job.arrival.job.deadline
    assert deadline is not None
    return costs.late_per_s(job.arrival.job) * max(0.0, now - deadline)
