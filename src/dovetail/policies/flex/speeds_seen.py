"""How fast jobs with a deadline were seen to go, beside what was believed when they were judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from dovetail.core.entries import Note
from dovetail.core.inventory import Pool
from dovetail.core.room import Room
from dovetail.core.track import FINISHED, RUNNING, Track

_BELIEVED: Final = "flex speeds"  # [pool, GPUs, rate] for each way it might have run in
_SEEN: Final = "flex seen"  # [pool, GPUs, speed] for each pool it has run on, as it was there last


class SeenSpeed(NamedTuple):
    """So fast on so many GPUs."""

    gpus: int
    speed: float


def seen_speeds(track: Track, room: Room) -> dict[int, SeenSpeed]:
    """By pool: as noted, where it runs now, and where it was if it ended before that was noted."""
    found = {pool: SeenSpeed(gpus, speed) for pool, gpus, speed in track.notes.get(_SEEN, ())}
    place, speed = track.placement, track.speed
    if not found and track.phase is FINISHED and not (track.preemptions or track.resizes):
        place, speed = track.left, _usual_speed(track)
    if place is not None and (track.phase is RUNNING or track.phase is FINISHED) and speed > 0:
        found[room.pool_of[place.slices[0].node].index] = SeenSpeed(place.gpus, speed)
    return found


def _usual_speed(track: Track) -> float:
    """Of one that ran in a single place."""
    place = track.left
    worked_s = 0.0 if place is None else track.held_s - track.lost_gpu_s / max(place.holds, 1e-9)
    return track.executed_s / worked_s if worked_s > 0 else 0.0


def slower_than_believed(track: Track, room: Room) -> Iterator[float]:
    """For each pool it has run on, how many times as fast it was believed to be there."""
    believed = track.notes.get(_BELIEVED)
    if not believed:
        return
    rates = {(pool, gpus): rate for pool, gpus, rate in believed}
    for pool, (gpus, speed) in seen_speeds(track, room).items():
        if speed > 0 and (pool, gpus) in rates:
            yield rates[pool, gpus] / speed


def believed_note(
    track: Track, ways: Sequence[tuple[Pool, int]], rates: Sequence[float]
) -> list[Note]:
    """To be remembered, once."""
    if _BELIEVED in track.notes:
        return []
    rows: list[Any] = [
        [pool.index, gpus, rate] for (pool, gpus), rate in zip(ways, rates, strict=True)
    ]
    return [Note(_BELIEVED, rows, track.job.id)]


def seen_note(track: Track, room: Room) -> list[Note]:
    """To be remembered, when it is news."""
    rows = [[pool, *one] for pool, one in seen_speeds(track, room).items()]
    if _BELIEVED not in track.notes or rows == list(track.notes.get(_SEEN, ())):
        return []
    return [Note(_SEEN, rows, track.job.id)]
