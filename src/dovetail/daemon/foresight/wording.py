"""Times, durations and numbers as people say them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from textwrap import wrap

from dovetail.core.model import Seconds
from dovetail.daemon.foresight.intervals import Span

WIDTH = 90
_LABEL = 11


def lasting(seconds: Seconds) -> str:
    """Two figures at most: 40 s, 12 min, 3 h 20 min, 2 days 4 h."""
    seconds = max(seconds, 0.0)
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} days {hours} h" if hours and days < 10 else f"{days} days"


def clock_time(unix: float, now: float) -> str:
    """18:40 today, Tue 18:40 this week, 3 Oct 18:40 otherwise; with seconds if it is that close."""
    at, today = datetime.fromtimestamp(unix), datetime.fromtimestamp(now)
    time = f"{at:%H:%M:%S}" if abs(unix - now) < 100 else f"{at:%H:%M}"
    if at.date() == today.date():
        return time
    if abs(unix - now) < 6 * 86400:
        return f"{at:%a} {time}"
    return f"{at.day} {at:%b} {time}"


def span_text(span: Span, now: float) -> str:
    """18:40 ± 12 min; or from when to when, if it is lopsided."""
    expected = clock_time(span.expected, now)
    if span.high is None:
        return f"{expected} at the earliest guess, perhaps far later"
    before, after = span.expected - span.low, span.high - span.expected
    wide = max(before, after)
    if wide < 1:
        return expected
    if wide <= 2 * min(before, after):
        return f"{expected} ± {lasting(wide)}"
    return f"{expected} ({clock_time(span.low, now)} to {clock_time(span.high, now)})"


def number_of(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def folded(text: str) -> Iterator[str]:
    yield from wrap(text, WIDTH)


def labelled(label: str, text: str) -> Iterator[str]:
    """The label, and the text beside it, folded."""
    for i, line in enumerate(wrap(text, WIDTH - _LABEL) or [""]):
        yield f"{label if i == 0 else '':<{_LABEL}}{line}".rstrip()
