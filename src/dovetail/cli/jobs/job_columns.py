"""The columns of lists of jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import click

from dovetail.api.forecast_row import Span
from dovetail.api.job_row import ENDED, JobRow, UsedTold
from dovetail.cli.reach import ListedJob
from dovetail.client.job_words import gpus_text, memory_text, number, reported
from dovetail.text.counting import counted, numbers_text
from dovetail.text.durations import duration_text
from dovetail.text.tables import PHASE_STYLES, Column
from dovetail.text.times import about, ago, clock

DEFAULT = ("id", "name", "user", "phase", "gpus", "prio", "for", "expected", "note")
GUESS = " ?"
HISTORY = (
    *("id", "name", "user", "phase", "exit", "gpus", "ended", "waited", "ran"),
    *("cpu", "memory", "note"),
)


def chosen(text: str | None, default: tuple[str, ...]) -> list[Column[ListedJob]]:
    """The columns named by `-o id,name`."""
    names = [own.strip() for own in text.split(",")] if text else list(default)
    for name in names:
        if name not in COLUMNS:
            raise click.BadParameter(f"{name!r} is not a column; there are {', '.join(COLUMNS)}")
    return [COLUMNS[name] for name in names]


def where(row: JobRow) -> str:
    """The GPUs it holds; the node is named only where there are several."""
    pieces = row.placement
    held = [piece for piece in pieces if piece.gpus]  # none: a job of processors alone
    if len(held) == 1 == len(pieces):
        return f"on {numbers_text(held[0].gpus)}"
    return " ".join(f"{piece.node}:{numbers_text(piece.gpus)}" for piece in held)


def progress(row: JobRow, most: int = 3) -> str:
    """`step 1200 of 5000 loss 0.231`"""
    report = row.last_report
    if not report:
        return ""
    told, metrics = reported(report.step, report.metrics)
    for name, value in list(metrics.items())[:most]:
        told.append(f"{name} {value if isinstance(value, str) else format(value, '.4g')}")
    return ", ".join(told)


def note(row: JobRow) -> str:
    """The one thing to know beside the phase."""
    told = [where(row), progress(row), "" if row.phase == "finished" else row.reason]
    return "; ".join(own for own in told if own)


def lasted(row: JobRow) -> float:
    """How long it has been in its phase: it has run so long, or waited so long."""
    if row.phase in ("running", "suspended") or row.phase in ENDED:
        return row.run_s
    return time.time() - row.submitted_at


def waited(row: JobRow) -> str:
    until = row.started_at or row.ended_at or time.time()
    return duration_text(until - row.submitted_at)


def expected(row: ListedJob) -> str:
    """`end in ~12 min`, `start in ~3 min ?` if that is a guess, `start unknown`."""
    if row.expected is None or row.job.ended_at is not None:
        return ""
    span = span_shown(row)
    told = "unknown" if span is None else about(span.expected, time.time())
    mark = GUESS if span is not None and span.guess else ""
    return f"{'end' if row.job.placement else 'start'} {told}{mark}"


def span_shown(row: ListedJob) -> Span | None:
    """The next thing that is expected of it."""
    found = row.expected
    if found is None:
        return None
    return found.expected_end if row.job.placement else found.expected_start


def as_entities(rows: Sequence[JobRow]) -> list[JobRow]:
    """A study is one entry of the queue: of its waiting trials the first is shown, with their number."""
    waiting: dict[str, list[JobRow]] = {}
    for row in rows:
        if row.trial is not None and not row.placement:
            waiting.setdefault(row.group, []).append(row)
    more = {id(own[0]): len(own) - 1 for own in waiting.values()}
    hidden = {id(row) for own in waiting.values() for row in own[1:]}
    return [
        replace(row, reason=_with_others(row, more[id(row)])) if more.get(id(row)) else row
        for row in rows
        if id(row) not in hidden
    ]


def _with_others(row: JobRow, more: int) -> str:
    told = f"and {counted(more, 'more trial')} of its study"
    return f"{row.reason}; {told}" if row.reason else told


def _limit(row: JobRow) -> str:
    return "" if row.time_limit_s is None else duration_text(row.time_limit_s)


def _used(row: ListedJob, told: Callable[[UsedTold], str]) -> str:
    return "" if row.job.used is None else told(row.job.used)


def _cpu(used: UsedTold) -> str:
    return duration_text(used.cpu_s)


def _memory(used: UsedTold) -> str:
    return memory_text(used.peak_memory_bytes) if used.peak_memory_bytes else ""


def _gpu_use(used: UsedTold) -> str:
    return "" if used.gpu_busy is None else f"{used.gpu_busy:.0%}"


def _gpu_memory(used: UsedTold) -> str:
    return memory_text(used.peak_gpu_memory_bytes) if used.peak_gpu_memory_bytes else ""


def _style(row: ListedJob) -> str:
    return PHASE_STYLES.get(row.job.phase, "")


def _time(at: float | None) -> str:
    return "" if at is None else clock(at, time.time())


COLUMNS: dict[str, Column[ListedJob]] = {
    "id": Column("ID", lambda row: row.job.id),
    "name": Column("NAME", lambda row: row.job.name, least=12),
    "user": Column("USER", lambda row: row.job.user, least=8),
    "tenant": Column("TENANT", lambda row: row.job.tenant, least=8),
    "group": Column("GROUP", lambda row: row.job.group, least=8),
    "phase": Column("PHASE", lambda row: row.job.phase, style=_style),
    "exit": Column("EXIT", lambda row: number(row.job.exit_code), right=True),
    "gpus": Column("GPUS", lambda row: gpus_text(row.job), right=True),
    "kinds": Column("KINDS", lambda row: ",".join(row.job.kinds), least=6),
    "prio": Column("PRIO", lambda row: number(row.job.priority), right=True),
    "for": Column("FOR", lambda row: duration_text(lasted(row.job)), right=True),
    "ran": Column("RAN", lambda row: duration_text(row.job.run_s), right=True),
    "waited": Column("WAITED", lambda row: waited(row.job), right=True),
    "expected": Column("EXPECTED", expected),
    "note": Column("NOTE", lambda row: note(row.job), least=10),
    "reason": Column("REASON", lambda row: row.job.reason, least=12),
    "where": Column("WHERE", lambda row: where(row.job), least=8),
    "progress": Column("PROGRESS", lambda row: progress(row.job, most=9), least=12),
    "submitted": Column("SUBMITTED", lambda row: _time(row.job.submitted_at)),
    "started": Column("STARTED", lambda row: _time(row.job.started_at)),
    "ended": Column("ENDED", lambda row: _time(row.job.ended_at)),
    "age": Column("AGE", lambda row: ago(row.job.submitted_at, time.time()), right=True),
    "preemptions": Column("PREEMPTED", lambda row: str(row.job.preemptions), right=True),
    "lost": Column("LOST", lambda row: duration_text(row.job.lost_gpu_s), right=True),
    "attempts": Column("ATTEMPTS", lambda row: str(row.job.attempts), right=True),
    "limit": Column("LIMIT", lambda row: _limit(row.job), right=True),
    "after": Column("AFTER", lambda row: ",".join(row.job.after), least=8),
    "cpu": Column("CPU", lambda row: _used(row, _cpu), right=True),
    "memory": Column("MEMORY", lambda row: _used(row, _memory), right=True),
    "gpu-use": Column("GPU-USE", lambda row: _used(row, _gpu_use), right=True),
    "gpu-memory": Column("GPU-MEMORY", lambda row: _used(row, _gpu_memory), right=True),
    "deadline": Column("DEADLINE", lambda row: _time(row.job.deadline)),
}


def reason_to_wait(row: JobRow) -> str:
    return f" ({row.reason})" if row.reason and not row.placement else ""
