"""Answers about durations, learned from jobs that finished, with an interval that is kept honest.

There are four ways. `history-mean` and `recent-mean` go by what jobs of the same identity took: the
plain mean, and a mean of logarithms in which the newer count more. `boosted` fits trees to everything
known at submission. `mixture` begins with the recent mean, fits trees to what it misses, and mixes in
those of `boosted`, each as far as it was right lately.

Trees are fitted anew at fixed times, to the jobs that finished before. The interval is as wide as the
latest jobs that its trees have not seen show that it must be. So an answer follows from the jobs
alone, whoever was asked what before, and a restart changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple, final

from dovetail.core.model import Seconds
from dovetail.predict.calibration import UNKNOWN, Band
from dovetail.predict.chronicle import KnownAtSubmission
from dovetail.predict.grown import Grown, Trust, mean, recent
from dovetail.predict.memory import JobMemory

LEVEL: Final = 0.8
HISTORY_MEAN, RECENT_MEAN, BOOSTED, MIXTURE = "history-mean", "recent-mean", "boosted", "mixture"
DAY_S: Final = 86_400.0
WEEK_S: Final = 7 * DAY_S

_TAIL = (1 - LEVEL) / 2
_WINDOW = 20_000  # the latest jobs, that trees are fitted to
_LEAST = 100  # fewer are not worth it
_SEEN = 0.8  # of the window, by the trees of the interval; it is held against the rest


class Interval(NamedTuple):
    """Logarithms of seconds plus one."""

    low: float
    middle: float
    high: float


@final
class Learner:
    """One way to answer. What time it is decides which trees are in force."""

    def __init__(self, way: str, memory: JobMemory) -> None:
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
        """Trees fitted to all jobs that have ended, for a single question."""
        return Fit(self._way, self._memory, len(self._memory.ended))


def fitted_at(now: Seconds) -> Seconds:
    """When the trees of that time were fitted: after one, two and four days, then every week."""
    if now >= WEEK_S:
        return now // WEEK_S * WEEK_S
    return max([days * DAY_S for days in (0, 1, 2, 4) if days * DAY_S <= now], default=0.0)


@final
class Fit:
    """The models in force for one period; the trees of the interval are fitted when asked for."""

    def __init__(self, way: str, memory: JobMemory, upto: int) -> None:
        self._way: Final = way
        self._memory: Final = memory
        self._first: Final = max(upto - _WINDOW, 0)
        self._upto: Final = upto
        learns = way in (BOOSTED, MIXTURE) and upto - self._first >= _LEAST
        self.lessons: Final = upto - self._first if learns else 0  # that its trees were fitted to
        kinds = (True, False) if way == MIXTURE else (False,)
        self._models: Final = [self._grown(upto, None, r) for r in kinds] if learns else []
        self._trust: Final = Trust(len(kinds) + 1)
        self._trusted_upto = -1  # of the lessons; -1: not begun
        self._edges: tuple[Grown, Grown] | None = None
        self._band: Final = Band(_TAIL)
        self._judged_upto = -1  # of the lessons; -1: not begun

    def _grown(self, upto: int, quantile: float | None, relative: bool | None = None) -> Grown:
        lessons = self._memory.lessons[self._first : upto]
        return Grown(
            lessons, quantile, relative=self._way == MIXTURE if relative is None else relative
        )

    @property
    def _seen(self) -> int:
        """Lessons before this one are seen by trees that are held against the rest."""
        return self._first + int((self._upto - self._first) * _SEEN)

    def middle(self, known: KnownAtSubmission) -> float:
        """The logarithm of its seconds plus one."""
        if not self._models:
            return self._plain(known)
        answers = self._answers(self._models, known)
        return sum([w * answer for w, answer in zip(self._weights(), answers, strict=True)])

    def _answers(self, models: Sequence[Grown], known: KnownAtSubmission) -> list[float]:
        """Of the parts: the trees, and what history says by itself."""
        return [*(grown.of(known) for grown in models), recent(known)]

    def _weights(self) -> list[float]:
        """Trees that were right last week may be wrong now: the jobs that ended since decide, and
        until there are some, those that were kept from likenesses of the trees."""
        if self._way != MIXTURE:
            return [1.0, 0.0]
        lessons, trust = self._memory.lessons, self._trust
        if self._trusted_upto < 0:
            early = [self._grown(self._seen, None, relative) for relative in (True, False)]
            for known, truth, _ in lessons[self._seen : self._upto]:
                trust.judge(self._answers(early, known), truth)
            self._trusted_upto = self._upto
        for known, truth, _ in lessons[self._trusted_upto :]:
            trust.judge(self._answers(self._models, known), truth)
        self._trusted_upto = len(lessons)
        return trust.weights()

    def _plain(self, known: KnownAtSubmission) -> float:
        return mean(known) if self._way == HISTORY_MEAN else recent(known)

    def interval(self, known: KnownAtSubmission) -> Interval:
        middle = self.middle(known)
        low, high = self._by_trees(known) if self.lessons else self._by_evidence(known)
        if known.guessed:  # what has confirmed other answers confirms no guess
            low, high = min(low, middle - UNKNOWN), max(high, middle + UNKNOWN)
        return Interval(min(low, middle), middle, max(high, middle))

    def _by_evidence(self, known: KnownAtSubmission) -> tuple[float, float]:
        if known.opinion is None:
            return inf, -inf
        answer = self._memory.chronicle.lore.answer(known.opinion)
        return answer.low, answer.high

    def _by_trees(self, known: KnownAtSubmission) -> tuple[float, float]:
        """Held against the jobs that the trees of the interval have not seen."""
        if self._judged_upto < 0:
            low, high = (self._grown(self._seen, tail) for tail in (_TAIL, 1 - _TAIL))
            self._edges, self._judged_upto = (low, high), self._seen
        lessons, ended = self._memory.lessons, self._memory.ended
        for place in range(self._judged_upto, len(lessons)):
            earlier, truth, submitted_at = lessons[place]
            under, over = self._believed(earlier)
            self._band.judge(under - truth, truth - over, submitted_at, ended[place])
        self._judged_upto = len(lessons)
        below, above = self._band.widths()
        under, over = self._believed(known)
        return under - below, over + above

    def _believed(self, known: KnownAtSubmission) -> tuple[float, float]:
        assert self._edges is not None
        low, high = (edge.of(known) for edge in self._edges)
        return min(low, high), max(low, high)

    def judged(self, known: KnownAtSubmission) -> int:
        """Jobs that the interval was held against."""
        if self.lessons:
            return self._band.judged
        return 0 if known.opinion is None else self._memory.chronicle.lore.judged(known.opinion)

    def reasons(self, known: KnownAtSubmission) -> list[tuple[str, float]]:
        """The features that made the answer longer or shorter than usual, with the logarithm of each
        factor, the largest first."""
        found: dict[str, float] = {}
        if not self._models:
            return []
        for weight, grown in zip(self._weights(), self._models, strict=False):
            for name, far in grown.reasons(known):
                found[name] = found.get(name, 0.0) + weight * far
        return sorted(found.items(), key=lambda one: -abs(one[1]))
