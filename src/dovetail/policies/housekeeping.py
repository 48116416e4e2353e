"""Decisions that every policy has in common: paused jobs and those on GPUs to be vacated give way, and
time limits are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.core.entries import Action, Preempt, Stop, Wake
from dovetail.core.model import Seconds
from dovetail.core.room import Room
from dovetail.core.track import Track
from dovetail.core.view import View

TIME_LIMIT = 124  # the exit code by which `timeout` and others tell it


@dataclass(frozen=True)
class Housekeeping:
    """Runs before the policy proper, on worlds whose users pause jobs and set limits."""

    def decide(self, view: View) -> Iterator[Action]:
        for track in list(view.running.values()):
            left = _left_s(track, view.now)
            if left is not None and left <= 0:
                assert track.job.time_limit_s is not None
                reason = f"its time limit of {track.job.time_limit_s:g} s is over"
                yield Stop(track.job.id, reason, TIME_LIMIT)
                continue
            if not track.stays and (track.held or _must_leave(track, view.room)):
                yield Preempt(track.job.id)
            elif left is not None:
                yield Wake(view.now + left)


def _must_leave(track: Track, room: Room) -> bool:
    if not room.vacated or track.placement is None:
        return False
    return any([mask & room.vacated.get(n, 0) for n, mask in track.placement.slices])


def _left_s(track: Track, now: Seconds) -> Seconds | None:
    limit = track.job.time_limit_s
    return None if limit is None else limit - track.held_by(now)
