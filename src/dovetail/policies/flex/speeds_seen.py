"""How fast jobs with a deadline were seen to go, beside what was believed when they were judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from dovetail.core.entries import Note
from dovetail.core.inventory import Pool
from dovetail.core.room import Room
from dovetail.core.track import RUNNING, Track

_BELIEVED: Final = "flex speeds"  # [pool, GPUs, rate] for each way it might have run in
_SEEN: Final = "flex seen"  # [pool, GPUs, speed] for each pool it has run on, as it was there last


class SeenSpeed(NamedTuple):
    """So fast on so many GPUs."""

    gpus: int
    speed: float


def seen_speeds(track: Track, room: Room | None = None) -> dict[int, SeenSpeed]:
    """By pool; with `room` also where it runs now."""
    found = {pool: SeenSpeed(gpus, speed) for pool, gpus, speed in track.notes.get(_SEEN, ())}
    place = track.placement
    if room is not None and place is not None and track.phase is RUNNING:
        pool = room.pool_of[place.slices[0].node].index
        found[pool] = SeenSpeed(place.gpus, track.speed)
    return found


def slower_than_believed(track: Track, room: Room | None = None) -> Iterator[float]:
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
    now = seen_speeds(track, room)
    if _BELIEVED not in track.notes or now == seen_speeds(track):
        return []
    return [Note(_SEEN, [[pool, *one] for pool, one in now.items()], track.job.id)]
