"""Figures of a job in words, the same in every list."""

from __future__ import annotations

from dovetail.api.job_row import JobRow


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def memory_text(number: float) -> str:
    """`3.2 GB`, `640 MB`; as everywhere in Dovetail, of 2**30 bytes."""
    gigabytes = number / 2**30
    return f"{gigabytes:.1f} GB" if gigabytes >= 1 else f"{number / 2**20:.0f} MB"


def gpus_text(row: JobRow) -> str:
    """How many, or which part of one."""
    return f"{row.share:.3g}" if row.share != 1.0 and row.gpus else str(row.gpus)
