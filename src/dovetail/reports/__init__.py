"""One page of HTML, in one file, that shows what one or several policies did with a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dovetail.experiments.pareto import Objective
from dovetail.reports.page import render
from dovetail.results.record import RunRecord

__all__ = ["write_report"]


def write_report(
    path: Path,
    runs: Sequence[RunRecord],
    title: str,
    objective: Objective | None = None,
    failed: Mapping[str, str] | None = None,
) -> None:
    """Write the page for these runs. Data that it cannot hold is aggregated, and the page says so.
    With an objective the runs have been judged by it, and a chart shows the result. For failed
    policies the page gives the reason."""
    # A lone surrogate in somebody's job id must not cost us the whole report.
    path.write_bytes(render(runs, title, objective, failed or {}).encode("utf-8", "replace"))
