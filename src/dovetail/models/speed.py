"""How fast jobs really run: by GPU kind, by placement, and beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dovetail.core.model import Job, Node, Placement
from dovetail.models.power import NO_LIMITS, PowerTable
from dovetail.models.scaling import USUAL_SCALING, sped_up
from dovetail.models.speed_table import Hardware, SpeedTable, model_type

Speed = Callable[[Job, Placement, Sequence[Node]], float]
# The speed of the first beside the second on GPUs of that kind, as a part of its speed alone there.
Interference = Callable[[Job, Job, str], float]


def by_kind_and_placement(
    kinds: Mapping[str, float],
    across_nodes: float = 1.0,
    across_racks: float = 1.0,
    power: PowerTable = NO_LIMITS,
    scaling: float = USUAL_SCALING,
) -> Speed:
    """As its options say or by a factor for the GPU kind and a power of the number of GPUs; less for a
    gang over nodes or racks, and under a power limit."""

    def speed(job: Job, placement: Placement, nodes: Sequence[Node]) -> float:
        used = [nodes[piece.node] for piece in placement.slices]
        factor = min(
            _speed_on(job, node.kind, placement.gpus, kinds, scaling)
            / power.at(job.model, node.kind, placement.limit).slowdown
            for node in used
        )
        if len(used) > 1:
            factor *= across_nodes
        if len({node.rack for node in used}) > 1:
            factor *= across_racks
        return factor

    return speed


def _speed_on(job: Job, kind: str, gpus: int, kinds: Mapping[str, float], scaling: float) -> float:
    """A job that was timed there runs as timed; of the others only kind and number are known."""
    option = job.option(kind, gpus)
    if option is not None:
        return job.options[0].seconds / option.seconds
    return kinds.get(kind, 1.0) * sped_up(job, gpus, scaling)


def by_table(table: SpeedTable, otherwise: Speed) -> Speed:
    """As its model was measured on GPUs of that kind; what was never measured goes `otherwise`."""
    found: dict[tuple[str, str, int, int, int], float | None] = {}

    def speed(job: Job, placement: Placement, nodes: Sequence[Node]) -> float:
        kind = nodes[placement.slices[0].node].kind  # a gang stays on one
        way = (job.model, kind, placement.gpus, len(placement.slices), job.gpus)
        if way not in found:
            found[way] = _measured(table, *way)
        known = found[way]
        return otherwise(job, placement, nodes) if known is None or job.options else known

    return speed


def _measured(
    table: SpeedTable, model: str, kind: str, gpus: int, nodes: int, asked: int
) -> float | None:
    own = table.nearest(model_type(model)) if model and gpus and asked else None
    if own is None:
        return None
    usual = Hardware(table.reference, asked)
    return table.ratio(own, Hardware(table.kind_of(kind), gpus, nodes), usual)


def same_for_all_pairs(pair_speed: float) -> Interference:
    """Any two jobs on one GPU each run at this speed."""

    def interference(job: Job, other: Job, kind: str) -> float:
        return pair_speed

    return interference


def pairs_by_table(table: SpeedTable, otherwise: float) -> Interference:
    """As the two models were measured side by side on that kind; pairs that were not, otherwise."""

    def interference(job: Job, other: Job, kind: str) -> float:
        return table.parts_beside(job, other, kind)[0] or otherwise

    return interference
