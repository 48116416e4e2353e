"""What some jobs would leave free if they were stopped, without stopping them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from dovetail.core.inventory import ROUNDING, Pool
from dovetail.core.model import WHOLE_GPU
from dovetail.core.room import Room, most_beside
from dovetail.core.shape import Shape
from dovetail.core.track import Track


@final
class Freed:
    """A shared GPU is free when the last of those on it is stopped: pairs count together."""

    def __init__(self, room: Room) -> None:
        self._shares: Final = room.shares
        self._left: dict[tuple[int, int], int] = {}  # what would be left of the shared GPUs

    def add(self, track: Track) -> float:
        """Stop this one too; how many more GPUs that frees."""
        placement = track.placement
        assert placement is not None
        if placement.share == WHOLE_GPU:
            return track.holds
        more, known, share = 0, self._left, placement.share
        for gpu in placement.shared:
            left = (known[gpu] if gpu in known else self._shares[gpu]) + share
            known[gpu] = left
            if left >= WHOLE_GPU:
                more += 1
        return float(more)

    def freed_of(self, gpus: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Those of these shared GPUs on which nobody would be left."""
        return [gpu for gpu in gpus if self._left[gpu] >= WHOLE_GPU]

    def loses(self, track: Track) -> float:
        """How many fewer GPUs would be free if this one were spared."""
        placement = track.placement
        assert placement is not None
        if placement.share == WHOLE_GPU:
            return track.holds
        lost = 0
        for gpu in placement.shared:
            if self._left[gpu] >= WHOLE_GPU:
                lost += 1
        return float(lost)

    def remove(self, track: Track) -> None:
        """Spare this one."""
        placement = track.placement
        assert placement is not None
        if placement.share != WHOLE_GPU:
            for gpu in placement.shared:
                self._left[gpu] -= placement.share


@final
class FreedHosts:
    """How many GPUs of a pool a job of the shape could have, with the CPUs and memory beside them."""

    def __init__(self, room: Room, pool: Pool, shape: Shape) -> None:
        self._room: Final = room
        self._shape: Final = shape
        self._could: Final[dict[int, int]] = {}  # by node: GPUs that it could have there
        # By node: the GPUs, CPUs and memory that would be free.
        self._free: Final[dict[int, tuple[int, float, float]]] = {}
        self._cpus: Final = shape.cpus * (1 / shape.gpus)  # for one GPU
        self._memory_gb: Final = shape.memory_gb * (1 / shape.gpus)
        self.gpus = 0
        for n in room.able(pool, shape):
            self._set(n, room.count[n], room.cpus[n], room.memory_gb[n])

    def _set(self, n: int, gpus: int, cpus: float, memory_gb: float) -> None:
        self._free[n] = (gpus, cpus, memory_gb)
        if cpus + ROUNDING < self._cpus or memory_gb + ROUNDING < self._memory_gb:
            return  # not even for one
        could = most_beside(cpus, memory_gb, self._shape, min(gpus, self._shape.gpus))
        if self._shape.nodes:  # a node has room for one part of it, or for none
            could = self._shape.each if could >= self._shape.each else 0
        self.gpus += could - self._could.get(n, 0)
        self._could[n] = could

    def add(self, track: Track) -> None:
        """Stop this one too. None of them is on a shared GPU."""
        room, placement, shape = self._room, track.placement, track.shape
        assert placement is not None
        for n, mask in placement.slices:
            if room.open[n]:
                number, free = mask.bit_count(), self._free.get(n)
                if free is None:
                    free = (room.count[n], room.cpus[n], room.memory_gb[n])
                gpus, cpus, memory_gb = free
                part = number / placement.gpus if placement.gpus else 1.0 / len(placement.slices)
                cpus, memory_gb = cpus + shape.cpus * part, memory_gb + shape.memory_gb * part
                self._set(n, gpus + room.usable_by_others(n, mask), cpus, memory_gb)
