"""GPUs that are free, or could be, for a job of some shape."""

from __future__ import annotations

from dovetail.core.inventory import Pool
from dovetail.core.model import WHOLE_GPU, Shape
from dovetail.core.room import Room


def free_text(room: Room, shape: Shape) -> str:
    """Free GPUs by kind, of those that the job may use."""
    by_kind: dict[str, tuple[int, int]] = {}
    strangers = closed = 0
    for pool in room.eligible(shape):
        free, total = by_kind.get(pool.kind, (0, 0))
        there = [n for n in pool.members if n not in room.gone]
        total += sum(room.nodes[n].gpus for n in there)
        by_kind[pool.kind] = (free + pool.free, total)
        strangers += sum(room.occupied.get(n, 0).bit_count() for n in there)
        closed += sum(room.nodes[n].gpus for n in there if not room.open[n])
    parts = [
        f"{free} of {total} {'slots' if kind == 'cpu' else f'GPUs of kind {kind}'}"
        for kind, (free, total) in list(by_kind.items())[:4]
    ]
    left = max(room.shares.values(), default=0)
    if shape.share != WHOLE_GPU and left:
        parts.append(f"{left / WHOLE_GPU:g} of a shared one")
    if strangers:
        parts.append(f"{strangers} in use by processes that are not ours")
    if closed:
        parts.append(f"{closed} on closed nodes")
    return "; ".join(parts) or "no GPU that it may use"


def usable(room: Room, pool: Pool) -> int:
    """GPUs that are ours to give, whichever job has them now."""
    return sum(
        room.nodes[n].gpus - room.occupied.get(n, 0).bit_count()
        for n in pool.members
        if room.open[n]
    )


def count_free(free: int) -> str:
    return {0: "none is free", 1: "1 is free"}.get(free, f"{free} are free")
