"""Jobs as if they wanted one pool of GPUs only."""

from __future__ import annotations

from typing import Final, final

from dovetail.core.inventory import Pool
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.track import Track


@final
class Narrowed:
    """Shapes by lane and pool, made when first asked for."""

    def __init__(self) -> None:
        self._shapes: Final[dict[tuple[int, int], Shape]] = {}

    def to(self, room: Room, track: Track, pool: Pool) -> Shape:
        """The job's shape as if it wanted that pool only. (It is no longer told apart by tenant:
        who has a quota must be asked for its own shape.)"""
        shape = track.shape
        if not shape.gpus:
            return shape  # it takes no GPUs from any pool
        if len(room.eligible(shape)) == 1:
            return shape
        narrowed = self._shapes.get((shape.lane, pool.index))
        if narrowed is None:
            way = (pool.kind, shape.gpus)
            narrowed = Shape(shape.lane, track.job, pool.tenant, way, home=shape.home)
            self._shapes[shape.lane, pool.index] = narrowed
        return narrowed
