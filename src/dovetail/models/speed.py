"""How fast jobs really run: by GPU kind, by placement, and beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dovetail.core.model import Job, Node, Placement


def by_kind_and_placement(
    kinds: Mapping[str, float], across_nodes: float = 1.0, across_racks: float = 1.0
) -> Callable[[Job, Placement, Sequence[Node]], float]:
    """A factor for the GPU kind, and one each for a gang that spans nodes or racks."""

    def speed(job: Job, placement: Placement, nodes: Sequence[Node]) -> float:
        used = [nodes[piece.node] for piece in placement.slices]
        factor = min(kinds.get(node.kind, 1.0) for node in used)
        if len(used) > 1:
            factor *= across_nodes
        if len({node.rack for node in used}) > 1:
            factor *= across_racks
        return factor

    return speed


def same_for_all_pairs(pair_speed: float) -> Callable[[Job, Job], float]:
    """Any two jobs on one GPU each run at this speed."""

    def interference(job: Job, other: Job) -> float:
        return pair_speed

    return interference
