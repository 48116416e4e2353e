"""Points in time as people write them: `18:00`, `friday`, `tomorrow 9:00`, `2026-12-01 18:00`."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta

NEEDED = "is not a time; write '+2h', '18:00', 'friday 18:00' or '2026-12-01 18:00'"

_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
_SHORTEST = 3  # letters of a day


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
