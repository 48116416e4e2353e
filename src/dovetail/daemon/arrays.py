"""Arrays of which only so many members may run at once: the others are held until it is their turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dovetail.core.entries import Event, Held
from dovetail.core.model import JobId, Seconds
from dovetail.core.view import View
from dovetail.daemon.asking import Parts
from dovetail.daemon.history.submission_records import array_of
from dovetail.daemon.holds import ARRAY_FULL
from dovetail.daemon.users.admission import Admission


@dataclass(frozen=True, slots=True)
class LimitedArray:
    limit: int  # members that may run at once
    waiting: list[JobId]

    def next(self, view: View, now: Seconds, admission: Admission) -> list[Event]:
        """As many as there is room for now."""
        if not self.waiting:
            return []
        array = f"{array_of(self.waiting[0])}."
        own = [track for job_id, track in view.tracks.items() if job_id.startswith(array)]
        room = self.limit - sum(track.held != ARRAY_FULL for track in own)
        events: list[Event] = []
        while self.waiting and len(events) < room:
            track = view.tracks.get(self.waiting.pop(0))
            if track is not None and track.held == ARRAY_FULL:
                events.append(admission.let_go(track, view, now))
        return events


class Arrays:
    def __init__(self, parts: Parts, admission: Admission) -> None:
        self._parts: Final = parts
        self._admission: Final = admission
        self._limited: Final[dict[str, LimitedArray]] = {}

    def held(self, late: Sequence[JobId], limit: int, now: Seconds) -> Iterator[Event]:
        """Hold the members of a new array that are beyond its limit."""
        if late:
            self._limited[array_of(late[0])] = LimitedArray(limit, list(late))
        yield from (Held(now, job_id, ARRAY_FULL) for job_id in late)

    def recall(self, view: View) -> None:
        """After a restart. The daemon may have died between the end of one member and the turn of the
        next."""
        for track in view.tracks.values():
            if track.held == ARRAY_FULL:
                array = array_of(track.job.id)
                if array not in self._limited:
                    self._limited[array] = LimitedArray(self._at_once(track.job.id), [])
                self._limited[array].waiting.append(track.job.id)
        for array in self._limited:
            self.fill(array)

    def _at_once(self, job_id: JobId) -> int:
        """One, should its record be lost."""
        record = self._parts.book.record(job_id)
        return 1 if record is None else record.at_once or 1

    def fill(self, array: str) -> None:
        """One of its jobs has ended."""
        limited = self._limited.get(array)
        if limited is not None:
            self._parts.desk.ask(lambda view, now: (limited.next(view, now, self._admission), None))
