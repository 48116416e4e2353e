"""The jobs that have ended, one row each, newest first."""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass

from dovetail.store.journal_errors import BadRow
from dovetail.store.sqlite_tables import checksum


@dataclass(frozen=True, slots=True)
class EndedJob:
    """`seq` is the entry that ended the job, `row` what `history` shows of it, as JSON."""

    job_id: str
    seq: int
    ended_at: float
    user: str
    name: str
    row: str

    @property
    def crc(self) -> int:
        rest = f"{self.seq}\n{float(self.ended_at)!r}\n{self.user}\n{self.name}\n{self.row}"
        return checksum("ended", self.job_id, rest)

    def columns(self) -> tuple[object, ...]:
        return (*astuple(self), self.crc)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which ended jobs are meant. `name` and `job_id` may be patterns with `*` and `?`."""

    user: str | None = None
    name: str | None = None
    since: float | None = None
    until: float | None = None
    job_id: str | None = None


def history(
    db: sqlite3.Connection, only: Filter, limit: int, before: EndedJob | None
) -> list[EndedJob]:
    """At most `limit`, from the newest, or from the one that ended just before `before`."""
    conditions = _conditions(only)
    if before is not None:
        conditions["(ended_at, seq) < (?, ?)"] = (before.ended_at, before.seq)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    values = [value for group in conditions.values() for value in group]
    rows = db.execute(
        "SELECT job_id, seq, ended_at, user, name, row, crc FROM ended "
        f"{where} ORDER BY ended_at DESC, seq DESC LIMIT ?",
        [*values, limit],
    )
    return [_checked(row) for row in rows.fetchall()]


def described(
    db: sqlite3.Connection, before: float, limit: int, after: EndedJob | None
) -> list[EndedJob]:
    """By way of the descriptions, which are few, not of the rows, which are kept for ever."""
    start = (after.ended_at, after.seq) if after is not None else (-1e300, 0)
    rows = db.execute(
        "SELECT ended.* FROM specs CROSS JOIN ended USING (job_id) WHERE ended_at < ? "
        "AND (ended_at, ended.seq) > (?, ?) ORDER BY ended_at, ended.seq LIMIT ?",
        (min(before, 1e300), *start, limit),
    )
    return [_checked(row) for row in rows.fetchall()]


def _conditions(only: Filter) -> dict[str, tuple[object, ...]]:
    wanted = {
        "job_id GLOB ?" if _is_pattern(only.job_id) else "job_id = ?": only.job_id,
        "user = ?": only.user,
        "name GLOB ?" if _is_pattern(only.name) else "name = ?": only.name,
        "ended_at >= ?": only.since,
        "ended_at < ?": only.until,
    }
    return {condition: (value,) for condition, value in wanted.items() if value is not None}


def _is_pattern(text: str | None) -> bool:
    return text is not None and any(sign in text for sign in "*?[")


def _checked(row: tuple[str, int, float, str, str, str, int]) -> EndedJob:
    ended = EndedJob(*row[:6])
    if ended.crc != row[6]:
        raise BadRow(f"the record of job {ended.job_id!r}, which has ended, was altered")
    return ended
