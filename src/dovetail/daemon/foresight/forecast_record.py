"""Keeping forecasts honest: intervals reach as far as those that were told before have needed.

What a forecast cannot know (jobs that come later and go first, failures, times that go wrong together)
shows in how far the first that was told of each job was off, in the reaches of its own interval.
Intervals are stretched by what the latest of these would have needed, each side by itself (conformal
prediction). What was told is kept in the journal, so that a daemon that starts again goes on with it.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from math import exp, log
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, final

from dovetail.api.forecast_row import Span
from dovetail.core.model import JobId, Seconds
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.daemon.foresight.scenarios import Drawn
from dovetail.daemon.refusals import Unavailable
from dovetail.predict.calibration import A_TENTH, Shown

START, END = 0, 1
_KINDS = tuple([(which, known) for which in (START, END) for known in (False, True)])
_TAIL = 0.1
# As a logarithm of the time until then: an interval without any width could not be stretched, and what
# one waits for hangs on more than is drawn.
_LEAST_REACH = 0.3
_ERRORS = 1.0  # jobs that wait for the same are off together: fewer than they seem to be
MOST_KEPT = 1_000  # jobs of which it is remembered what was told
# So many times as long as is expected, and more than a month: then nobody knows, and no date is told.
_OPEN, _MONTH_S = 100.0, 30 * 86_400.0
_FAR = 30.0  # as a logarithm of seconds: for ever
_AT_ONCE_S = 0.1  # who starts so soon does not wait
_PREFIX = "foretold "


class TimePromise(NamedTuple):
    """The first that was told of a job that waits."""

    job_id: JobId
    known: bool  # had a job like it ended?
    at: Seconds
    start: Drawn
    end: Drawn | None

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> TimePromise:
        job_id, known, at, start, end = row
        ends = None if end is None else Drawn(*end)
        return cls(JobId(job_id), bool(known), at, Drawn(*start), ends)

    @property
    def told(self) -> tuple[Drawn, Drawn | None]:
        return self.start, self.end


class PromiseKeeper(Protocol):
    """Keeps promises across restarts."""

    def keep(self, policy: str, promises: Sequence[TimePromise]) -> None: ...

    def kept(self) -> tuple[str, Sequence[TimePromise]]: ...


_Kind: TypeAlias = tuple[int, bool]  # of what, and of a job that is known?
_Truth: TypeAlias = tuple[Seconds, _Kind, float]  # when, of which kind, how far off


@final
class Record:
    """The first forecast told of each waiting job, under one policy, and how far off it was."""

    def __init__(self, keeper: PromiseKeeper | None = None) -> None:
        self._lock: Final = Lock()
        self._keeper: Final = keeper
        self._policy, kept = ("", ()) if keeper is None else keeper.kept()
        self._promises: Final = {promise.job_id: promise for promise in kept}
        self._open: Final[dict[JobId, set[int]]] = {k: {START, END} for k in self._promises}
        self._off = _new()

    def judge(self, state: State, policy: str) -> None:
        """Compare earlier forecasts with the jobs' actual starts and ends."""
        with self._lock:
            if policy != self._policy:
                self._policy, self._off = policy, _new()
                self._promises.clear()
                self._open.clear()
            ended = {track.job.id: track for track in state.past if track.job.id in self._open}
            truths: list[_Truth] = []
            for job_id in [*self._open]:
                truths += self._judged(job_id, ended.get(job_id) or state.tracks.get(job_id))
            for _, kind, off in sorted(truths):
                self._off[kind].judge(off)
            for kind, shown in self._off.items():
                shown.waits_for(self._bounds(kind, state.now))

    def _judged(self, job_id: JobId, track: Track | None) -> Iterable[_Truth]:
        """What has come to light of it."""
        promise, yet = self._promises[job_id], self._open[job_id]
        if track is not None:
            for which, drawn in enumerate(promise.told):
                at = _truth(track, which)
                if which in yet and drawn is not None and at >= 0:
                    yield at, (which, promise.known), _off(drawn, promise.at, at)
                    yet.discard(which)
        if track is None or track.ended_at >= 0 or not yet:
            del self._open[job_id]

    def _bounds(self, kind: _Kind, now: Seconds) -> Iterable[float]:
        """Of those that have not come to light: how far off they are at least."""
        which, known = kind
        for job_id, yet in self._open.items():
            promise = self._promises[job_id]
            drawn = promise.told[which]
            if which in yet and drawn is not None and promise.known is known:
                yield _off(drawn, promise.at, now)

    def note(
        self,
        state: State,
        starts: Mapping[JobId, Drawn],
        ends: Mapping[JobId, Drawn],
        known: Container[JobId],
    ) -> None:
        """Remember forecasts of waiting jobs as they were before stretching; each job's first counts."""
        at = round(state.now, 3)
        with self._lock:
            new = [
                TimePromise(job_id, job_id in known, at, start, _closed(ends.get(job_id)))
                for job_id in starts.keys() - self._promises.keys()
                if (start := _closed(starts[job_id])) is not None
                and start.centre > state.now + _AT_ONCE_S
                and state.tracks[job_id].first_start_at < 0
                and state.tracks[job_id].placement is None
            ]
            new = sorted(new, key=lambda own: state.tracks[own.job_id].sequence)[:MOST_KEPT]
            for promise in new:
                self._promises[promise.job_id] = promise
                self._open[promise.job_id] = {START, END}
            for job_id in [*self._promises][: max(len(self._promises) - MOST_KEPT, 0)]:
                del self._promises[job_id]
                self._open.pop(job_id, None)
        if new and self._keeper is not None:
            self._keeper.keep(self._policy, new)

    def stretched(self, drawn: Drawn, now: Seconds, which: int, known: bool) -> Span:
        """As wide as it must be, around what is expected; as drawn before anything was judged."""
        shown = self._off[which, known]
        if not shown.judged:
            return drawn.span
        below, above = shown.reach()
        centre, (down, up) = _log(drawn.centre - now), _reaches(drawn, now)
        low, high = [_exp(centre + own) + now for own in (below * down, above * up)]
        is_open = drawn.high is None or high - now > max(_MONTH_S, _OPEN * (drawn.expected - now))
        latest = None if is_open else max(high, drawn.expected)
        return Span(drawn.expected, max(min(low, drawn.expected), min(now, drawn.low)), latest)


def _new() -> dict[_Kind, Shown]:
    return {kind: Shown(_TAIL, A_TENTH, _ERRORS) for kind in _KINDS}


def _closed(drawn: Drawn | None) -> Drawn | None:
    """To the millisecond, as it is kept."""
    if drawn is None or drawn.high is None:
        return None
    return Drawn(*(round(seconds, 3) for seconds in drawn if seconds is not None))


def _truth(track: Track, which: int) -> Seconds:
    """When it has come; below 0: not yet, or it never will."""
    if which == START:
        return track.first_start_at
    return track.ended_at if track.phase is Phase.FINISHED else -1.0


def _log(seconds: Seconds) -> float:
    return log(max(seconds, 0.0) + 1.0)


def _exp(logarithm: float) -> Seconds:
    return max(exp(min(logarithm, _FAR)) - 1.0, 0.0)


def _reaches(drawn: Drawn, now: Seconds) -> tuple[float, float]:
    least, centre = _LEAST_REACH, _log(drawn.centre - now)
    high = drawn.centre if drawn.high is None else drawn.high
    return max(centre - _log(drawn.low - now), least), max(_log(high - now) - centre, least)


def _off(drawn: Drawn, now: Seconds, truth: Seconds) -> float:
    """In the reaches of its own interval."""
    away = _log(truth - now) - _log(drawn.centre - now)
    below, above = _reaches(drawn, now)
    return away / (below if away < 0 else above)


class PromiseRows(Protocol):
    """The part of a service that is used here."""

    def keep_meta(self, key: str, value: str, forget: Iterable[str] = ()) -> None: ...

    def meta_after(self, key: str, prefix: str) -> str | None: ...


@final
class Promises:
    """As a `Keeper`: one row for whatever was told at one time."""

    def __init__(self, journal: PromiseRows) -> None:
        self._journal: Final = journal
        self._rows: Final[dict[int, int]] = {}  # how many promises each has, the oldest first
        self._policy = ""
        self._last = 0

    def kept(self) -> tuple[str, Sequence[TimePromise]]:
        found: list[TimePromise] = []
        while (text := self._journal.meta_after(_key(self._last), _PREFIX)) is not None:
            self._last, policy, rows = json.loads(text)
            if policy != self._policy:
                self._policy, found = policy, []
            self._rows[self._last] = len(rows)
            found += [TimePromise.of_row(row) for row in rows]
        return self._policy, found

    def keep(self, policy: str, promises: Sequence[TimePromise]) -> None:
        """Not at any price: where there is no room, forecasts go on without."""
        number, old = self._last + 1, self._outdated(policy, len(promises))
        text = json.dumps([number, policy, promises])
        with suppress(Unavailable):
            self._journal.keep_meta(_key(number), text, map(_key, old))
            self._last, self._policy = number, policy
            self._rows[number] = len(promises)
            for row in old:
                del self._rows[row]

    def _outdated(self, policy: str, new: int) -> list[int]:
        """Rows of another policy, and such as are further back than anybody remembers."""
        if policy != self._policy:
            return [*self._rows]
        found, number = [], new + sum(self._rows.values())
        for row, has in self._rows.items():
            number -= has
            if number < MOST_KEPT:
                break
            found.append(row)
        return found


def _key(number: int) -> str:
    return f"{_PREFIX}{number:012d}"
