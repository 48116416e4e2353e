"""Stretches of a trace: the part to simulate, and the blocks to resample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.core.model import Seconds
from dovetail.core.track import Track
from dovetail.models.workload import Arrival

LENGTHS = (("week", 604_800.0), ("day", 86_400.0), ("hour", 3600.0))
ENOUGH = 4  # blocks; fewer say too little, so shorter ones are taken
WINDOWS = 40  # places at which a stretch may begin


@dataclass(frozen=True, slots=True)
class TimeBlocks:
    """Equal lengths of time from the first submission on."""

    start_s: Seconds
    length_s: Seconds
    number: int
    text: str

    def place(self, at: Seconds) -> int:
        """The block that a time lies in."""
        return min(max(int((at - self.start_s) // self.length_s), 0), self.number - 1)


class EndsByBlock:
    """Completion times of finished jobs, added up by the block of their submission."""

    def __init__(self, blocks: TimeBlocks) -> None:
        self._blocks = blocks
        self.sums = [0.0] * blocks.number
        self.counts = [0] * blocks.number

    def note(self, track: Track) -> None:
        place = self._blocks.place(track.submitted_at)
        self.sums[place] += track.ended_at - track.submitted_at
        self.counts[place] += 1


def blocks_of(arrivals: Sequence[Arrival]) -> TimeBlocks:
    """Weeks; days or hours if there are too few weeks; else equal parts of the trace."""
    first, last = arrivals[0].at, arrivals[-1].at
    span = last - first
    for noun, length in LENGTHS:
        number = int(span // length) + 1
        if number >= ENOUGH:
            return TimeBlocks(first, length, number, f"{number} {noun}s")
    if span <= 0:
        return TimeBlocks(first, 1.0, 1, "one moment")
    return TimeBlocks(first, span / ENOUGH, ENOUGH, f"{ENOUGH} equal parts of the trace")


def stretch(arrivals: list[Arrival], most: int) -> list[Arrival]:
    """At most so many consecutive jobs, where the load is closest to that of the whole trace."""
    if len(arrivals) <= most:
        return arrivals
    at = np.array([arrival.at for arrival in arrivals])
    service = np.cumsum([0.0, *(arrival.work_s * arrival.job.gpus for arrival in arrivals)])
    starts = np.unique(np.linspace(0, len(arrivals) - most, WINDOWS).astype(np.int64))
    spans = np.maximum(at[starts + most - 1] - at[starts], 1e-9)
    loads = (service[starts + most] - service[starts]) / spans
    usual = service[-1] / max(at[-1] - at[0], 1e-9)
    start = int(starts[np.argmin(np.abs(np.log(np.maximum(loads, 1e-12) / max(usual, 1e-12))))])
    return arrivals[start : start + most]
