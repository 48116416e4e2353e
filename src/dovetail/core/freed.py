"""How many whole GPUs some jobs would leave free if they were stopped, without stopping them."""

from __future__ import annotations

from typing import Final, final

from dovetail.core.model import WHOLE_GPU, gpus_of
from dovetail.core.room import Room
from dovetail.core.track import Track


@final
class Freed:
    """A shared GPU is free when the last of those on it is stopped: pairs count together."""

    def __init__(self, room: Room) -> None:
        self._shares: Final = room.shares
        self._left: dict[tuple[int, int], int] = {}  # what would be left of the shared GPUs

    @property
    def some_shared(self) -> bool:
        """Was any of them on a shared GPU?"""
        return bool(self._left)

    def add(self, track: Track) -> float:
        """Stop this one too; how many more GPUs that frees."""
        placement = track.placement
        assert placement is not None
        if placement.share == WHOLE_GPU:
            return track.holds
        more = 0
        for gpu in gpus_of(placement):
            left = self._left.get(gpu, self._shares[gpu]) + placement.share
            self._left[gpu] = left
            more += left >= WHOLE_GPU
        return float(more)

    def loses(self, track: Track) -> float:
        """How many fewer GPUs would be free if this one were spared."""
        placement = track.placement
        assert placement is not None
        if placement.share == WHOLE_GPU:
            return track.holds
        return float(sum([self._left[gpu] >= WHOLE_GPU for gpu in gpus_of(placement)]))

    def remove(self, track: Track) -> None:
        """Spare this one."""
        placement = track.placement
        assert placement is not None
        if placement.share != WHOLE_GPU:
            for gpu in gpus_of(placement):
                self._left[gpu] -= placement.share
