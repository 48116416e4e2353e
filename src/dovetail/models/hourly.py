"""Something that changes from hour to hour: the price of electricity, the carbon in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf, isfinite
from typing import Final, final

from dovetail.core.errors import BadInput
from dovetail.core.model import Seconds

HOUR_S: Final = 3600.0
DAY: Final = 24  # hours; a table of so many says what every day is like


@final
class Hourly:
    """One value for each hour from the start of the run. A table of 24 is taken for every day, any
    other must cover the whole run; a single value never changes. The first hour may have begun
    before the run, at `begins`."""

    def __init__(self, values: Sequence[float], what: str = "table", begins: Seconds = 0.0) -> None:
        if not values or not all([isfinite(value) for value in values]):
            raise ValueError(f"the {what} needs a finite number for every hour")
        self.values: Final = tuple(values)
        self.what: Final = what
        self.begins: Final = begins
        self.mean: Final = sum(values) / len(values)
        self._span: Final = HOUR_S * len(values) if len(values) > 1 else inf
        self._repeats: Final = len(values) == DAY
        self._before: Final = [0.0, *accumulate(value * HOUR_S for value in values)]

    def __reduce__(self) -> tuple[object, ...]:
        return Hourly, (self.values, self.what, self.begins)

    @property
    def constant(self) -> bool:
        return len(self.values) == 1

    @property
    def ends(self) -> Seconds:
        """From then on nothing is known."""
        return inf if self._repeats else self.begins + self._span

    def at(self, when: Seconds) -> float:
        if self._span == inf:
            return self.values[0]
        return self.values[int(self._inside(when - self.begins) / HOUR_S) % len(self.values)]

    def total(self, start: Seconds, end: Seconds) -> float:
        """The integral from start to end: the value times seconds."""
        if self._span == inf:
            return self.values[0] * (end - start)
        return self._up_to(end - self.begins) - self._up_to(start - self.begins)

    def changes_after(self, when: Seconds) -> Seconds:
        """When the value may be another."""
        hours = int((when - self.begins) / HOUR_S) + 1
        return inf if self._span == inf else self.begins + hours * HOUR_S

    def _up_to(self, when: Seconds) -> float:
        inside = self._inside(when)
        hour = min(int(inside / HOUR_S), len(self.values) - 1)
        whole = self._before[-1] * ((when - inside) / self._span)
        return whole + self._before[hour] + self.values[hour] * (inside - hour * HOUR_S)

    def _inside(self, when: Seconds) -> Seconds:
        """The same moment within the table."""
        if when <= self._span:
            return when
        if not self._repeats:
            raise BadInput(
                f"the {self.what} has {len(self.values)} hours and hour {int(when / HOUR_S)} is needed; "
                "give a longer table, or one of 24 hours for every day"
            )
        return when % self._span


def of_every_hour(rows: Sequence[tuple[Seconds, float]], what: str) -> Hourly:
    """From rows of a time and the value from then on; an hour without a row is told."""
    start = rows[0][0]
    values = []
    for number, (at, value) in enumerate(rows):
        if abs(at - start - number * HOUR_S) > 1.0 or not isfinite(value):
            raise BadInput(f"the {what} has no value for hour {number}; give one for every hour")
        values.append(value)
    return Hourly(values, what)
