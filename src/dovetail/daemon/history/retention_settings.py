"""How long what is over is kept: as said, else as usual."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isinf
from typing import Final

from dovetail.core.errors import BadInput

_FOR_EVER = "forever"
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(d|days?|y|years?|GB)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Keep:
    """Run folders (logs, reports, checkpoints) of jobs that ended, and entries of the journal. Rows of
    ended jobs, as `history` shows them, are always kept."""

    runs_days: float = 30.0
    runs_gb: float = 100.0
    journal_days: float = 30.0

    def text(self) -> str:
        runs = f"runs for {_days(self.runs_days)} and up to {_gb(self.runs_gb)}"
        return f"{runs}, the journal for {_days(self.journal_days)}, history for ever"

    def to_words(self) -> list[str]:
        runs = [(self.runs_days, "d"), (self.runs_gb, "GB")]
        runs.sort(key=lambda said: not isinf(said[0]))  # `forever` is said of both: it comes first
        return [
            *(f"runs={_said(value, unit)}" for value, unit in runs),
            f"journal={_said(self.journal_days, 'd')}",
        ]


def keep_of(words: Sequence[str], before: Keep | None = None) -> Keep:
    """Of words such as `runs=30d`, `runs=100GB`, `journal=1y`, `runs=forever`."""
    keep = before or Keep()
    for word in words:
        what, _, amount = word.partition("=")
        found = _AMOUNT.fullmatch(amount.strip())
        if what == "runs" and amount == _FOR_EVER:
            keep = replace(keep, runs_days=inf, runs_gb=inf)
        elif what == "journal" and amount == _FOR_EVER:
            keep = replace(keep, journal_days=inf)
        elif found and what == "runs" and found[2].upper() == "GB":
            keep = replace(keep, runs_gb=float(found[1]))
        elif found and what in ("runs", "journal") and found[2].upper() != "GB":
            days = float(found[1]) * (365.0 if found[2][0] in "yY" else 1.0)
            name = "runs_days" if what == "runs" else "journal_days"
            keep = replace(keep, **{name: days})
        else:
            raise BadInput(f"--keep {word}: {_wanted(what)}")
    return keep


def _wanted(what: str) -> str:
    if what == "journal":
        return "of the journal say how long: days (journal=30d), years (journal=1y) or forever"
    if what == "runs":
        return "of runs say days (runs=30d), years (runs=1y), gigabytes (runs=100GB) or forever"
    return (
        "say what and how long: runs=30d, runs=1y, runs=100GB, journal=30d, or forever for either"
    )


def _days(days: float) -> str:
    return "ever" if isinf(days) else f"{days:g} days"


def _gb(size: float) -> str:
    return "any size" if isinf(size) else f"{size:g} GB"


def _said(value: float, unit: str) -> str:
    return _FOR_EVER if isinf(value) else f"{value:g}{unit}"
