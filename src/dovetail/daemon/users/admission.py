"""Which jobs of a user with limits may join the queue: as many as could run at once within the limit.

The others are held, with the limit as the reason, and let go as those end. So the limits hold for every
policy: none of them sees, nor can start, more of a user's jobs than that user may have at work. A study
is admitted as one, for as many trials as it runs at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from threading import Timer
from typing import Final

from dovetail.core.entries import Event, Held, Released
from dovetail.core.model import JobId, Seconds
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.desk import Desk
from dovetail.daemon.holds import LIMITED
from dovetail.daemon.users.limits import HOURS_WITHIN_S, Bounds, Limits, most_gpus
from dovetail.store import Filter, JournalReader
from dovetail.text.counting import counted
from dovetail.workloads.study.kind import studies_of

NEW: Final = f"{LIMITED}it has just come"
_LOOK_AGAIN_S = 600.0  # when GPU-hours of a month ago are forgotten
_ROUNDING = 1e-9


@dataclass(slots=True)
class AdmittedUnit:
    """A job, or a study with its trials that have not ended."""

    tracks: list[Track] = field(default_factory=list)
    most: float = inf  # of its tracks that are in line at once

    @property
    def is_admitted(self) -> bool:
        return any(not track.held for track in self.tracks)

    @property
    def number(self) -> float:
        return min(self.most, len(self.tracks))

    @property
    def gpus(self) -> float:
        return self.number * max(most_gpus(track.job) for track in self.tracks)

    @property
    def rank(self) -> tuple[bool, bool, float, int]:
        """Running jobs first, then queued ones, then by priority and age."""
        first = self.tracks[0]
        at_work = any(track.placement is not None or track.process for track in self.tracks)
        return not at_work, not self.is_admitted, -first.job.priority, first.sequence


class Admission:
    """Looks at it after every change that may matter, on the thread of the loop."""

    def __init__(self, limits: Limits, desk: Desk, reader: JournalReader, epoch: float) -> None:
        self._limits: Final = limits
        self._desk: Final = desk
        self._hours: Final = Hours(reader, epoch)
        self._is_asked = False

    def let_go(self, track: Track, view: View, now: Seconds) -> Event:
        """Into the line, or to where the limits of its user let it wait for that."""
        bounded = self._limits.of(track.job.user, view).at_work
        if not bounded or track.placement is not None:
            return Released(now, track.job.id)
        self.look_soon()
        return Held(now, track.job.id, NEW)

    def held(self, jobs: Iterable[JobId], user: str, view: View, now: Seconds) -> Iterator[Event]:
        """For jobs that have just come."""
        if self._limits.of(user, view).at_work:
            self.look_soon()
            yield from (Held(now, job_id, NEW) for job_id in jobs)

    def ended(self, track: Track, view: View, unix: float) -> None:
        if self._limits.shared:
            self._hours.add(track.job.user, unix, track.held_gpu_s)
            if self._limits.of(track.job.user, view).at_work:
                self.look_soon()

    def look_soon(self) -> None:
        """As a request of its own: what has just happened is then recorded."""
        if self._limits.shared and not self._is_asked:
            self._is_asked = True
            self._desk.ask(lambda view, now: (self._look(view, now), None))

    def _look(self, view: View, now: Seconds) -> list[Event]:
        self._is_asked = False
        events: list[Event] = []
        for user, units in units_of(view).items():
            bounds = self._limits.of(user, view)
            used = self.hours(user, view, now) if bounds.gpu_hours < inf else 0.0
            events += admitted_or_held(user, units, bounds, used, now, self._limits.ask)
            if used >= bounds.gpu_hours:
                self._look_later()
        return events

    def _look_later(self) -> None:
        timer = Timer(_LOOK_AGAIN_S, self.look_soon)
        timer.daemon = True
        timer.start()

    def hours(self, user: str, view: View, now: Seconds) -> float:
        """GPU-hours of the last thirty days."""
        live = [track for track in view.tracks.values() if track.job.user == user]
        return self._hours.of(user, now) + sum(t.service_by(now) for t in live) / 3600


class Hours:
    """GPU-seconds of jobs that have ended, by user; read from the history when first asked for."""

    def __init__(self, reader: JournalReader, epoch: float) -> None:
        self._reader: Final = reader
        self._epoch: Final = epoch
        self._known: Final[dict[str, list[tuple[float, float]]]] = {}

    def add(self, user: str, ended_at: float, gpu_s: float) -> None:
        if user in self._known:
            self._known[user].append((ended_at, gpu_s))

    def of(self, user: str, now: Seconds) -> float:
        since = self._epoch + now - HOURS_WITHIN_S
        rows = self._known.get(user)
        if rows is None:
            rows = list(self._read(user, since))
        kept = self._known[user] = [row for row in rows if row[0] >= since]
        return sum(gpu_s for _, gpu_s in kept) / 3600

    def _read(self, user: str, since: float) -> Iterator[tuple[float, float]]:
        import json

        found = self._reader.history(Filter(user=user, since=since), 1_000_000)
        for ended in found:
            row = json.loads(ended.row)
            yield ended.ended_at, row["run_s"] * row["gpus"] * row["share"]


def units_of(view: View) -> Mapping[str, list[AdmittedUnit]]:
    """By user: jobs and studies that are queued, or held only by a limit."""
    found: dict[str, list[AdmittedUnit]] = {}
    studies: dict[str, AdmittedUnit] = {}
    for track in view.tracks.values():
        limited = track.held.startswith(LIMITED)
        if track.placement is None and (track.awaits or (track.held and not limited)):
            continue  # paused, or not yet due: it takes nobody's place
        study = studies_of(view).of(track)
        if study is None:
            found.setdefault(track.job.user, []).append(AdmittedUnit([track]))
            continue
        unit = studies.get(study.id)
        if unit is None:
            at_once = study.design.at_once
            unit = studies[study.id] = AdmittedUnit(most=inf if at_once is None else at_once)
            found.setdefault(track.job.user, []).append(unit)
        unit.tracks.append(track)
    return found


def admitted_or_held(
    user: str,
    units: Iterable[AdmittedUnit],
    bounds: Bounds,
    used_hours: float,
    now: Seconds,
    ask: str,
) -> Iterator[Event]:
    """Which jobs join the queue, which are held, and why. None overtakes one that waits for a limit."""
    number = gpus = 0.0
    why = ""
    for unit in sorted(units, key=lambda unit: unit.rank):
        number += unit.number
        gpus += unit.gpus
        why = why or _over(user, bounds, number, gpus, used_hours, unit)
        for track in unit.tracks:
            yield from _moved(track, f"{LIMITED}{why}; {ask} for more" if why else "", now)


def _over(
    user: str, bounds: Bounds, number: float, gpus: float, used_hours: float, unit: AdmittedUnit
) -> str:
    """Which limit it would break; "" if none, or if it is at work already."""
    if not unit.rank[0]:
        return ""
    if number > bounds.running:
        return f"{user} may have {counted(int(bounds.running), 'job')} at work at once"
    if gpus > bounds.gpus + _ROUNDING:
        return f"{user} may have {bounds.gpus:g} GPUs at once"
    if used_hours >= bounds.gpu_hours:
        return f"{user} may use {bounds.gpu_hours:g} GPU-hours in 30 days"
    return ""


def _moved(track: Track, why: str, now: Seconds) -> Iterator[Event]:
    if track.placement is not None or track.process or track.held == why:
        return
    if why:
        yield Held(now, track.job.id, why)
    elif track.held:
        yield Released(now, track.job.id)
