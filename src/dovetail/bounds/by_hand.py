"""A lower bound by hand: every job alone on a full node, in its thriftiest way, never waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.core.model import Job, Node
from dovetail.models.cost import Costs
from dovetail.models.hourly import HOUR_S
from dovetail.models.workload import Arrival


def widths(nodes: Sequence[Node]) -> Mapping[str, int]:
    """GPUs of the largest node, by kind."""
    found: dict[str, int] = {}
    for node in nodes:
        found[node.kind] = max(node.gpus, found.get(node.kind, 0))
    return found


def least_per_gpu_hour(costs: Costs, nodes: Sequence[Node]) -> Mapping[str, float]:
    """Money for a busy GPU on a node with the best number of them, by kind, at the lowest price."""
    factor = min(costs.price_factor(hour * HOUR_S) for hour in range(len(costs.price.values)))
    return {
        kind: factor * min(costs.per_hour(kind, k) / k for k in range(1, width + 1))
        for kind, width in widths(nodes).items()
    }


def simple_bound(arrivals: Sequence[Arrival], nodes: Sequence[Node], costs: Costs) -> float:
    rates, wide = least_per_gpu_hour(costs, nodes), widths(nodes)
    total = 0.0
    for arrival in arrivals:
        options = [o for o in arrival.job.options if o.gpus <= wide.get(o.kind, 0)]
        total += min(o.gpus * o.seconds * rates[o.kind] for o in options) / HOUR_S
        fastest = arrival.at + min(o.seconds for o in options)
        total += costs.late_per_s(arrival.job) * max(0.0, fastest - due(arrival.job))
    return total


def due(job: Job) -> float:
    return float("inf") if job.deadline is None else job.deadline
