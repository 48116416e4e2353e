"""One job in full, as lines of a name and what there is to say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import join
from typing import Any

from dovetail.cli.job_columns import gpus_text, number
from dovetail.client.follow import ENDED
from dovetail.text.counting import numbers_text
from dovetail.text.durations import duration_text
from dovetail.text.tables import Row, facts_table
from dovetail.text.times import about, ago, clock, moment

_LONGEST = 400


def details(row: Row, now: float) -> list[str]:
    return facts_table(_facts(row, now))


def _facts(row: Row, now: float) -> Iterator[tuple[str, str]]:
    yield "job", f"{row['id']} ({row['name']})"
    yield "phase", _phase(row)
    yield "user", f"{row['user']}, tenant {row['tenant']}" if row["tenant"] else row["user"]
    yield "group", row["group"]
    yield "model", row.get("model", "")  # jobs of older daemons have none
    yield from _asked(row, now)
    yield from _times(row, now)
    yield "attempts", f"{row['attempts']}"
    yield "preemptions", _preemptions(row)
    yield "progress", _progress(row["last_report"], now)
    yield from _told(row)


def _phase(row: Row) -> str:
    told = str(row["phase"])
    if row["phase"] in ENDED and row["exit_code"] is not None:
        told += f", exit code {row['exit_code']}"
    return f"{told}: {row['reason']}" if row["reason"] else told


def _asked(row: Row, now: float) -> Iterator[tuple[str, str]]:
    kinds = f" of kind {' or '.join(row['kinds'])}" if row["kinds"] else ""
    held = "; ".join(
        f"{numbers_text(piece['gpus'])} of node {piece['node']}{_limit(piece)}"
        for piece in row["placement"]
    )
    yield "GPUs", gpus_text(row) + kinds + (f" (has {held})" if held else "")
    yield "priority", number(row["priority"])
    yield "time limit", "" if row["time_limit_s"] is None else duration_text(row["time_limit_s"])
    yield "deadline", "" if row["deadline"] is None else clock(row["deadline"], now)
    yield "after", ", ".join(row["after"])


def _limit(piece: Row) -> str:
    watts = piece["power_limit_watts"]
    return "" if watts is None else f" at {watts} W at most"


def _times(row: Row, now: float) -> Iterator[tuple[str, str]]:
    for what in ("submitted", "started", "ended"):
        at = row[f"{what}_at"]
        yield what, "" if at is None else moment(at, now)
    yield "ran", duration_text(row["run_s"]) if row["run_s"] else ""
    for what in ("end",) if row["placement"] else ("start", "end"):
        yield f"expected {what}", _expected(row.get(f"expected_{what}"), now)


def _expected(found: Mapping[str, Any] | None, now: float) -> str:
    """`18:40, in ~12 min (between 18:31 and 18:55)`"""
    if not found or found.get("expected") is None:
        return ""
    told = f"{clock(found['expected'], now)}, {about(found['expected'], now)}"
    low, high = found.get("low"), found.get("high")
    if low is None or high is None:
        return told
    return f"{told} (between {clock(low, now)} and {clock(high, now)})"


def _preemptions(row: Row) -> str:
    how = row["preemption"]
    if not how:
        return str(row["preemptions"]) if row["preemptions"] else ""
    by = f" by {how['rung']}" if how["rung"] else ""  # one that was just ended gave way by no rung
    told = f"{row['preemptions']}, the last{by}: saved in {duration_text(how['save_s'])}"
    if how["restore_s"] is not None:
        told += f", restored in {duration_text(how['restore_s'])}"
    if how["parked_bytes"]:
        told += f", {how['parked_bytes'] / 1e9:.1f} GB parked"
    return told


def _progress(report: Mapping[str, Any] | None, now: float) -> str:
    if not report:
        return ""
    told = [] if report["step"] is None else [f"step {number(report['step'])}"]
    told += [
        f"{name} {value if isinstance(value, str) else format(value, '.6g')}"
        for name, value in report["metrics"].items()
    ]
    thinned = report.get("left_out", 0)
    fewer = f"; {thinned:,} reports were put together with others" if thinned else ""
    return f"{', '.join(told)} ({ago(report['at'], now)}{fewer})"


def _told(row: Row) -> Iterator[tuple[str, str]]:
    """What its owner may see."""
    spec = row.get("spec") or {}
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
    yield "late cost", spec.get("late_cost") or ""
    yield "folder", row.get("workdir") or ""
    yield "log", row.get("log") or ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
