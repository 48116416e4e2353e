"""Trees over what is known of a job, and how far to trust several answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import exp, log1p
from statistics import median
from typing import Final, final

from dovetail.predict.boosting import fitted
from dovetail.predict.chronicle import NAMES, KnownAtSubmission
from dovetail.predict.memory import Lesson

_GUESS = log1p(3600.0)
_LATEST = 1_000  # jobs that trust rests on
_CLEARLY = 0.1  # so much further off, in logarithms, is trusted by a factor of e less
_LATEST_ORDER = 300  # jobs whose order trust rests on,
_PARTNERS = 20  # each compared with so many before it
_CLEARLY_ORDERED = 0.05  # so many fewer pairs in order are trusted by a factor of e less


def recent(known: KnownAtSubmission) -> float:
    """The answer of history alone, as a logarithm of seconds plus one."""
    return known.recent if known.recent == known.recent else _GUESS


def mean(known: KnownAtSubmission) -> float:
    return known.mean if known.mean == known.mean else _GUESS


@final
class Grown:
    """Trees for one quantile of the logarithm of the duration; None: for its mean, which orders jobs
    better where some fail at once and others run for days.

    `relative`: they say how it differs from the recent mean, and look at levels as they differ from
    it too: what was learned while jobs were short holds when they are long.
    """

    def __init__(
        self, lessons: Sequence[Lesson], quantile: float | None, *, relative: bool
    ) -> None:
        self._relative: Final = relative
        self._lessons: Final = lessons
        rows = [self._row(lesson.known) for lesson in lessons]
        targets = [lesson.log_seconds - self._base(lesson.known) for lesson in lessons]
        self._trees: Final = fitted(rows, targets, quantile)

    def of(self, known: KnownAtSubmission) -> float:
        return self._base(known) + self._trees.of(self._row(known))

    def _base(self, known: KnownAtSubmission) -> float:
        return recent(known) if self._relative else 0.0

    def _row(self, known: KnownAtSubmission) -> tuple[float, ...]:
        if not self._relative:
            return known.levels + known.others
        base = recent(known)
        return (*[level - base for level in known.levels], *known.others)

    def reasons(self, known: KnownAtSubmission) -> Iterator[tuple[str, float]]:
        """By how much each feature makes the answer longer than if it were as usual; a logarithm."""
        row, said = self._row(known), self._trees.of(self._row(known))
        columns = zip(*[self._row(lesson.known) for lesson in self._lessons], strict=True)
        for place, (name, column) in enumerate(zip(NAMES, columns, strict=True)):
            told = [number for number in column if number == number]
            if told and row[place] == row[place]:
                otherwise = (*row[:place], median(told), *row[place + 1 :])
                yield name, said - self._trees.of(otherwise)


@final
class Trust:
    """How far each of several predictors is trusted: by its errors on the latest jobs, and by how
    many pairs of these jobs it puts in the right order, which is what a scheduler needs. The order
    counts less, but follows a change sooner."""

    def __init__(self, number: int) -> None:
        self._off: Final = [0.0] * number
        self._ordered: Final = [0.0] * number
        self._judged = self._compared = 0
        self._last: Final[deque[tuple[Sequence[float], float]]] = deque(maxlen=_PARTNERS)

    def judge(self, answers: Sequence[float], truth: float) -> None:
        self._judged += 1
        newest = max(1 / self._judged, 1 / _LATEST)
        for place, answer in enumerate(answers):
            self._off[place] += newest * (abs(answer - truth) - self._off[place])
        self._compare(answers, truth)
        self._last.append((answers, truth))

    def _compare(self, answers: Sequence[float], truth: float) -> None:
        others = [(said, own) for said, own in self._last if own != truth]
        if not others:
            return
        self._compared += 1
        newest = max(1 / self._compared, 1 / _LATEST_ORDER)
        for place, answer in enumerate(answers):
            right = sum([_agree(answer - said[place], truth - own) for said, own in others])
            self._ordered[place] += newest * (right / len(others) - self._ordered[place])

    def weights(self) -> list[float]:
        trust = [
            ordered / _CLEARLY_ORDERED - off / _CLEARLY
            for ordered, off in zip(self._ordered, self._off, strict=True)
        ]
        shares = [exp(own - max(trust)) for own in trust]
        return [share / sum(shares) for share in shares]


def _agree(one: float, other: float) -> float:
    """1: the same sign; a half: it could not be told."""
    return 0.5 if one == 0.0 else float((one > 0) == (other > 0))
