"""Durations as people write them. The pages of reports write them alike: `reports/assets/units.js`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86400.0
_VERY_LONG_S: Final = 1e5 * DAY


def duration_text(seconds: float) -> str:
    """0.25 s, 42 s, 1 min 30 s, 12 min, 1 h 20 min, 3 d 4 h, 120 d: never 5 % off."""
    if seconds < 0.0005:
        return "0 s"
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    if seconds < MINUTE - 0.5:
        return f"{_whole(seconds)} s"
    if seconds < 10 * MINUTE - 0.5:
        return _two(_whole(seconds), 60, "min", "s")
    if seconds < HOUR - MINUTE / 2:
        return f"{_whole(seconds / MINUTE)} min"
    if seconds < DAY - MINUTE / 2:
        return _two(_whole(seconds / MINUTE), 60, "h", "min")
    if seconds < 100 * DAY - HOUR / 2:
        return _two(_whole(seconds / HOUR), 24, "d", "h")
    return f"{_whole(seconds / DAY):,} d" if seconds < _VERY_LONG_S else f"{seconds / DAY:.2g} d"


def latency_text(seconds: float) -> str:
    """Of an answer: 12.3 ms, 1.25 s, 42 s."""
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 9.95 else duration_text(seconds)


def _whole(number: float) -> int:
    """Halves round up, as in JavaScript; `round` rounds them to the even neighbour."""
    return int(number + 0.5)


def _two(number: int, per: int, large: str, small: str) -> str:
    many, rest = divmod(number, per)
    return f"{many} {large} {rest} {small}" if rest else f"{many} {large}"


# ----------------------------------------------------------------- figures that are to be compared


class Unit(NamedTuple):
    seconds: float
    name: str


_UNITS: Final = (Unit(DAY, "d"), Unit(HOUR, "h"), Unit(MINUTE, "min"), Unit(1.0, "s"))
MILLISECOND: Final = Unit(0.001, "ms")


def unit_of(seconds: float) -> Unit:
    """The unit in which the time is at least 2; a short time is in seconds."""
    return next((unit for unit in _UNITS if seconds >= 2 * unit.seconds), _UNITS[-1])


def in_unit(seconds: float, unit: Unit) -> str:
    """14.0 min; a very long time is in days: 1.2e+06 d."""
    if seconds >= _VERY_LONG_S:
        return f"{seconds / DAY:.2g} d"
    return f"{seconds / unit.seconds:.1f} {unit.name}"


def in_one_unit(times: Sequence[float]) -> list[str]:
    """A column of a table: all in the unit of the median, so that they compare at a glance."""
    unit = unit_of(sorted(times)[(len(times) - 1) // 2]) if times else _UNITS[-1]
    return [in_unit(seconds, unit) for seconds in times]
