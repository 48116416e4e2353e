"""How fast jobs really run: by GPU kind, by placement, and beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dovetail.core.model import Job, Node, Placement
from dovetail.models.power import NO_LIMITS, PowerTable


def by_kind_and_placement(
    kinds: Mapping[str, float],
    across_nodes: float = 1.0,
    across_racks: float = 1.0,
    power: PowerTable = NO_LIMITS,
) -> Callable[[Job, Placement, Sequence[Node]], float]:
    """As its options say or by a factor for the GPU kind; less for a gang over nodes or racks, and
    under a power limit."""

    def speed(job: Job, placement: Placement, nodes: Sequence[Node]) -> float:
        used = [nodes[piece.node] for piece in placement.slices]
        factor = min(
            _speed_on(job, node.kind, placement.gpus, kinds)
            / power.at(job.model, node.kind, placement.limit).slowdown
            for node in used
        )
        if len(used) > 1:
            factor *= across_nodes
        if len({node.rack for node in used}) > 1:
            factor *= across_racks
        return factor

    return speed


def _speed_on(job: Job, kind: str, gpus: int, kinds: Mapping[str, float]) -> float:
    """A job that was timed there runs as timed; of the others only the kind is known."""
    option = job.option(kind, gpus)
    return kinds.get(kind, 1.0) if option is None else job.options[0].seconds / option.seconds


def same_for_all_pairs(pair_speed: float) -> Callable[[Job, Job], float]:
    """Any two jobs on one GPU each run at this speed."""

    def interference(job: Job, other: Job) -> float:
        return pair_speed

    return interference
