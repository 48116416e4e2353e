"""Salvage: the readable part of a damaged journal becomes a sound one; the damaged journal is kept."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dovetail.store.ended_jobs import EndedJob
from dovetail.store.joining import apply, number_row
from dovetail.store.journal_errors import JournalUnusable, journal_full, suspect
from dovetail.store.pages import Value, rows
from dovetail.store.reader import keyed_text
from dovetail.store.sqlite_tables import (
    NAME,
    checksum,
    connect,
    create,
    index_of,
    log_of,
    move,
    put_meta,
    remove,
    sync,
)
from dovetail.store.tail import Commit, commits, last_commit


def salvage(path: Path, damage: str) -> str:
    """Replace the journal by what can be read of it. Returns what to tell the operator."""
    _check_room(path)
    copy = path.with_name(f"{path.name}.salvaging")
    remove(copy)
    try:
        create(copy)
        saved = _fill(copy, path)
        if not saved:
            raise JournalUnusable(
                f"{path} cannot be read as a journal of Dovetail ({damage}) and no entry could be "
                "salvaged; put a backup in its place, or move it and its .tail away to start anew"
            )
        move(copy, _ready(path))
    finally:
        remove(copy)
    aside = swap(path)
    return (
        f"the journal {path} was damaged ({damage}); {saved}; the damaged file is kept as {aside}"
    )


def _check_room(path: Path) -> None:
    size = sum(each.stat().st_size for each in (path, log_of(path)) if each.exists())
    if shutil.disk_usage(path.parent).free < size:
        reason = OSError("it is damaged, and to salvage it takes a copy")
        raise journal_full(path, reason, size // 2, "it is left as it is")


def swap(path: Path) -> Path | None:
    """Put a salvaged journal, if there is one, in the place of the damaged. Interrupted at any point,
    it can be done again: the log goes first, so that it never meets a file that it is not of."""
    if not _ready(path).exists():
        return None
    aside = _free_name(path)
    index_of(path).unlink(missing_ok=True)
    for source, target in ((log_of(path), log_of(aside)), (path, aside)):
        if source.exists():
            os.replace(source, target)
            sync(path.parent)
    move(_ready(path), path)
    suspect(path).unlink(missing_ok=True)
    return aside


def _ready(path: Path) -> Path:
    return path.with_name(f"{path.name}.salvaged")


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return aside


# ---------------------------------------------------------------------------------------- the rows


def _fill(copy: Path, damaged: Path) -> str:
    """Returns what was saved in words, or nothing if nothing was. Without a log: what is committed
    is then in the one file that will be moved."""
    db = connect(copy)
    try:
        db.execute("PRAGMA journal_mode=DELETE")
        db.execute("BEGIN")
        for statement, values in _statements(damaged):
            db.execute(statement, values)
        for commit in _commits_of(db, damaged):
            apply(db, commit.rows)
            apply(db, {"meta": [number_row(commit.number)]})
        highest, last, before = _cut_at_first_gap(db)
        if not last:
            return ""
        if keyed_text(db, "meta", "epoch") is None:
            put_meta(db, "epoch", repr(_epoch_by_last_entry(db)))
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode=WAL")
    finally:
        db.close()
    told = f"entries up to {last} were salvaged"
    if highest > last:
        told += f" and {last + 1} to {highest} were not, as the first of these is gone"
    return told if not before else f"{told}, and {before} before the last snapshot are gone"


def _commits_of(db: sqlite3.Connection, damaged: Path) -> Iterator[Commit]:
    """All of its tail, which is never behind it; of the last journal that wrote there."""
    name = keyed_text(db, "meta", NAME)
    last = last_commit(damaged)
    if name is None and last is not None:
        name = last.journal
    return (commit for commit in commits(damaged) if name in (None, commit.journal))


def _statements(damaged: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Of two versions of a row the later one counts: every replacement gets a higher number."""
    for number, values in rows(damaged):
        table = _table_of(number, values)
        if table in ("entries", "snapshots"):
            yield f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", (number, *values[1:])
        elif table:
            key = "key" if table == "meta" else "job_id"
            marks = ", ".join("?" * len(values))
            yield (
                f"INSERT OR REPLACE INTO {table} (rowid, {_COLUMNS[table]}) SELECT ?, {marks} "
                f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {key} = ? AND rowid > ?)",
                (number, *values, values[0], number),
            )


_COLUMNS = {
    "specs": "job_id, spec, crc",
    "meta": "key, value, crc",
    "ended": "job_id, seq, ended_at, user, name, row, crc",
}


def _table_of(number: int, values: Sequence[Value]) -> str:
    """Which table the row was of, by its checksum; none if that is wrong."""
    match values:
        case [None, str(text), int(crc)]:
            return _matching(("entries", "snapshots"), number, text, crc)
        case [str(key), str(text), int(crc)]:
            return _matching(("specs", "meta"), key, text, crc)
        case [str(job), int(seq), int(at) | float(at), str(user), str(name), str(row), int(crc)]:
            return "ended" if EndedJob(job, seq, at, user, name, row).crc == crc else ""
    return ""


def _matching(tables: tuple[str, ...], key: int | str, text: str, crc: int) -> str:
    return next((table for table in tables if checksum(table, key, text) == crc), "")


def _cut_at_first_gap(db: sqlite3.Connection) -> tuple[int, int, int]:
    """The highest entry found, the last one kept, and how many are missing before the last snapshot.
    State is rebuilt from that snapshot and the entries after it, so there nothing may be missing."""
    (start,) = db.execute("SELECT ifnull(max(seq), 0) FROM snapshots").fetchone()
    (first, known, highest) = db.execute(
        "SELECT ifnull(min(seq), 0), count(*) FILTER (WHERE seq <= ?), ifnull(max(seq), 0) FROM entries",
        (start,),
    ).fetchone()
    last = start
    for (seq,) in db.execute("SELECT seq FROM entries WHERE seq > ? ORDER BY seq", (start,)):
        if seq != last + 1:
            break
        last = seq
    db.execute("DELETE FROM entries WHERE seq > ?", (last,))
    db.execute("DELETE FROM ended WHERE seq > ?", (last,))
    return highest, last, start - first + 1 - known if known else 0


def _epoch_by_last_entry(db: sqlite3.Connection) -> float:
    """The clock of the journal cannot be read: let it go on from the last entry now."""
    found = db.execute("SELECT line FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    at = json.loads(found[0]).get("at", 0.0) if found else 0.0
    return time.time() - float(at)
