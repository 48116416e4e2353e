"""Whether a trial may take the GPUs of another of its study.

Where a suspended trial keeps its CPUs and memory (see `core.keeping`) only GPUs change hands: one that
has not begun there needs CPUs and memory beside, which have to be free.
"""

from __future__ import annotations

from typing import Final, final

from dovetail.core.model import Placement
from dovetail.core.room import Room, is_enough
from dovetail.core.shape import Shape
from dovetail.core.track import Track


@final
class Newcomers:
    """Of one decision: two do not count on the same CPUs."""

    def __init__(self, room: Room) -> None:
        self._room: Final = room
        self._taken: Final[dict[int, tuple[float, float]]] = {}  # by node: CPUs and memory

    def could_come(self, track: Track, where: Placement, instead: Shape) -> bool:
        """Those GPUs are those of somebody who needs this: could the trial have them?"""
        if track.shape is instead and _keeps_there(track, where):
            return True
        if track.shape.full is not instead.full:
            return False  # its user has changed what it needs
        needs = _needs(track, where)
        if needs.cpus <= instead.cpus and needs.memory_gb <= instead.memory_gb:
            return True
        return all([is_enough(*self._left(n), needs, mask.bit_count()) for n, mask in where.slices])

    def comes(self, track: Track, where: Placement, instead: Shape) -> None:
        needs = _needs(track, where)
        for n, mask in where.slices:
            part = mask.bit_count() / needs.gpus if needs.gpus else 1 / len(where.slices)
            cpus, memory_gb = self._taken.get(n, (0.0, 0.0))
            more = (
                max(needs.cpus - instead.cpus, 0.0),
                max(needs.memory_gb - instead.memory_gb, 0.0),
            )
            self._taken[n] = cpus + more[0] * part, memory_gb + more[1] * part

    def _left(self, n: int) -> tuple[float, float]:
        cpus, memory_gb = self._taken.get(n, (0.0, 0.0))
        return self._room.cpus[n] - cpus, self._room.memory_gb[n] - memory_gb


def _needs(track: Track, where: Placement) -> Shape:
    return track.shape if _keeps_there(track, where) else track.shape.full


def _keeps_there(track: Track, where: Placement) -> bool:
    """Is what it keeps, if anything, on these nodes?"""
    home = track.home
    return home is None or [n for n, _ in home.slices] == [n for n, _ in where.slices]
