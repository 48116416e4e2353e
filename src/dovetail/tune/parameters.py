"""Hyper-parameters as values: the settings each may have. `at` maps the unit interval to a setting.

`when` names the settings of other parameters under which this one counts at all. `from_step` says
that it makes no difference before that step of the training.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, isfinite, log
from typing import TypeAlias

from dovetail.core.errors import BadInput
from dovetail.tune.study import Setting

When: TypeAlias = Mapping[str, Setting | Sequence[Setting]]

LARGEST_WHOLE = 2**53  # beyond it whole numbers are not the same as floats
MOST_VALUES = 10_000  # of one choice
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_LONGEST_NUMBER = 40


class BadSpace(BadInput):
    """A space that cannot be searched. `path` leads to the part at fault: parameter, field."""

    def __init__(self, sentence: str, *path: str) -> None:
        where = ".".join(step if _plain(step) else repr(step[:30]) for step in path)
        super().__init__(f"{where}: {sentence}" if path else sentence)
        self.sentence = sentence
        self.path = path

    def below(self, *outer: str) -> BadSpace:
        """The same error, with one more name in front of its path."""
        return BadSpace(self.sentence, *outer, *self.path)


def _plain(name: str) -> bool:
    return len(name) <= 100 and name.isprintable() and not set(name) & set(" .:'\"")


# --------------------------------------------------------------------------------------- parameters


@dataclass(frozen=True, slots=True)
class Float:
    """A number between two bounds, all equally likely; with `step` only low, low + step, …"""

    low: float
    high: float
    step: float | None = None
    when: When = field(default_factory=dict)
    from_step: int = 0

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)
        if self.step is not None:
            _check_step(self.step, self.low, self.high)
        _check_from_step(self.from_step)

    def under(self, when: When) -> Float:
        return replace(self, when=when)

    @property
    def count(self) -> int | None:
        """The number of values; None: not countable."""
        return None if self.step is None else _steps_between(self.low, self.high, self.step) + 1

    def at(self, unit: float) -> Setting:
        if self.step is not None:
            value = self.low + _cell(unit, self.count or 1) * self.step
            return _kept(float(f"{value:.15g}"), self.low, self.high)  # 0.9, not 0.8999999999999999
        return _kept(self.low + unit * (self.high - self.low), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Log:
    """A number between two bounds, every order of magnitude equally likely."""

    low: float
    high: float
    when: When = field(default_factory=dict)
    from_step: int = 0

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)
        _check_positive(self.low)
        _check_from_step(self.from_step)

    def under(self, when: When) -> Log:
        return replace(self, when=when)

    @property
    def count(self) -> int | None:
        return None

    def at(self, unit: float) -> Setting:
        low = log(self.low)
        return _kept(exp(low + unit * (log(self.high) - low)), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number, both bounds included; with `log` every order of magnitude equally likely."""

    low: int
    high: int
    step: int = 1
    log: bool = False
    when: When = field(default_factory=dict)
    from_step: int = 0

    def __post_init__(self) -> None:
        for bound in (self.low, self.high, self.step):
            _check_whole(bound)
        _check_bounds(self.low, self.high)
        _check_step(self.step, self.low, self.high)
        if self.log:
            _check_positive(self.low)
        _check_from_step(self.from_step)

    def under(self, when: When) -> Integer:
        return replace(self, when=when)

    @property
    def count(self) -> int | None:
        return (self.high - self.low) // self.step + 1

    def at(self, unit: float) -> Setting:
        count = (self.high - self.low) // self.step + 1
        if not self.log:
            return self.low + self.step * _cell(unit, count)
        beyond = self.low + self.step * count
        drawn = self.low * (beyond / self.low) ** unit
        return self.low + self.step * min(int((drawn - self.low) / self.step), count - 1)


@dataclass(frozen=True, slots=True, init=False)
class Choice:
    """One of a few values: strings, numbers, booleans."""

    values: tuple[Setting, ...]
    when: When
    from_step: int

    def __init__(self, *values: Setting, when: When | None = None, from_step: int = 0) -> None:
        _check_values(values)
        _check_from_step(from_step)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "when", when or {})
        object.__setattr__(self, "from_step", from_step)

    def under(self, when: When) -> Choice:
        """The same choice under another condition."""
        return Choice(*self.values, when=when, from_step=self.from_step)

    @property
    def count(self) -> int | None:
        return len(self.values)

    def at(self, unit: float) -> Setting:
        return self.values[_cell(unit, len(self.values))]


Parameter: TypeAlias = Float | Log | Integer | Choice


def points(parameter: Parameter, wanted: int) -> Sequence[Setting]:
    """The parameter's values on a grid: all if they are countable, else `wanted` of them, bounds
    included."""
    if isinstance(parameter, Choice):
        return parameter.values
    if isinstance(parameter, Integer):
        return range(parameter.low, parameter.high + 1, parameter.step)
    if parameter.count is None:
        return [parameter.at(index / max(1, wanted - 1)) for index in range(wanted)]
    return [parameter.at((index + 0.5) / parameter.count) for index in range(parameter.count)]


def nearest(parameter: Parameter, wished: Setting, before: Setting | None) -> Setting | None:
    """The value of the parameter closest to the one wished; None if there is no near one. If values are
    countable and the wish differs from the value before, at least the neighbour in that direction."""
    if isinstance(parameter, Choice) and wished in parameter.values:
        return parameter.values[parameter.values.index(wished)]
    if isinstance(wished, bool | str):
        return None
    if isinstance(parameter, Float | Log):
        return _nearest_float(parameter, wished, before)
    numbers = _numbers(parameter)
    if not numbers:
        return None
    place = _closest(numbers, wished)
    if (
        not isinstance(before, bool | str | None)
        and wished != before
        and place == _closest(numbers, before)
    ):
        place += 1 if wished > before else -1
    return numbers[min(max(place, 0), len(numbers) - 1)]


def _nearest_float(parameter: Float | Log, wished: float, before: Setting | None) -> Setting:
    if isinstance(parameter, Log) or parameter.step is None:
        return _kept(wished, parameter.low, parameter.high)
    low, step, count = parameter.low, parameter.step, parameter.count or 1
    steps_before = None if isinstance(before, str | None) else (before - low) / step
    place = nearest(Integer(0, count - 1), (wished - low) / step, steps_before)
    assert isinstance(place, int)
    return parameter.at((place + 0.5) / count)


def _numbers(parameter: Integer | Choice) -> Sequence[float]:
    """The numbers among its values, in rising order."""
    if isinstance(parameter, Integer):
        return range(parameter.low, parameter.high + 1, parameter.step)
    return sorted([own for own in parameter.values if not isinstance(own, bool | str)])


def _closest(numbers: Sequence[float], value: float) -> int:
    above = bisect_left(numbers, value)
    if above == 0:
        return 0
    if above == len(numbers) or value - numbers[above - 1] <= numbers[above] - value:
        return above - 1
    return above


def _cell(unit: float, count: int) -> int:
    """The index of the cell of the unit interval, out of so many equal ones; 1 belongs to the last."""
    return min(int(unit * count), count - 1)


def _steps_between(low: float, high: float, step: float) -> int:
    return int((high - low) / step * (1 + 1e-12) + 1e-9)  # 0 to 0.3 by 0.1 is three steps


def _kept(value: float, low: float, high: float) -> float:
    return min(max(value, float(low)), float(high))


# ------------------------------------------------------------------------------------------- checks


def _check_bounds(low: float, high: float) -> None:
    for bound in (low, high):
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            raise BadSpace(f"{bound!r} is not a number; give a low and a high bound")
        if not isfinite(bound):
            raise BadSpace(f"the bound {bound} is not finite; give a number")
    if low == high:
        raise BadSpace(f"from {low} to {high} there is one value only; make it a choice of one")
    if low > high:
        raise BadSpace(f"from {low} to {high} there is nothing; the low bound goes first")
    if not isfinite(high - low):
        raise BadSpace(f"from {low} to {high} is too wide a range")


def _check_positive(low: float) -> None:
    if low <= 0:
        raise BadSpace(f"a log scale cannot begin at {low}; give a low bound above 0")


def _check_step(step: float, low: float, high: float) -> None:
    if isinstance(step, bool) or not isinstance(step, int | float) or not isfinite(step):
        raise BadSpace(f"the step {step!r} is not a number", "step")
    if step <= 0:
        raise BadSpace(f"the step {step} must be above 0", "step")
    if step > high - low:
        raise BadSpace(f"the step {step} is larger than the range from {low} to {high}", "step")


def _check_whole(value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadSpace(f"{value!r} is not a whole number")
    if abs(value) > LARGEST_WHOLE:
        raise BadSpace(f"{value} is out of range; a whole number has 53 bits at most")


def _check_values(values: Sequence[object]) -> None:
    if not values:
        raise BadSpace("a choice of nothing; give at least one value")
    if len(values) > MOST_VALUES:
        raise BadSpace(f"a choice of {len(values):,} values; {MOST_VALUES:,} is the most")
    seen = set()
    for value in values:
        if not isinstance(value, str | int | float):
            raise BadSpace(f"{_kind(value)} cannot be chosen; give texts, numbers, true or false")
        if isinstance(value, float) and not isfinite(value):
            raise BadSpace(f"{value} cannot be chosen; give finite numbers")
        if value in seen:  # Python counts true as 1 and false as 0
            raise BadSpace(f"{value!r} is there twice; remove one")
        seen.add(value)


def _check_from_step(step: object) -> None:
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise BadSpace(f"from_step {step!r} is not a whole number from 0 on", "from_step")


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def scalar(text: str) -> Setting:
    """The value that a string from a file of strings means: a number, a boolean, or the string."""
    if text in ("true", "false"):
        return text == "true"
    if not _NUMBER.fullmatch(text) or len(text) > _LONGEST_NUMBER:
        return text
    found = int(text) if text.lstrip("+-").isdigit() else float(text)
    return found if isfinite(found) else text
