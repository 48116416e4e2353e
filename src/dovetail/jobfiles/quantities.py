"""Quantities of a job: counts, sizes, shares, durations, times.

Each reader takes what was written, as a number or as text (YAML files bring texts only), and returns
what is kept, or says by a `ValueError` what is wrong with the value: "is not …".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from math import isfinite
from typing import Literal

from dovetail.jobfiles.complaint import Complaint, shown
from dovetail.jobfiles.texts import label
from dovetail.traces.readers.cells import duration as spelled_duration

MOST_GPUS = 4096
MOST_CPUS = 100_000
MOST_GB = 1_000_000.0
LARGEST_WHOLE = 10**18
LONGEST_TEXT = 100  # of a quantity; no honest one comes near
SIZE = re.compile(r"((?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?) ?(?:([kmgt]?)(i?)b?)\+?", re.IGNORECASE)
GB_OF = {"": 1.0, "k": 1e-6, "m": 1e-3, "g": 1.0, "t": 1e3}
GB_OF_BINARY = {"k": 2**10 / 1e9, "m": 2**20 / 1e9, "g": 2**30 / 1e9, "t": 2**40 / 1e9}
TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
NEEDED = "is not a time; write '+2h', '18:00', 'friday 18:00' or '2026-12-01 18:00'"

_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
_SHORTEST = 3  # letters of a day


def _plain(value: object) -> int | float | str:
    """A number or a short text; truth values are neither, though Python counts with them."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("is not a number")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ValueError(f"is too long: {len(value):,} characters")
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:  # might not even become a float
        raise ValueError("is out of range")
    return value.strip() if isinstance(value, str) else value


def number(value: object) -> float:
    given = _plain(value)
    try:
        found = float(given)
    except ValueError:
        raise ValueError("is not a number") from None
    if not isfinite(found):
        raise ValueError("is not a finite number")
    return found


def within(low: float, high: float) -> Callable[[object], float]:
    """How to read a number of this range."""

    def read(value: object) -> float:
        found = number(value)
        if not low <= found <= high:
            raise ValueError(f"is out of range; give {low:,g} to {high:,g}")
        return found

    return read


def whole(low: int, high: int) -> Callable[[object], int]:
    """How to read a count of this range."""

    def read(value: object) -> int:
        found = number(value)
        if not found.is_integer():
            raise ValueError("is not a whole number")
        if not low <= found <= high:
            raise ValueError(f"is out of range; give {low:,} to {high:,}")
        return int(found)

    return read


def cpus(value: object) -> float:
    """`4`, or `4+` as SkyPilot writes "at least 4": a job may use more if nobody else does."""
    given = _plain(value)
    return within(0, MOST_CPUS)(given.removesuffix("+") if isinstance(given, str) else given)


def gigabytes(value: object) -> float:
    """`20GB` (10⁹ bytes each), `16GiB` (2³⁰), `512M`; a number alone counts in GB."""
    match = SIZE.fullmatch(str(_plain(value)))
    if match is None or (match[3] and not match[2]):
        raise ValueError("is not a size; write 20GB, 16GiB or 512MB")
    unit = match[2].lower()
    found = float(match[1]) * (GB_OF_BINARY if match[3] else GB_OF)[unit]
    if found > MOST_GB:
        raise ValueError(f"is out of range; give {MOST_GB:,.0f} GB at most")
    return found


def share(value: object) -> float:
    """The part of one GPU: `0.25`, `25%`, or `250` thousandths. `1` is a whole GPU."""
    given = _plain(value)
    if isinstance(given, str) and given.endswith("%"):
        part = number(given[:-1]) / 100
    else:
        part = number(given)
        if part > 1 and part.is_integer():
            part /= 1000
    if not 0.001 <= part <= 1:
        raise ValueError("is no part of a GPU; write 0.25, 25%, or 250 (thousandths)")
    return round(part, 3)


def duration(value: object) -> float:
    """`90`, `2h30m`, `1:30:00`, `1-12:00:00`: seconds, more than none."""
    try:
        given = str(_plain(value))
    except ValueError:
        raise ValueError("is not a duration; write 2h30m, 1-12:00:00, or seconds") from None
    found = spelled_duration(given)
    if found <= 0:
        raise ValueError("is no time at all; give more than 0 seconds")
    return found


def grace(value: object) -> float:
    """The same, or 0: ended without warning."""
    return 0.0 if value in (0, "0") and not isinstance(value, bool) else duration(value)


def deadline(value: object) -> str:
    """`+2h` from submission, or a time such as `friday 18:00`; kept with its time zone."""
    if not isinstance(value, str) or not 0 < len(value.strip()) <= LONGEST_TEXT:
        raise ValueError(NEEDED)
    given = value.strip()
    if given.startswith("+"):
        return f"+{duration(given[1:]):.15g}"
    return moment(given, datetime.now().astimezone()).isoformat()


def truth(value: object) -> bool:
    found = TRUTH.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ValueError("is not true or false")
    return found


def preemptible(value: object) -> bool | Literal["restart"]:
    if isinstance(value, str) and value.lower() == "restart":
        return "restart"
    try:
        return truth(value)
    except ValueError:
        raise ValueError("is not true, false or restart") from None


def accelerators(value: object) -> list[str]:
    """`H100:2`, `{H100: 2}`, `[H100:2, A100:2]` (either will do) or `2`, as texts like `H100:2`."""
    if isinstance(value, Mapping):
        given = [own if count is None else f"{own}:{count}" for own, count in value.items()]
    elif isinstance(value, list | tuple):
        given = [_one_of(own) for own in value]
    else:
        given = [value]
    return [_accelerator(own) for own in given]


def _one_of(value: object) -> object:
    """SkyPilot writes `any_of: [{accelerators: H100}, …]`."""
    if isinstance(value, Mapping) and list(value) == ["accelerators"]:
        return value["accelerators"]
    return value


def _accelerator(value: object) -> str:
    try:
        kind, count = kind_and_count(str(_plain(value)))
    except ValueError:
        raise Complaint(
            f"resources: {shown(value)} is not a kind and a number, such as H100:2 or 2 "
            "(for a part of a GPU use share)"
        ) from None
    return ":".join([own for own in (kind, "" if count is None else str(count)) if own])


def kind_and_count(given: str) -> tuple[str, int | None]:
    """`H100:2` is (H100, 2), `H100` is (H100, None), `2` is ("", 2)."""
    kind, _, count = given.rpartition(":") if ":" in given or _is_number(given) else (given, "", "")
    if ":" in kind or "," in kind or not (kind.strip() or _is_number(given)):
        raise ValueError("is not a kind and a number")
    return label(kind), whole(1 if kind else 0, MOST_GPUS)(count) if count else None


def _is_number(given: str) -> bool:
    try:
        float(given)
    except ValueError:
        return False
    return True


def moment(text: str, now: datetime) -> datetime:
    """With its time zone, ours if nothing is said. A day alone is meant to its end; a time alone, or
    a day of the week, is the next one to come."""
    try:
        found = _moment(text.lower().split(), now)
        found.timestamp()
    except (ValueError, OverflowError):
        raise ValueError(NEEDED) from None
    return found


def _moment(words: list[str], now: datetime) -> datetime:
    clock = next((_clock(word) for word in words[-1:] if _CLOCK.fullmatch(word)), None)
    days = words if clock is None else words[:-1]
    match days:
        case [] if clock is not None:
            return _next(now.date(), clock, now, every=1)
        case [word] if len(word) >= _SHORTEST and any(day.startswith(word) for day in _WEEK):
            number = next(n for n, day in enumerate(_WEEK) if day.startswith(word))
            ahead = (number - now.weekday()) % 7
            return _next(now.date() + timedelta(ahead), clock, now, every=7)
        case ["today" | "tomorrow" as word]:
            return _at(now.date() + timedelta(word == "tomorrow"), clock)
        case [word] if ":" not in word:
            return _at(date.fromisoformat(word.upper()), clock)
    found = datetime.fromisoformat(" ".join(words).upper())
    return found if found.tzinfo else found.astimezone()


def _clock(word: str) -> time:
    hours, *rest = word.split(":")
    return time.fromisoformat(":".join([hours.zfill(2), *rest]))


def _next(day: date, clock: time | None, now: datetime, every: int) -> datetime:
    found = _at(day, clock)
    return found if found > now else _at(day + timedelta(every), clock)


def _at(day: date, clock: time | None) -> datetime:
    """At that time of the day; without one, at its end."""
    if clock is None:
        return datetime.combine(day + timedelta(1), time()).astimezone()
    return datetime.combine(day, clock).astimezone()
