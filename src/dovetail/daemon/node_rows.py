"""From the room of a state to the rows of its nodes: every GPU, and who has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isinf

from dovetail.api.machine_row import Gpu, NodeRow, Occupant
from dovetail.core.model import WHOLE_GPU
from dovetail.core.view import View
from dovetail.daemon.gpus_told import gpu_number

NOBODY: Mapping[str, list[str]] = {}
_ByGpu = dict[tuple[int, int], list[Occupant]]


def node_rows(
    view: View, wanted: Collection[int] | None = None, others: Mapping[str, list[str]] = NOBODY
) -> list[NodeRow]:
    """Of all nodes, or of those with these numbers. `others`: see `World.users_beside`."""
    room = view.room
    there = range(len(room.nodes)) if wanted is None else sorted(wanted)
    numbers = [n for n in there if n not in room.gone]
    jobs = _jobs_by_gpu(view, wanted)
    return [_node(view, n, jobs, others) for n in numbers]


def _node(view: View, n: int, jobs: _ByGpu, others: Mapping[str, list[str]]) -> NodeRow:
    room, node = view.room, view.room.nodes[n]
    return NodeRow(
        id=node.id,
        kind=node.kind,
        gpus=[
            Gpu(
                index=gpu_number(node, i),
                uuid=node.labels[i][1] if i < len(node.labels) else None,
                jobs=jobs.get((n, i), []),
                strangers=bool(room.used_by_strangers(n) >> i & 1),
                closed=room.why_closed.get((n, i), ""),
                to_vacate=bool(room.vacated.get(n, 0) >> i & 1),
                others=others.get(node.labels[i][1], []) if i < len(node.labels) else [],
            )
            for i in range(node.gpus)
        ],
        free=room.free[n].bit_count(),
        up=n not in room.down,
        open=room.open[n],
        gpu_memory_gb=node.gpu_memory_gb,
        gpu_watts=node.gpu_watts,
        cpus=_finite(node.cpus),
        memory_gb=_finite(node.memory_gb),
    )


def _jobs_by_gpu(view: View, wanted: Collection[int] | None) -> _ByGpu:
    found: _ByGpu = {}
    for track in view.running.values():
        placement, job = track.placement, track.job
        for piece in placement.slices if placement is not None else ():
            if wanted is not None and piece.node not in wanted:
                continue
            own = Occupant(job=job.id, name=job.name, user=job.user, share=job.share / WHOLE_GPU)
            for i in range(piece.mask.bit_length()):
                if piece.mask >> i & 1:
                    found.setdefault((piece.node, i), []).append(own)
    return found


def _finite(value: float) -> float | None:
    return None if isinf(value) else value
