"""What ended jobs have used, by user, tenant, model or day, and as a table for other programs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from statistics import fmean
from time import localtime, strftime
from typing import Final, Literal, TypeAlias

from dovetail.api.job_row import JobRow, Phase
from dovetail.api.page_row import UsageRow
from dovetail.daemon.service import Service
from dovetail.quantiles import quantile
from dovetail.store import EndedJob, Filter

Grouping: TypeAlias = Literal["user", "tenant", "model", "day", "name"]
MOST_JOBS: Final = 200_000  # the newest; more are not looked at
_AT_ONCE = 1000
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would carry out


@dataclass(frozen=True, slots=True)
class WantedJobs:
    """Which ended jobs are meant."""

    only: Filter
    tenant: str | None = None
    model: str | None = None
    phase: Phase | None = None

    def may_be(self, ended: EndedJob) -> bool:
        """At a glance: to read a row takes twenty times as long."""
        return self.phase is None or f'"{self.phase}"' in ended.row

    def has(self, row: JobRow) -> bool:
        wanted = ((self.tenant, row.tenant), (self.model, row.model), (self.phase, row.phase))
        return all(own in (None, found) for own, found in wanted)


def rows_of(service: Service, wanted: WantedJobs, most: int = MOST_JOBS) -> Iterator[JobRow]:
    """The newest first."""
    before: EndedJob | None = None
    seen = 0
    while seen < most and (page := service.reader.history(wanted.only, _AT_ONCE, before)):
        rows = (service.row_of_ended(ended) for ended in page if wanted.may_be(ended))
        yield from (row for row in rows if wanted.has(row))
        seen, before = seen + len(page), page[-1]


def gpu_hours(row: JobRow) -> float:
    return row.gpus * row.share * row.run_s / 3600.0


def waited_s(row: JobRow) -> float:
    """Until its first start, or until it was given up."""
    until = row.started_at if row.started_at is not None else row.ended_at
    return max((until or row.submitted_at) - row.submitted_at, 0.0)


def _busy_hours(rows: Iterable[JobRow]) -> Iterator[float]:
    """Of the jobs of which it is known."""
    for row in rows:
        if row.used is not None and row.used.gpu_busy is not None:
            yield gpu_hours(row) * row.used.gpu_busy


_KEYS: dict[Grouping, Callable[[JobRow], str]] = {
    "user": lambda row: row.user,
    "tenant": lambda row: row.tenant,
    "model": lambda row: row.model,
    "name": lambda row: row.name,
    "day": lambda row: strftime("%Y-%m-%d", localtime(row.ended_at or row.submitted_at)),
}


def grouped(rows: Iterable[JobRow], by: Grouping) -> list[UsageRow]:
    """The one that used most first."""
    key, groups = _KEYS[by], dict[str, list[JobRow]]()
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    found = [_usage(name, own) for name, own in groups.items()]
    return sorted(found, key=lambda own: (-own.gpu_hours, own.key))


def _usage(name: str, rows: list[JobRow]) -> UsageRow:
    waits = sorted(map(waited_s, rows))
    return UsageRow(
        key=name,
        jobs=len(rows),
        finished=sum(row.phase == "finished" for row in rows),
        failed=sum(row.phase == "failed" for row in rows),
        cancelled=sum(row.phase == "cancelled" for row in rows),
        gpu_hours=sum(map(gpu_hours, rows)),
        busy_gpu_hours=sum(busy) if (busy := [*_busy_hours(rows)]) else None,
        cpu_hours=sum(row.used.cpu_s for row in rows if row.used is not None) / 3600.0,
        lost_gpu_hours=sum(row.lost_gpu_s for row in rows) / 3600.0,
        mean_wait_s=fmean(waits),
        p90_wait_s=quantile(waits, 0.9),
        preemptions=sum(row.preemptions for row in rows),
        energy_kwh=None,
        money=None,
    )


_COLUMNS: dict[str, Callable[[JobRow], object]] = {
    "id": lambda row: row.id,
    "name": lambda row: row.name,
    "user": lambda row: row.user,
    "tenant": lambda row: row.tenant,
    "model": lambda row: row.model,
    "group": lambda row: row.group,
    "phase": lambda row: row.phase,
    "exit_code": lambda row: row.exit_code,
    "gpus": lambda row: row.gpus,
    "share": lambda row: row.share,
    "submitted_at": lambda row: row.submitted_at,
    "started_at": lambda row: row.started_at,
    "ended_at": lambda row: row.ended_at,
    "waited_s": waited_s,
    "run_s": lambda row: row.run_s,
    "gpu_hours": gpu_hours,
    "lost_gpu_s": lambda row: row.lost_gpu_s,
    "preemptions": lambda row: row.preemptions,
    "cpu_s": lambda row: row.used and row.used.cpu_s,
    "peak_memory_bytes": lambda row: row.used and row.used.peak_memory_bytes,
    "gpu_busy": lambda row: row.used and row.used.gpu_busy,
    "peak_gpu_memory_bytes": lambda row: row.used and row.used.peak_gpu_memory_bytes,
}


def as_csv(rows: Iterable[JobRow]) -> Iterator[str]:
    """In pieces. What a spreadsheet would take for a formula begins with an apostrophe."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for number, row in enumerate(rows):
        writer.writerow([_plain(own(row)) for own in _COLUMNS.values()])
        if number % 500 == 0:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def _plain(value: object) -> object:
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
