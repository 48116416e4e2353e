"""Times, durations and numbers as people say them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap

from dovetail.api.forecast_row import Span
from dovetail.text.durations import duration_text
from dovetail.text.times import clock_near

WIDTH = 90
MOST_LINES = 24
_LABEL = 11


def span_text(span: Span, now: float) -> str:
    """18:40 ± 12 min; or from when to when, if it is lopsided."""
    expected = clock_near(span.expected, now)
    if span.high is None:
        return f"{expected} at the earliest guess, perhaps far later"
    before, after = span.expected - span.low, span.high - span.expected
    wide = max(before, after)
    if wide < 1:
        return expected
    if wide <= 2 * min(before, after):
        return f"{expected} ± {duration_text(wide)}"
    return f"{expected} ({clock_near(span.low, now)} to {clock_near(span.high, now)})"


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def folded(text: str) -> Iterator[str]:
    yield from wrap(text, WIDTH)


def labelled(label: str, text: str) -> Iterator[str]:
    """The label, and the text beside it, folded."""
    for i, line in enumerate(wrap(text, WIDTH - _LABEL) or [""]):
        yield f"{label if i == 0 else '':<{_LABEL}}{line}".rstrip()


def screen(lines: Iterable[str]) -> str:
    kept = list(lines)
    if len(kept) > MOST_LINES:
        kept = [*kept[: MOST_LINES - 1], "…"]
    return "\n".join(kept)
