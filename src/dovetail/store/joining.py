"""Rows into the database: those of a commit, and those that only the tail still has."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from uuid import uuid4

from dovetail.store.reader import keyed_text
from dovetail.store.sqlite_tables import NAME, checksum, connect, put_meta
from dovetail.store.tail import (
    Commit,
    PreparedTail,
    Rows,
    Tail,
    commits,
    forget_prepared,
    last_commit,
    prepare,
    set_aside,
    tails_of,
)

NUMBER = "commits"  # of meta: how often this journal was written
FORGOTTEN = "forgotten"  # pairs of a table and a key: rows that are no longer kept
KEYS: Final = {"specs": "job_id", "ended": "job_id", "meta": "key"}
_INSERTS: Final = {
    "entries": "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)",
    "snapshots": "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)",
    "specs": "INSERT OR REPLACE INTO specs VALUES (?, ?, ?)",
    "ended": "INSERT OR REPLACE INTO ended VALUES (?, ?, ?, ?, ?, ?, ?)",
    "meta": "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)",
}


def apply(db: sqlite3.Connection, rows: Rows) -> None:
    """Doing it twice changes nothing."""
    for table, own in rows.items():
        if table == FORGOTTEN:
            for name, key in own:
                db.execute(f"DELETE FROM {name} WHERE {KEYS[str(name)]} = ?", (key,))
        elif own:
            db.executemany(_INSERTS[table], own)


def name_of(db: sqlite3.Connection) -> str:
    """The name of the journal; an older journal gets one now."""
    name = keyed_text(db, "meta", NAME)
    if name is None:
        name = uuid4().hex
        put_meta(db, NAME, name)
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    return name


def number_of(db: sqlite3.Connection) -> int:
    return int(keyed_text(db, "meta", NUMBER) or "0")


def number_row(number: int) -> tuple[object, ...]:
    return NUMBER, str(number), checksum("meta", NUMBER, str(number))


def join(db: sqlite3.Connection, path: Path) -> tuple[Tail, str]:
    """Bring in what only the tail has, and make a tail for what comes. What the operator should know:
    as a rule nothing. The last commit alone may be missing in the database after any kill."""
    forget_prepared(path)
    name, number = name_of(db), number_of(db)
    tail, notice = Tail(path, name), ""
    last = last_commit(path)
    if last is not None and (last.journal, last.number) == (name, number) and tail.resume():
        return tail, ""
    if last is not None and last.journal != name:
        aside = set_aside(path)
        notice = f"{path}.tail was of another journal and is kept as {aside}"
    elif tails_of(path):
        notice = _catch_up(db, path, name, number)
    tail.begin(number_of(db), head(db))
    return tail, notice


def _catch_up(db: sqlite3.Connection, path: Path, name: str, number: int) -> str:
    found = _following(path, name, number)
    if not found:
        return ""
    skipped = found[0].number - number - 1 if found[0].is_first else 0
    db.execute("BEGIN IMMEDIATE")
    try:
        for commit in found:
            apply(db, commit.rows)
        apply(db, {"meta": [number_row(found[-1].number)]})
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
    if len(found) == 1 and not skipped:
        return ""
    told = (
        f"the journal {path} had lost its last {len(found) + skipped} commits (is its -wal file "
        "cut, removed or replaced?); they were taken from its copy beside it"
    )
    return f"{told}, but for rows of jobs that had ended by then" if skipped else told


def _following(path: Path, name: str, number: int) -> list[Commit]:
    """The commits after that one, without a gap, unless one says what there was before."""
    found: list[Commit] = []
    for commit in commits(path):
        if commit.journal != name or commit.number <= number:
            continue
        if commit.number != number + 1 and not commit.is_first:
            continue
        if commit.is_first and commit.number != number + 1:
            found.clear()
        found.append(commit)
        number = commit.number
    return found


def prepared_tail(path: Path) -> PreparedTail | None:
    """For the writer, by somebody else: the next tail, of what there is on disk now."""
    with closing(connect(path, "ro")) as db:
        db.execute("BEGIN")
        name, number, rows = name_of(db), number_of(db), head(db)
    return prepare(path, name, number, rows)


def head(db: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """What a start reads: the last snapshot, the entries after it, and what is not over yet."""
    last = db.execute("SELECT * FROM snapshots ORDER BY seq DESC LIMIT 1").fetchall()
    since = last[0][0] if last else 0
    entries = db.execute("SELECT * FROM entries WHERE seq > ? ORDER BY seq", (since,))
    return {
        "snapshots": last,
        "entries": entries.fetchall(),
        "specs": list(open_specs(db)),
        "meta": db.execute("SELECT * FROM meta WHERE key NOT GLOB 'mark *'").fetchall(),
    }


def open_specs(db: sqlite3.Connection) -> Iterator[tuple[object, ...]]:
    yield from db.execute(
        "SELECT * FROM specs WHERE NOT EXISTS "
        "(SELECT 1 FROM ended WHERE ended.job_id = specs.job_id)"
    )
