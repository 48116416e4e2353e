"""Reading the journal: for its owner, and for other threads over a connection of their own."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Final, final

from dovetail.store.ended_jobs import EndedJob, Filter, described, history
from dovetail.store.journal_errors import BadRow, noticing_damage
from dovetail.store.sqlite_tables import checksum, connect, move_log

LINES_AT_ONCE = 1000


@final
class JournalReader:
    """Sees what has been committed. Threads may share one; they then wait for each other.

    Every answer is read to its end at once: a transaction left open would keep the log from being
    reused, and it would grow without end.
    """

    def __init__(self, path: Path, db: sqlite3.Connection | None = None) -> None:
        self._path: Final = path
        self._db: Final = db or connect(path, "ro")
        self._lock: Final = Lock()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def move_log(self) -> bool:
        """Have all that was committed so far in SQLite's own file, on disk. False: not all of it yet,
        since somebody reads. The writer may go on meanwhile."""
        with closing(connect(self._path)) as db:
            return move_log(db)

    def some_lines_after(self, seq: int, limit: int = LINES_AT_ONCE) -> list[tuple[int, str]]:
        with self._lock, noticing_damage(self._path):
            return some_lines_after(self._db, seq, limit)

    def lines_after(self, seq: int) -> Iterator[tuple[int, str]]:
        """All entries after that one, in order; also those committed meanwhile."""
        while lines := self.some_lines_after(seq):
            yield from lines
            seq = lines[-1][0]

    def last_seq(self) -> int:
        with self._lock, noticing_damage(self._path):
            return last_seq(self._db)

    def snapshots(self) -> Iterator[tuple[int, str]]:
        """Newest first, so that an unreadable one can be skipped."""
        with self._lock, noticing_damage(self._path):
            known = self._db.execute("SELECT seq FROM snapshots ORDER BY seq DESC").fetchall()
        for (seq,) in known:
            with self._lock, noticing_damage(self._path):
                found = snapshot(self._db, seq)
            yield seq, found

    def spec(self, job_id: str) -> str | None:
        with self._lock, noticing_damage(self._path):
            return keyed_text(self._db, "specs", job_id)

    def meta(self, key: str) -> str | None:
        with self._lock, noticing_damage(self._path):
            return keyed_text(self._db, "meta", key)

    def metas(self, prefix: str) -> dict[str, str]:
        """All values whose keys begin so."""
        with self._lock, noticing_damage(self._path):
            found = self._db.execute(
                "SELECT key FROM meta WHERE key >= ? AND key < ?", (prefix, prefix + "\uffff")
            )
            keys = [str(row[0]) for row in found.fetchall()]
            texts = {key: keyed_text(self._db, "meta", key) for key in keys}
        return {key: text for key, text in texts.items() if text is not None}

    def seq_before(self, at: float) -> int:
        """The last entry before that time of the journal; 0: all that are kept are later."""
        low, high = self.first_seq(), self.last_seq() + 1
        while low < high:
            middle = (low + high) // 2
            found = self.some_lines_after(middle - 1, 1)
            if found and json.loads(found[0][1])["at"] < at:
                low = middle + 1
            else:
                high = middle
        return max(low - 1, 0)

    def lines_with(self, text: str, after: int, upto: int) -> list[str]:
        """Of these entries those that contain the text."""
        with self._lock, noticing_damage(self._path):
            rows = self._db.execute(
                "SELECT line FROM entries WHERE seq > ? AND seq <= ? AND instr(line, ?) ORDER BY seq",
                (after, upto, text),
            )
            return [line for (line,) in rows.fetchall()]

    def first_seq(self) -> int:
        """The number of the first entry that is kept; 0 if there is none."""
        with self._lock, noticing_damage(self._path):
            (seq,) = self._db.execute("SELECT min(seq) FROM entries").fetchone()
        return seq or 0

    def oldest_snapshot(self) -> int:
        """The entry up to which no start needs any; 0 as long as there are not two snapshots."""
        with self._lock, noticing_damage(self._path):
            found = self._db.execute("SELECT seq FROM snapshots ORDER BY seq DESC").fetchall()
        return int(found[-1][0]) if len(found) > 1 else 0

    def meta_before(self, key: str, prefix: str) -> str | None:
        """The value of the last key with that prefix that is not after `key`."""
        return self._next_meta("key <= ? AND key >= ? ORDER BY key DESC", (key, prefix))

    def meta_after(self, key: str, prefix: str) -> str | None:
        return self._next_meta("key > ? AND key < ? ORDER BY key", (key, prefix + "\uffff"))

    def _next_meta(self, where: str, values: tuple[str, str]) -> str | None:
        with self._lock, noticing_damage(self._path):
            found = self._db.execute(f"SELECT key FROM meta WHERE {where} LIMIT 1", values)
            row = found.fetchone()
            return None if row is None else keyed_text(self._db, "meta", row[0])

    def described(self, before: float, limit: int, after: EndedJob | None = None) -> list[EndedJob]:
        """Ended jobs whose description is still kept, and so their run folder, the oldest first."""
        with self._lock, noticing_damage(self._path):
            return described(self._db, before, limit, after)

    def history(
        self, only: Filter | None = None, limit: int = 100, before: EndedJob | None = None
    ) -> list[EndedJob]:
        with self._lock, noticing_damage(self._path):
            return history(self._db, only or Filter(), limit, before)


def some_lines_after(db: sqlite3.Connection, seq: int, limit: int) -> list[tuple[int, str]]:
    rows = db.execute(
        "SELECT seq, line, crc FROM entries WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)
    ).fetchall()
    for number, line, crc in rows:
        if checksum("entries", number, line) != crc:
            raise BadRow(f"entry {number} was altered")
    return [(number, line) for number, line, _ in rows]


def snapshot(db: sqlite3.Connection, seq: int) -> str:
    text, crc = db.execute("SELECT state, crc FROM snapshots WHERE seq = ?", (seq,)).fetchone()
    if checksum("snapshots", seq, text) != crc:
        raise BadRow(f"the snapshot after entry {seq} was altered")
    return str(text)


def keyed_text(db: sqlite3.Connection, table: str, key: str) -> str | None:
    """A spec or a value of meta: both have a key, a text and a checksum."""
    name = "job_id" if table == "specs" else "key"
    row = db.execute(f"SELECT * FROM {table} WHERE {name} = ?", (key,)).fetchone()
    if row is None:
        return None
    if checksum(table, row[0], row[1]) != row[2]:
        raise BadRow(f"{row[0]!r} in {table} was altered")
    return str(row[1])


def last_seq(db: sqlite3.Connection) -> int:
    """The number of the last entry, or of a snapshot whose entries are gone."""
    (entry,) = db.execute("SELECT max(seq) FROM entries").fetchone()
    (seq,) = db.execute("SELECT max(seq) FROM snapshots").fetchone()
    return max(entry or 0, seq or 0)
