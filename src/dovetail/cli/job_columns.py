"""The columns of listings: what each tells of a row that the daemon sent."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from dovetail.client.follow import ENDED
from dovetail.text.counting import counted, numbers_text
from dovetail.text.durations import duration_text
from dovetail.text.tables import Column, Row, phase_style
from dovetail.text.times import about, ago, clock

DEFAULT = ("id", "name", "user", "phase", "gpus", "prio", "for", "expected", "note")
HISTORY = ("id", "name", "user", "phase", "exit", "gpus", "ended", "waited", "ran", "note")


def chosen(text: str | None, default: tuple[str, ...]) -> list[Column]:
    """The columns named by `-o id,name`."""
    names = [own.strip() for own in text.split(",")] if text else list(default)
    for name in names:
        if name not in COLUMNS:
            raise click.BadParameter(f"{name!r} is not a column; there are {', '.join(COLUMNS)}")
    return [COLUMNS[name] for name in names]


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def gpus_text(row: Row) -> str:
    """How many, or which part of one."""
    return f"{row['share']:.3g}" if row["share"] != 1.0 and row["gpus"] else str(row["gpus"])


def where(row: Row) -> str:
    """The GPUs it holds; the node is named only where there are several."""
    pieces = row["placement"]
    held = [piece for piece in pieces or () if piece["gpus"]]  # none: a job of processors alone
    if len(held) == 1 == len(pieces):
        return f"on {numbers_text(held[0]['gpus'])}"
    return " ".join(f"{piece['node']}:{numbers_text(piece['gpus'])}" for piece in held)


def progress(row: Row, most: int = 3) -> str:
    """`step 1200  loss 0.231`"""
    report = row["last_report"]
    if not report:
        return ""
    told = [] if report["step"] is None else [f"step {number(report['step'])}"]
    for name, value in list(report["metrics"].items())[:most]:
        told.append(f"{name} {value if isinstance(value, str) else format(value, '.4g')}")
    return " ".join(told)


def note(row: Row) -> str:
    """The one thing to know beside the phase."""
    told = [where(row), progress(row), "" if row["phase"] == "finished" else row["reason"]]
    return "; ".join(own for own in told if own)


def lasted(row: Row) -> float:
    """How long it has been in its phase: it has run so long, or waited so long."""
    if row["phase"] in ("running", "suspended") or row["phase"] in ENDED:
        return float(row["run_s"])
    return time.time() - float(row["submitted_at"])


def waited(row: Row) -> str:
    until = row["started_at"] or row["ended_at"] or time.time()
    return duration_text(until - row["submitted_at"])


def expected(row: Row) -> str:
    """`end in ~12 min`, `start in ~3 min`, `start unknown`."""
    what = "end" if row["placement"] else "start"
    field = f"expected_{what}"
    found: Mapping[str, Any] | None = row.get(field)
    if not found or found.get("expected") is None:
        return f"{what} unknown" if field in row and row["ended_at"] is None else ""
    return f"{what} {about(found['expected'], time.time())}"


def as_entities(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A study is one in the line: of its trials that wait the first is shown, and says how many."""
    waiting: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row.get("trial") is not None and not row["placement"]:
            waiting.setdefault(row["group"], []).append(row)
    more = {id(own[0]): len(own) - 1 for own in waiting.values()}
    hidden = {id(row) for own in waiting.values() for row in own[1:]}
    return [
        {**row, "reason": _with_others(row, more[id(row)])} if more.get(id(row)) else row
        for row in rows
        if id(row) not in hidden
    ]


def _with_others(row: Row, more: int) -> str:
    told = f"and {counted(more, 'more trial')} of its study"
    return f"{row['reason']}; {told}" if row["reason"] else told


def _limit(row: Row) -> str:
    return "" if row["time_limit_s"] is None else duration_text(row["time_limit_s"])


def _when(field: str) -> Column:
    def tell(row: Row) -> str:
        at = row[f"{field}_at"]
        return "" if at is None else clock(at, time.time())

    return Column(field.upper(), tell)


COLUMNS = {
    "id": Column("ID", lambda row: str(row["id"])),
    "name": Column("NAME", lambda row: str(row["name"]), least=12),
    "user": Column("USER", lambda row: str(row["user"]), least=8),
    "tenant": Column("TENANT", lambda row: str(row["tenant"]), least=8),
    "group": Column("GROUP", lambda row: str(row["group"]), least=8),
    "phase": Column("PHASE", lambda row: str(row["phase"]), style=phase_style),
    "exit": Column("EXIT", lambda row: number(row["exit_code"]), right=True),
    "gpus": Column("GPUS", gpus_text, right=True),
    "kinds": Column("KINDS", lambda row: ",".join(row["kinds"]), least=6),
    "prio": Column("PRIO", lambda row: number(row["priority"]), right=True),
    "for": Column("FOR", lambda row: duration_text(lasted(row)), right=True),
    "ran": Column("RAN", lambda row: duration_text(row["run_s"]), right=True),
    "waited": Column("WAITED", waited, right=True),
    "expected": Column("EXPECTED", expected),
    "note": Column("NOTE", note, least=10),
    "reason": Column("REASON", lambda row: str(row["reason"]), least=12),
    "where": Column("WHERE", where, least=8),
    "progress": Column("PROGRESS", lambda row: progress(row, most=9), least=12),
    "submitted": _when("submitted"),
    "started": _when("started"),
    "ended": _when("ended"),
    "age": Column("AGE", lambda row: ago(row["submitted_at"], time.time()), right=True),
    "preemptions": Column("PREEMPTED", lambda row: str(row["preemptions"]), right=True),
    "attempts": Column("ATTEMPTS", lambda row: str(row["attempts"]), right=True),
    "limit": Column("LIMIT", _limit, right=True),
    "after": Column("AFTER", lambda row: ",".join(row["after"]), least=8),
    "deadline": Column(
        "DEADLINE",
        lambda row: "" if row["deadline"] is None else clock(row["deadline"], time.time()),
    ),
}


def reason_to_wait(row: Row) -> str:
    return f" ({row['reason']})" if row["reason"] and row["placement"] == [] else ""
