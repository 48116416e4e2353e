"""Time as the journal counts it: seconds since its beginning, never backwards; and what the calendar
says to it.

The journal's seconds go with the machine, not with its wall clock, which people and programs set. When
the two are seen to part, the wall clock is believed: from then on, and for as far back as it is plain
that it was wrong. See docs/decisions/0033-a-clock-that-was-set.md.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from dovetail.api.job_row import JobRow
from dovetail.api.wire import read, text_of
from dovetail.core.model import Seconds
from dovetail.store import EndedJob, Filter, Store
from dovetail.text.durations import duration_text

TOLERANCE_S = 2.0
YOUNG_S = 3600.0  # a machine's clock is often set only after its start
_EPOCHS, _CLOCK = "epochs", "clock"  # of meta
_MOST_AT_ONCE = 1000
_MOST_STRETCHES = 500


class ClockStretch(NamedTuple):
    """From `since` on, second 0 of the journal was at `epoch` in the world."""

    since: Seconds
    epoch: float

    @property
    def began(self) -> float:
        return self.since + self.epoch


class Clock:
    """A daemon goes on where the one before it was, if the machine was not started anew in between;
    else by the wall clock."""

    def __init__(self, store: Store, not_before: Seconds) -> None:
        self._store: Final = store
        self._stretches = _stretches(store)
        last = json.loads(store.meta(_CLOCK) or "{}")
        goes_on = last.get("boot") == boot_id()
        now = max(ticks() + last["offset"] if goes_on else wall() - self.epoch, not_before)
        self._offset: Final = now - ticks()
        if not goes_on:  # by the wall clock, which may be wrong from here on
            self._keep([*self._stretches, ClockStretch(now, self.epoch)])
        store.set_meta(_CLOCK, json.dumps({"boot": boot_id(), "offset": self._offset}))

    def __call__(self) -> Seconds:
        return ticks() + self._offset

    @property
    def epoch(self) -> float:
        """Second 0 of the journal, for now and for the future."""
        return self._stretches[-1].epoch

    def unix(self, at: Seconds) -> float:
        """That time as the world counts it."""
        n = bisect_right(self._stretches, (at, inf)) - 1
        return at + self._stretches[max(n, 0)].epoch

    def _keep(self, stretches: list[ClockStretch]) -> None:
        self._stretches = stretches[-_MOST_STRETCHES:]
        self._store.set_meta(_EPOCHS, json.dumps(self._stretches))

    # ------------------------------------------------------------------- a wall clock that was set

    @property
    def off_by(self) -> Seconds:
        """By how many seconds the wall clock is ahead of ours."""
        return wall() - self.unix(self())

    def set_right(self) -> str:
        """Believe the wall clock, if it was set. Returns a notice; as a rule empty."""
        by, now = self.off_by, self()
        if abs(by) <= TOLERANCE_S:
            return ""
        before, wrong = self._stretches, self._first_wrong(now, wall())
        if wrong is None:
            self._keep([*before, ClockStretch(now, self.epoch + by)])
            since = f"from {_told(wall())} on"
        else:
            shifted = [ClockStretch(own.since, own.epoch + by) for own in before[wrong:]]
            self._keep(before[:wrong] + shifted)
            self._mend_rows(before[wrong:], by)
            since = f"since {_told(shifted[0].began)}, and times noted meanwhile were put right"
        return (
            f"the wall clock was set {'forward' if by > 0 else 'back'} by {duration_text(abs(by))}: "
            f"it is believed {since}"
        )

    def _first_wrong(self, now: Seconds, then: float) -> int | None:
        """The first stretch that would have begun in the future, or the last one if it is young."""
        last = len(self._stretches) - 1
        for n, stretch in enumerate(self._stretches):
            if stretch.began > then + TOLERANCE_S or (n == last and now - stretch.since < YOUNG_S):
                return n
        return None

    def _mend_rows(self, wrong: list[ClockStretch], by: Seconds) -> None:
        """Jobs that ended under the wrong clock ended at other times."""
        since, before = wrong[0].began, None
        rows: list[EndedJob] = []
        while page := self._store.history(Filter(since=since), _MOST_AT_ONCE, before):
            rows += page
            before = page[-1]
        for own in rows:
            row = _shifted(read(JobRow, json.loads(own.row)), since, by)
            at = own.ended_at if row.ended_at is None else row.ended_at
            self._store.add_ended(
                EndedJob(own.job_id, own.seq, at, own.user, own.name, text_of(row))
            )


def _shifted(row: JobRow, since: float, by: Seconds) -> JobRow:
    def right(at: float) -> float:
        return at if at < since else at + by

    row.submitted_at = right(row.submitted_at)
    row.started_at = None if row.started_at is None else right(row.started_at)
    row.ended_at = None if row.ended_at is None else right(row.ended_at)
    row.deadline = None if row.deadline is None else right(row.deadline)
    if row.last_report is not None:
        row.last_report.at = right(row.last_report.at)
    return row


def _stretches(store: Store) -> list[ClockStretch]:
    kept = json.loads(store.meta(_EPOCHS) or "[]")
    return [ClockStretch(*own) for own in kept] or [ClockStretch(0.0, store.epoch)]


def _told(at: float) -> str:
    return datetime.fromtimestamp(at).isoformat(" ", "seconds")


def wall() -> float:
    """The wall clock, which people and programs set."""
    return time.time()


def ticks() -> float:
    """A clock that nobody sets; it goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Another one after each start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
