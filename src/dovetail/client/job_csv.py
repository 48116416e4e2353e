"""Jobs as a table for other programs: seconds, bytes, seconds since 1970."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dovetail.api.job_row import JobRow

_OF_JOB = (
    *("id", "name", "user", "tenant", "group", "model", "phase", "exit_code", "gpus", "share"),
    *("submitted_at", "started_at", "ended_at", "run_s", "lost_gpu_s", "preemptions", "attempts"),
)
_USED = ("cpu_s", "peak_memory_bytes", "gpu_busy", "peak_gpu_memory_bytes")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would carry out


def csv_of(rows: Iterable[JobRow]) -> str:
    lines = [[getattr(row, name) for name in _OF_JOB] + _used(row) for row in rows]
    return csv_text([*_OF_JOB, *_USED], lines)


def _used(row: JobRow) -> list[object]:
    return [None if row.used is None else getattr(row.used, name) for name in _USED]


def csv_text(names: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """What a spreadsheet would take for a formula begins with an apostrophe."""
    import csv
    from io import StringIO

    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_plain(value) for value in line] for line in lines)
    return text.getvalue()


def _plain(value: object) -> object:
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
