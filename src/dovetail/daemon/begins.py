"""Jobs that are not to start before a time: held until then, with the time as the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from threading import Timer
from typing import Final

from dovetail.core.entries import Event, Held
from dovetail.core.model import JobId, Seconds
from dovetail.core.view import View
from dovetail.daemon.asking import Parts
from dovetail.daemon.holds import BEGINS, begin_in
from dovetail.daemon.users.admission import Admission

_LONGEST_S = 3600.0  # the clock of the machine may be set meanwhile


class Begins:
    def __init__(self, parts: Parts, admission: Admission) -> None:
        self._parts: Final = parts
        self._admission: Final = admission
        self._timer: Timer | None = None

    def held(self, jobs: Sequence[JobId], at: float, now: Seconds) -> Iterator[Event]:
        """For jobs that have just come; `at` is in seconds since 1970."""
        when = datetime.fromtimestamp(at).astimezone().isoformat(timespec="milliseconds")
        yield from (Held(now, job_id, f"{BEGINS} {when}") for job_id in jobs)
        self.look_soon()

    def look_soon(self) -> None:
        """As a request of its own: what has just happened is then recorded."""
        self._parts.desk.ask(lambda view, now: (self._due(view, now), None))

    def _due(self, view: View, now: Seconds) -> list[Event]:
        unix = self._parts.clock.unix(now)
        events: list[Event] = []
        next_at = unix + _LONGEST_S
        waits = False
        for track in view.tracks.values():
            at = begin_in(track.held)
            if at is None:
                continue
            if at <= unix:
                events.append(self._admission.let_go(track, view, now))
            else:
                waits, next_at = True, min(next_at, at)
        if waits:
            self._look_at(next_at - unix)
        return events

    def _look_at(self, in_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = Timer(max(in_s, 0.001), self.look_soon)
        self._timer.daemon = True
        self._timer.start()
