"""Answers about durations, learned from jobs that finished, with an interval that is kept honest.

There are four ways. `history-mean` and `recent-mean` go by what jobs of the same identity took: the
plain mean, and a mean of logarithms in which the newer count more. `boosted` fits trees to everything
known at submission. `mixture` begins with the recent mean, and fits trees to what it misses.

Trees are fitted anew at fixed times, to the jobs that finished before. The interval is as wide as the
latest jobs that its trees have not seen show that it must be. So an answer follows from the jobs
alone, whoever was asked what before, and a restart changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from math import log1p
from statistics import NormalDist, median
from typing import Final, NamedTuple, final

from dovetail.core.model import Seconds
from dovetail.predict.boosting import Trees, fitted
from dovetail.predict.calibration import Side
from dovetail.predict.chronicle import NAMES, Known
from dovetail.predict.memory import Memory

LEVEL: Final = 0.8
HISTORY_MEAN, RECENT_MEAN, BOOSTED, MIXTURE = "history-mean", "recent-mean", "boosted", "mixture"
DAY_S: Final = 86_400.0
WEEK_S: Final = 7 * DAY_S

_TAIL = (1 - LEVEL) / 2
_DEVIATIONS = NormalDist().inv_cdf(1 - _TAIL)
_WINDOW = 20_000  # the latest jobs, that trees are fitted to
_LEAST = 100  # fewer are not worth it
_SEEN = 0.8  # of the window, by the trees of the interval; it is held against the rest
_GUESS = log1p(3600.0)


class Interval(NamedTuple):
    """Logarithms of seconds plus one."""

    low: float
    middle: float
    high: float


@final
class Learner:
    """One way to answer. What time it is decides which trees are in force."""

    def __init__(self, way: str, memory: Memory) -> None:
        self._way: Final = way
        self._memory: Final = memory
        self._fit: Fit | None = None
        self._fitted_at = -1.0

    def at(self, now: Seconds) -> Fit:
        due = fitted_at(now)
        if self._fit is None or due != self._fitted_at:
            upto = bisect_left(self._memory.ended, due)
            self._fit, self._fitted_at = Fit(self._way, self._memory, upto), due
        return self._fit

    def afresh(self) -> Fit:
        """Trees fitted to all that has ended, for who asks once."""
        return Fit(self._way, self._memory, len(self._memory.ended))


def fitted_at(now: Seconds) -> Seconds:
    """When the trees of that time were fitted: after one, two and four days, then every week."""
    if now >= WEEK_S:
        return now // WEEK_S * WEEK_S
    return max([days * DAY_S for days in (0, 1, 2, 4) if days * DAY_S <= now], default=0.0)


@final
class Fit:
    """What is in force for one period; the trees of the interval are fitted when asked for."""

    def __init__(self, way: str, memory: Memory, upto: int) -> None:
        self._way: Final = way
        self._memory: Final = memory
        self._first: Final = max(upto - _WINDOW, 0)
        self._upto: Final = upto
        self.learns: Final = way in (BOOSTED, MIXTURE) and upto - self._first >= _LEAST
        self.lessons: Final = (
            upto - self._first if self.learns else 0
        )  # that its trees were fitted to
        self._middle: Final = self._trees(upto, 0.5) if self.learns else None
        self._edges: tuple[Trees, Trees] | None = None
        self._below: Final = Side(_TAIL)
        self._above: Final = Side(_TAIL)
        self._judged_from = self._judged_upto = -1  # of the lessons; -1: not begun

    def middle(self, known: Known) -> float:
        """The logarithm of its seconds plus one."""
        if self._middle is None:
            return _plain(self._way, known)
        return _base(self._way, known) + self._middle.of(row_of(self._way, known))

    def interval(self, known: Known) -> Interval:
        self._catch_up()
        low, high = self._believed(known)
        middle = self.middle(known)
        return Interval(
            min(low - self._below.width, middle), middle, max(high + self._above.width, middle)
        )

    def _catch_up(self) -> None:
        """Hold the interval against the jobs that its trees have not seen."""
        if self._judged_upto < 0:
            self._judged_from = self._judged_upto = self._unseen_from()
        memory = self._memory
        for known, log_seconds, submitted_at in memory.lessons[self._judged_upto :]:
            low, high = self._believed(known)
            after = max(bisect_left(memory.ended, submitted_at) - self._judged_from, 0)
            self._below.judge(low - log_seconds, after)
            self._above.judge(log_seconds - high, after)
        self._judged_upto = len(memory.lessons)

    def _unseen_from(self) -> int:
        if not self.learns:
            return max(self._upto - _WINDOW, 0)
        seen = self._first + int((self._upto - self._first) * _SEEN)
        self._edges = (self._trees(seen, _TAIL), self._trees(seen, 1 - _TAIL))
        return seen

    def _believed(self, known: Known) -> tuple[float, float]:
        if self._edges is None:
            middle = _plain(self._way, known)
            far = _DEVIATIONS * known.spread if known.spread > 0 else 0.0
            return middle - far, middle + far
        base, row = _base(self._way, known), row_of(self._way, known)
        low, high = (base + edge.of(row) for edge in self._edges)
        return min(low, high), max(low, high)

    @property
    def judged(self) -> int:
        """Jobs that the interval was held against."""
        return self._above.judged

    def reasons(self, known: Known) -> list[tuple[str, float]]:
        """What made the answer longer or shorter than it would be if that were as usual: the names of
        features and logarithms of factors, the largest first."""
        if self._middle is None:
            return []
        row = row_of(self._way, known)
        window = self._memory.lessons[self._first : self._upto]
        columns = zip(*[row_of(self._way, lesson.known) for lesson in window], strict=True)
        found, said = [], self._middle.of(row)
        for place, (name, column) in enumerate(zip(NAMES, columns, strict=True)):
            told = [number for number in column if number == number]
            if told and row[place] == row[place]:
                otherwise = (*row[:place], median(told), *row[place + 1 :])
                found.append((name, said - self._middle.of(otherwise)))
        return sorted(found, key=lambda one: -abs(one[1]))

    def _trees(self, upto: int, quantile: float) -> Trees:
        lessons = self._memory.lessons[self._first : upto]
        rows = [row_of(self._way, known) for known, _, _ in lessons]
        targets = [log_seconds - _base(self._way, known) for known, log_seconds, _ in lessons]
        return fitted(rows, targets, quantile)


def row_of(way: str, known: Known) -> tuple[float, ...]:
    """The mixture looks at levels as they differ from the recent mean: what was learned while jobs
    were short holds when they are long."""
    if way != MIXTURE:
        return known.levels + known.others
    base = _base(way, known)
    return (*[level - base for level in known.levels], *known.others)


def _base(way: str, known: Known) -> float:
    return _plain(way, known) if way == MIXTURE else 0.0


def _plain(way: str, known: Known) -> float:
    """What history says by itself."""
    said = known.mean if way == HISTORY_MEAN else known.recent
    return said if said == said else _GUESS
