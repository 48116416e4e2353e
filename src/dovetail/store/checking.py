"""Is the journal whole? Asked at each start, so the answer must not cost more as history grows."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dovetail.store.ended_jobs import Filter, history
from dovetail.store.journal_errors import is_damage, suspect
from dovetail.store.pages import pages_in_log
from dovetail.store.reader import (
    LINES_AT_ONCE,
    keyed_text,
    last_seq,
    snapshot,
    some_lines_after,
)
from dovetail.store.sqlite_tables import PAGE, log_of

_SMALL = 4 << 20  # a file this small is checked wholly, in some hundredths of a second


def find_damage(db: sqlite3.Connection, path: Path) -> str:
    """What is wrong, or nothing. A large file is checked where the next start depends on it: that no
    page is missing, that the last snapshot and all entries after it are as they were written. The
    rest is checked when it is read, and wholly at the start after damage was noticed."""
    thorough = suspect(path).exists() or path.stat().st_size <= _SMALL
    try:
        return (
            _missing_pages(db, path)
            or (_unsound(db) if thorough else "")
            or _unreadable(db, from_the_first=thorough)
        )
    except Exception as error:
        if not is_damage(error):
            raise
        return str(error)


def _missing_pages(db: sqlite3.Connection, path: Path) -> str:
    (count,) = db.execute("PRAGMA page_count").fetchone()
    there = path.stat().st_size // PAGE
    if there >= count:
        return ""
    missing = set(range(there + 1, count + 1)).difference(pages_in_log(log_of(path)))
    return f"{len(missing)} of {count} pages are missing" if missing else ""


def _unsound(db: sqlite3.Connection) -> str:
    (answer,) = db.execute("PRAGMA quick_check(1)").fetchone()
    return "" if answer == "ok" else " ".join(str(answer).split())


def _unreadable(db: sqlite3.Connection, *, from_the_first: bool) -> str:
    snapshots = [seq for (seq,) in db.execute("SELECT seq FROM snapshots ORDER BY seq DESC")]
    for seq in snapshots if from_the_first else snapshots[:1]:
        snapshot(db, seq)
    if keyed_text(db, "meta", "epoch") is None:
        return "it does not say when it began"
    if from_the_first:
        _read_records(db)
    return _gap(db, snapshots[0] if snapshots else 0, from_the_first)


def _read_records(db: sqlite3.Connection) -> None:
    for table, key in (("specs", "job_id"), ("meta", "key")):
        for (value,) in db.execute(f"SELECT {key} FROM {table}").fetchall():
            keyed_text(db, table, value)
    history(db, Filter(), -1, None)


def _gap(db: sqlite3.Connection, start: int, from_the_first: bool) -> str:
    """Entries before the last snapshot may have been pruned; after it each follows the one before."""
    expected, seq = start + 1, 0 if from_the_first else start
    while lines := some_lines_after(db, seq, LINES_AT_ONCE):
        for seq, _ in lines:
            if seq > start:
                if seq != expected:
                    return f"entry {expected} is missing"
                expected += 1
    return "" if last_seq(db) == expected - 1 else f"entry {expected} is missing"
