"""All facts about one job, as `dovetail show` and its page tell them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import join
from typing import Any

from dovetail.api.forecast_row import Expected, Span
from dovetail.api.job_row import ENDED, GpusHeld, JobDetails, JobRow, Report, UsedTold
from dovetail.client.job_words import gpus_text, memory_text, number, reported
from dovetail.notify.message import COMMAND, MAIL, WEBHOOK
from dovetail.text.counting import numbers_text
from dovetail.text.durations import duration_text
from dovetail.text.promises import promise_text
from dovetail.text.speeds import speeds_text
from dovetail.text.tables import facts_table
from dovetail.text.times import about, ago, clock, moment

_LONGEST = 400
_GUESSED = "a guess: it rests on a job of which none like it has finished"
_LEAST_LOST_S = 0.05  # less is not told
_SET = (MAIL, WEBHOOK, COMMAND)  # ways whose address is in the settings of the user


def details(row: JobRow, expected: Expected | None, now: float) -> list[str]:
    return facts_table(facts(row, expected, now))


def facts(row: JobRow, expected: Expected | None, now: float) -> Iterator[tuple[str, str]]:
    yield "job", f"{row.id} ({row.name})"
    yield "phase", _phase(row)
    yield "user", f"{row.user}, tenant {row.tenant}" if row.tenant else row.user
    yield "group", row.group
    yield "model", row.model
    yield from _asked(row, now)
    yield from _times(row, expected, now)
    yield "attempts", f"{row.attempts}"
    yield "used", used_text(row.used)
    yield "preemptions", _preemptions(row)
    yield "lost", _lost(row.lost_gpu_s)
    yield "progress", _progress(row.last_report, now)
    yield "speed", speeds_text(row.speeds)
    if isinstance(row, JobDetails):
        yield from _told(row)


def _phase(row: JobRow) -> str:
    told = str(row.phase)
    ended_with = f"exit code {row.exit_code}"
    if row.phase in ENDED and row.exit_code is not None and row.reason != ended_with:
        told += f", {ended_with}"
    told = f"{told}: {row.reason}" if row.reason else told
    return f"{told}; what it said last: dovetail logs {row.id}" if row.phase == "failed" else told


def _asked(row: JobRow, now: float) -> Iterator[tuple[str, str]]:
    kinds = f" of kind {' or '.join(row.kinds)}" if row.kinds else ""
    held = "; ".join(f"{_gpus(piece)}node {piece.node}{_limit(piece)}" for piece in row.placement)
    yield "GPUs", gpus_text(row) + kinds + (f" (has {held})" if held else "")
    yield "priority", number(row.priority)
    yield "time limit", "" if row.time_limit_s is None else duration_text(row.time_limit_s)
    yield "deadline", _deadline(row, now)
    yield "after", ", ".join(row.after)
    yield "after the end of", ", ".join(row.after_any)
    yield "after a failure of", ", ".join(row.after_failed)


def _gpus(piece: GpusHeld) -> str:
    return f"GPU {numbers_text(piece.gpus)} of " if piece.gpus else "room on "


def _deadline(row: JobRow, now: float) -> str:
    if row.deadline is None:
        return ""
    promise = row.promise if isinstance(row, JobDetails) else None
    told = "" if promise is None else f", {promise_text(promise, now)}"
    return clock(row.deadline, now) + told


def _limit(piece: GpusHeld) -> str:
    watts = piece.power_limit_watts
    return "" if watts is None else f" at {watts} W at most"


def _times(row: JobRow, expected: Expected | None, now: float) -> Iterator[tuple[str, str]]:
    times = {"submitted": row.submitted_at, "started": row.started_at, "ended": row.ended_at}
    yield from ((what, moment(at, now)) for what, at in times.items() if at is not None)
    yield "ran", duration_text(row.run_s) if row.run_s else ""
    if expected is not None:
        yield "expected start", "" if row.placement else _expected(expected.expected_start, now)
        yield "expected end", _expected(expected.expected_end, now)


def _expected(span: Span | None, now: float) -> str:
    """`18:40, in ~12 min (between 18:31 and 18:55)`"""
    if span is None:
        return ""
    told = f"{clock(span.expected, now)}, {about(span.expected, now)}"
    if span.high is not None:
        told += f" (between {clock(span.low, now)} and {clock(span.high, now)})"
    return f"{told}; {_GUESSED}" if span.guess else told


def used_text(used: UsedTold | None) -> str:
    """`12 min of a processor, 3.2 GB of memory at the most; GPUs busy 84 %, 20.1 GB of theirs`"""
    if used is None:
        return ""
    told = f"{duration_text(used.cpu_s)} of a processor"
    if used.peak_memory_bytes:
        told += f", {memory_text(used.peak_memory_bytes)} of memory at the most"
    if used.gpu_busy is not None:
        told += f"; GPUs busy {used.gpu_busy:.0%}"
        if used.peak_gpu_memory_bytes:
            told += f", {memory_text(used.peak_gpu_memory_bytes)} of their memory"
    return told


def _lost(gpu_s: float) -> str:
    """`40 s of GPU time, to save it, to bring it back, and to do work again`"""
    told = "of GPU time, to save it, to bring it back, and to do work again"
    return f"{duration_text(gpu_s)} {told}" if gpu_s >= _LEAST_LOST_S else ""


def _preemptions(row: JobRow) -> str:
    how = row.preemption
    if not how:
        return str(row.preemptions) if row.preemptions else ""
    by = f" by {how.rung}" if how.rung else ""  # one that was just ended gave way by no rung
    told = f"{row.preemptions}, the last{by}: saved in {duration_text(how.save_s)}"
    if how.restore_s is not None:
        told += f", restored in {duration_text(how.restore_s)}"
    if how.parked_bytes:
        told += f", {how.parked_bytes / 1e9:.1f} GB parked"
    return told


def _progress(report: Report | None, now: float) -> str:
    if not report:
        return ""
    told, metrics = reported(report.step, report.metrics)
    told += [
        f"{name} {value if isinstance(value, str) else format(value, '.6g')}"
        for name, value in metrics.items()
    ]
    thinned = report.left_out
    fewer = f"; {thinned:,} reports were put together with others" if thinned else ""
    return f"{', '.join(told)} ({ago(report.at, now)}{fewer})"


def _told(row: JobDetails) -> Iterator[tuple[str, str]]:
    """For its owner."""
    spec: Mapping[str, Any] = row.spec or {}
    if spec.get("command"):
        yield "command", _cut(join(spec["command"]))
    elif spec.get("run"):
        lines = [line for line in spec["run"].split("\n") if line.strip()]
        yield "script", _cut(f"{lines[0]} …" if len(lines) > 1 else lines[0])
    yield (
        "options",
        "; ".join(
            f"{kind}: {', '.join(f'{gpus} in {duration_text(took)}' for gpus, took in own.items())}"
            for kind, own in (spec.get("options") or {}).items()
        ),
    )
    yield "messages", _messages(spec)
    yield "late cost", spec.get("late_cost") or ""
    yield "folder", row.workdir or ""
    yield "commit", row.commit or ""
    yield "log", row.log or ""


def _messages(spec: Mapping[str, Any]) -> str:
    """`of failure, by mail:ann@example.org`"""
    if not spec.get("notify"):
        return ""
    on = ", ".join(spec.get("notify_on") or ["end"])
    ways = [f"{way} (as your settings say)" if way in _SET else way for way in spec["notify"]]
    return _cut(f"of {on}, by {', '.join(ways)}")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
