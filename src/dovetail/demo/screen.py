"""The live view of the demo: one line for each job, drawn over and over."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from dovetail.api.job_row import JobRow

_BAR = 30
_MARKS: Final = {
    "queued": "·", "starting": "▸", "running": "▶", "suspended": "⏸", "finished": "✓", "failed": "✗",
}  # fmt: skip


class Screen:
    """On a terminal it draws over itself; elsewhere it says only how each race ended."""

    def __init__(self) -> None:
        self._drawn = 0
        self._is_terminal: Final = sys.stdout.isatty()

    def show(self, rows: Sequence[JobRow]) -> None:
        if not self._is_terminal:
            return
        if self._drawn:
            sys.stdout.write(f"\033[{self._drawn}A")
        for row in rows:
            sys.stdout.write(f"\033[2K{line(row)}\n")
        sys.stdout.flush()
        self._drawn = len(rows)

    def rest(self) -> None:
        """What is shown stays; the next goes below."""
        self._drawn = 0


def line(row: JobRow) -> str:
    report = row.last_report
    metrics, step = ({}, 0.0) if report is None else (report.metrics, report.step or 0.0)
    steps = metrics.get("steps")
    part = step / steps if isinstance(steps, float | int) and steps else 0.0
    part = 1.0 if row.phase == "finished" else part
    bar = "█" * round(part * _BAR) + "░" * (_BAR - round(part * _BAR))
    loss = metrics.get("loss")
    told = f"loss {loss:.3f}" if isinstance(loss, float) else ""
    gave_way = f"gave way {row.preemptions}×" if row.preemptions else ""
    mark = _MARKS.get(row.phase, " ")
    return f"  {mark} {row.name:<9} {bar} {row.phase:<10} {told:<11} {gave_way}".rstrip()
