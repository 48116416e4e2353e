"""Figures of a job in words, the same in every list."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.api.job_row import TOTALS, JobRow


def reported(
    step: float | None, metrics: Mapping[str, float | str]
) -> tuple[list[str], Mapping[str, float | str]]:
    """`step 30 of 100`, and what else was reported."""
    if step is None:
        return [], metrics
    total = next((metrics[name] for name in TOTALS if name in metrics), None)
    if not isinstance(total, int | float):
        return [f"step {number(step)}"], metrics
    others = {name: value for name, value in metrics.items() if name not in TOTALS}
    return [f"step {number(step)} of {number(total)}"], others


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def memory_text(number: float) -> str:
    """`3.2 GB`, `640 MB`; as everywhere in Dovetail, of 2**30 bytes."""
    gigabytes, megabytes = number / 2**30, number / 2**20
    if gigabytes >= 1:
        return f"{gigabytes:.1f} GB"
    return f"{megabytes:.0f} MB" if megabytes >= 0.5 else "<1 MB"


def gpus_text(row: JobRow) -> str:
    """How many, or which part of one."""
    return f"{row.share:.3g}" if row.share != 1.0 and row.gpus else str(row.gpus)
