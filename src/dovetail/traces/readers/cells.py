"""Cells of a table: from text to values, with messages that name the column and the value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from sys import intern
from typing import TypeVar

from dovetail.core.errors import BadInput
from dovetail.traces.spreadsheets import unescaped

T = TypeVar("T")
Number = TypeVar("Number", int, float)
Row = list[str]
Read = Callable[[Row], T]

REMEMBERED = 10_000  # distinct texts of a column; bounds the memory used for columns of names
LARGEST_WHOLE = 10**9
LARGEST_AMOUNT = 1e12  # of money, watts, anything: products of larger values overflow
LONGEST_S = 1e12  # 31,000 years; sums and squares of longer times are not finite
SPACES = str.maketrans("-_()[]", " " * 6)
SHOWN = 60  # characters of a value or a list of columns in a message


class CellError(ValueError):
    """A cell that cannot be used. The message names the column and the value, not the line."""


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a table: as the file spells them, and by their plain names."""

    source: str
    names: tuple[str, ...]
    index: dict[str, int]

    def __contains__(self, name: str) -> bool:
        return name in self.index


def header_of(source: str, names: Sequence[str]) -> Header:
    index: dict[str, int] = {}
    for position, name in enumerate(map(plain, names)):
        if name and name in index:
            raise BadInput(f"{source}: column {name!r} appears twice; rename or remove one")
        index[name] = position
    return Header(source, tuple(name.strip() for name in names), index)


def plain(name: str) -> str:
    """`Num GPUs` and `num-gpus` are both `num_gpus`, `Duration (h)` is `duration_h`."""
    return intern("_".join(name.lower().translate(SPACES).split()))


def shown(names: Iterable[str]) -> str:
    """Columns for a message, which stays one line whatever they are."""
    spelled = (name if name.isprintable() else ascii(name) for name in names)
    return clipped(", ".join(spelled) or "none", 2 * SHOWN)


def clipped(text: str, length: int = SHOWN) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


class Repeats(dict[str, T]):
    """Parses each distinct text once: most columns repeat few values, which are then shared."""

    def __init__(self, parse: Callable[[str], T]) -> None:
        super().__init__()
        self.parse = parse

    def __missing__(self, text: str) -> T:
        value = self.parse(text)
        if len(self) < REMEMBERED:
            self[text] = value
        return value


def column(header: Header, name: str, parse: Callable[[str], T]) -> Read[T]:
    """A parser for a column whose values repeat."""
    return distinct_column(header, name, Repeats(parse).__getitem__)


def distinct_column(header: Header, name: str, parse: Callable[[str], T]) -> Read[T]:
    """A parser for a column in which nearly every value is different."""
    if plain(name) not in header:
        raise BadInput(f"{header.source}: there is no column {name!r} ({shown(header.names)})")
    index = header.index[plain(name)]
    label = header.names[index]

    def cell(row: Row) -> T:
        try:
            return parse(row[index])
        except ValueError as error:
            why = "is empty" if not row[index].strip() else f"{clipped(row[index])!r} {error}"
            raise CellError(f"column {label!r}: {why}") from None

    return cell


def blank_or(parse: Callable[[str], T]) -> Callable[[str], T | None]:
    """The same parser for cells that may be empty."""

    def cell(text: str) -> T | None:
        return parse(text) if text and not text.isspace() else None

    return cell


def positive(parse: Callable[[str], Number]) -> Callable[[str], Number]:
    """The same parser for cells that must be more than 0."""

    def cell(text: str) -> Number:
        value = parse(text)
        if not value:
            raise ValueError("is not more than 0")
        return value

    return cell


def label(text: str) -> str:
    return intern(own_text(text))


def own_text(text: str) -> str:
    """The text as its user wrote it."""
    return unescaped(text.strip())


def given(text: str) -> str:
    """A text that must not be empty."""
    stripped = text.strip()
    if not stripped:
        raise ValueError("is empty")
    return unescaped(stripped)


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("is not a number") from None
    if not isfinite(value):
        raise ValueError("is not a finite number")
    return value


def amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("is not a number") from None
    if 0.0 <= value <= LARGEST_AMOUNT:
        return value
    if value < 0.0:
        raise ValueError("is negative")
    raise ValueError(
        f"is more than {LARGEST_AMOUNT:g}" if value < inf else "is not a finite number"
    )


def seconds(text: str) -> float:
    """A point in time as a plain number."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError("is not a number") from None
    if 0.0 <= value <= LONGEST_S:
        return value
    raise _no_seconds(value)


def duration(text: str) -> float:
    """A length of time: seconds, or `1:30:00`, `1-02:30:00`, `30m`, `1.5d`."""
    try:
        value = float(text)
    except ValueError:
        value = spelled(text)
    if 0.0 <= value <= LONGEST_S:
        return value
    raise _no_seconds(value)


def counted_in(times: float, per: float = 1.0) -> Callable[[str], float]:
    """A parser for a duration in minutes (60) or milliseconds (1, 1000)."""

    def in_unit(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            return duration(text)  # with a unit: it needs no other
        in_seconds = value * times / per
        return in_seconds if 0.0 <= in_seconds <= LONGEST_S else duration(repr(in_seconds))

    return in_unit


def _no_seconds(value: float) -> ValueError:
    if value < 0.0:
        return ValueError("is negative")
    return ValueError(
        "is more than 1e12 seconds" if LONGEST_S < value < inf else "is not a finite number"
    )


def yes(text: str) -> bool:
    plainly = text.strip().lower()
    if plainly in ("true", "yes", "1"):
        return True
    if plainly in ("false", "no", "0"):
        return False
    raise ValueError("is neither yes nor no")


def whole(text: str) -> int:
    """A count. `8.0` is one, too: tables with gaps often come out of other tools that way."""
    try:
        value = int(text)
    except ValueError:
        value = _whole_float(text)
    if not 0 <= value <= LARGEST_WHOLE:
        raise ValueError("is negative" if value < 0 else f"is more than {LARGEST_WHOLE:,}")
    return value


def _whole_float(text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("is not a whole number") from None
    if not value.is_integer():  # nor are nan and inf
        raise ValueError("is not a whole number")
    return int(value)


def labels(text: str) -> tuple[str, ...]:
    """`V100|T4`"""
    return tuple(intern(part.strip()) for part in unescaped(text).split("|") if part.strip())


def durations(text: str) -> tuple[float, ...]:
    return tuple(duration(part) for part in text.split("|"))


# ------------------------------------------------------------------- durations with units and colons

DAY_S, HOUR_S, MINUTE_S = 86_400.0, 3600.0, 60.0
NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
WORDS = re.compile(
    rf"(?:{NUMBER} ?(?:d|days?) ?)?(?:{NUMBER} ?(?:h|hrs?|hours?) ?)?"
    rf"(?:{NUMBER} ?(?:m|mins?|minutes?) ?)?(?:{NUMBER} ?(?:s|secs?|seconds?))?"
)
COLONS = re.compile(r"(?:(\d+)(?:-| days?,? ))?(\d+):([0-5]\d):([0-5]\d(?:\.\d*)?)")
SLURM_MINUTES = re.compile(r"(\d+)-(\d+):([0-5]\d)()")  # days, hours, minutes, nothing
TWO_PARTS = re.compile(r"\d+:\d\d")
IN_SECONDS = (DAY_S, HOUR_S, MINUTE_S, 1.0)


def spelled(text: str) -> float:
    """Seconds of `0:30:00`, `1-02:30:00` (as Slurm writes), `1 day 2:30:00`, `30m` or `1h 30min`."""
    plain = text.strip().lower()
    match = COLONS.fullmatch(plain) or SLURM_MINUTES.fullmatch(plain)
    if match is not None and match[1] and int(match[2][:9]) >= 24:
        match = None  # Slurm never writes 1-30:00:00
    elif match is None:
        match = WORDS.fullmatch(plain) if plain else None
    if match is not None:
        return sum(float(part or 0) * unit for part, unit in zip(match.groups(), IN_SECONDS))  # noqa: B905
    if TWO_PARTS.fullmatch(plain):
        raise ValueError(
            f"could be minutes:seconds or hours:minutes; write 0:{plain} or {plain}:00"
        )
    raise ValueError("is not a number of seconds, nor a duration such as 30m, 2h or 1:30:00")
