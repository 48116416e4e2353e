"""Trees over what is known of a job, and how far to trust several answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log1p
from statistics import median
from typing import Final, final

from dovetail.predict.boosting import fitted
from dovetail.predict.chronicle import NAMES, Known
from dovetail.predict.memory import Lesson

_GUESS = log1p(3600.0)
_LATEST = 1_000  # jobs that trust rests on
_CLEARLY = 0.1  # so much further off, in logarithms, is trusted by a factor of e less


def recent(known: Known) -> float:
    """What history says by itself, as a logarithm of seconds plus one."""
    return known.recent if known.recent == known.recent else _GUESS


def mean(known: Known) -> float:
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

    def of(self, known: Known) -> float:
        return self._base(known) + self._trees.of(self._row(known))

    def _base(self, known: Known) -> float:
        return recent(known) if self._relative else 0.0

    def _row(self, known: Known) -> tuple[float, ...]:
        if not self._relative:
            return known.levels + known.others
        base = recent(known)
        return (*[level - base for level in known.levels], *known.others)

    def reasons(self, known: Known) -> Iterator[tuple[str, float]]:
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
    """How far each of several answers is trusted: by how far off they were on the latest jobs."""

    def __init__(self, number: int) -> None:
        self._off: Final = [0.0] * number
        self._judged = 0

    def judge(self, answers: Sequence[float], truth: float) -> None:
        self._judged += 1
        newest = max(1 / self._judged, 1 / _LATEST)
        for place, answer in enumerate(answers):
            self._off[place] += newest * (abs(answer - truth) - self._off[place])

    def weights(self) -> list[float]:
        least = min(self._off)
        shares = [exp((least - off) / _CLEARLY) for off in self._off]
        return [share / sum(shares) for share in shares]
