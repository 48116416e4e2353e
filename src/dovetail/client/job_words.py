"""Figures of a job in words, the same in every list."""

from __future__ import annotations

from dovetail.api.job_row import JobRow


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def gpus_text(row: JobRow) -> str:
    """How many, or which part of one."""
    return f"{row.share:.3g}" if row.share != 1.0 and row.gpus else str(row.gpus)
