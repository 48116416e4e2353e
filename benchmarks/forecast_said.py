"""What was said first of jobs, what came of it, and how often it held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import median
from typing import NamedTuple

from benchmarks.lines import Line
from dovetail.core.model import Seconds

WANTED = {True: 0.80, False: 0.75}  # by whether a job of that name had ended
_FEWEST = 20  # judged: fewer cannot tell
_SLACK_S = 0.05  # that starting a process takes, live


@dataclass
class Said:
    """The first that was said of one job, and what came of it. Seconds from then."""

    known: bool
    what: str
    low: Seconds | None  # None: unknown
    high: Seconds | None  # None: open
    truth: Seconds = -1.0

    @property
    def holds(self) -> bool:
        assert self.low is not None
        early, late = self.low - _SLACK_S, (self.high or 1e18) + _SLACK_S
        return early <= self.truth <= late


class Kind(NamedTuple):
    what: str
    known: bool

    def __str__(self) -> str:
        return f"{self.what}, {'known' if self.known else 'never seen'}"


KINDS = tuple([Kind(what, known) for what in ("start", "end") for known in (True, False)])


def lines(name: str, said: Sequence[Said]) -> Iterator[Line]:
    """One for each kind of question that was asked often enough."""
    for kind in KINDS:
        rows = [own for own in said if (own.what, own.known) == kind]
        told = [own for own in rows if own.low is not None]
        if len(told) >= _FEWEST:
            yield _line(f"{name}, {kind} ({len(told)})", kind, rows, told)


def _line(name: str, kind: Kind, rows: Sequence[Said], told: Sequence[Said]) -> Line:
    held = sum(own.holds for own in told)
    low, high = likely(held, len(told))
    unknown = 1 - len(told) / len(rows)
    is_open = sum(own.high is None for own in told) / len(told)
    said = f"{_wide(told)}, {is_open:.0%} open, {unknown:.0%} unknown"
    return Line(
        name,
        f"{held / len(told):.1%} ({low:.0%} to {high:.0%}), {said}",
        f"{WANTED[kind.known]:.0%}",
        held / len(told) >= WANTED[kind.known],
    )


def _wide(told: Sequence[Said]) -> str:
    """In the middle: how many times the low end the high one is, both a second later; and how many
    times the time it took the interval is long."""
    closed = [(own.low or 0.0, own.high, own.truth) for own in told if own.high is not None]
    if not closed:
        return "open"
    times = exp(median(log_width(low, high) for low, high, _ in closed))
    share = median((high - low) / max(truth, 1.0) for low, high, truth in closed)
    return f"{times:.1f} x wide, {share:.1f} x the time"


def log_width(low: Seconds, high: Seconds) -> float:
    return log((high + 1.0) / (low + 1.0))


def likely(held: int, number: int) -> tuple[float, float]:
    """Wilson's interval: 95 % for jobs that have nothing to do with each other; those that wait for
    the same do, so that it is rather wider."""
    z, share = 1.96, held / number
    middle = (share + z * z / (2 * number)) / (1 + z * z / number)
    far = z * sqrt(share * (1 - share) / number + (z / (2 * number)) ** 2) / (1 + z * z / number)
    return middle - far, middle + far
