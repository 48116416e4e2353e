"""Trees over what is known of a job, and how to weigh two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log1p
from statistics import median
from typing import Final, final

from dovetail.predict.boosting import fitted
from dovetail.predict.chronicle import NAMES, Known
from dovetail.predict.memory import Lesson

_GUESS = log1p(3600.0)
_WEIGHTS = (0.25, 0.5)  # of trees on levels, where these pay
_PAYS = 0.01  # more of the pairs in order: less is chance
_FEWEST = 500  # jobs to judge by


def recent(known: Known) -> float:
    """What history says by itself, as a logarithm of seconds plus one."""
    return known.recent if known.recent == known.recent else _GUESS


def mean(known: Known) -> float:
    return known.mean if known.mean == known.mean else _GUESS


@final
class Grown:
    """Trees for one quantile of the logarithm of the duration.

    `relative`: they say how it differs from the recent mean, and look at levels as they differ from
    it too: what was learned while jobs were short holds when they are long.
    """

    def __init__(self, lessons: Sequence[Lesson], quantile: float, *, relative: bool) -> None:
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


def weighed(one: Grown, other: Grown, unseen: Sequence[Lesson]) -> float:
    """The weight of the other with which most pairs of jobs that neither has seen come out in the
    right order; none unless that pays."""
    if len(unseen) < _FEWEST:
        return 0.0
    truth = [lesson.log_seconds for lesson in unseen]
    said = [(one.of(lesson.known), other.of(lesson.known)) for lesson in unseen]

    def right(weight: float) -> float:
        mixed = [a + weight * (b - a) for a, b in said]
        agree = [(mixed[i] < mixed[j]) is (truth[i] < truth[j]) for i, j in _pairs(len(unseen))]
        return sum(agree) / len(agree)

    best = max(_WEIGHTS, key=right)
    return best if right(best) > right(0.0) + _PAYS else 0.0


def _pairs(number: int) -> Iterator[tuple[int, int]]:
    """Some near in time, some far."""
    for apart in {1, number // 7, number // 3, number // 2} - {0}:
        for i in range(number):
            yield i, (i + apart) % number
