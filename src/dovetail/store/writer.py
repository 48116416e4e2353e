"""The journal's one writer. Nothing that it has said is on disk is ever lost."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Final, final

from dovetail.store import opening
from dovetail.store.ended_jobs import EndedJob, Filter
from dovetail.store.joining import (
    FORGOTTEN,
    apply,
    head,
    number_of,
    number_row,
    open_specs,
)
from dovetail.store.journal_errors import (
    JournalFull,
    JournalLost,
    journal_full,
    may_be_full,
    noticing_damage,
)
from dovetail.store.reader import JournalReader
from dovetail.store.reserve import Reserve
from dovetail.store.sqlite_tables import (
    PAGES_LOGGED,
    checksum,
    move_log,
    remove_own_log,
    write_copy,
)
from dovetail.store.tail import PreparedTail

_SNAPSHOTS_KEPT = 2
_SECONDS_BETWEEN_LOOKS = 1.0
_RESERVE_BYTES = 8 << 20

_TABLES: Final = ("entries", "specs", "ended", "meta", FORGOTTEN)


@final
class Store:
    """Used by one thread at a time. What is added waits in memory until `commit`, which writes it
    all or none of it, and has it on disk when it returns."""

    @classmethod
    def open(cls, path: Path, *, reserve_bytes: int = _RESERVE_BYTES) -> Store:
        """Opens the journal, or makes a new one. `notice` then says what the operator should know."""
        return cls(opening.open_journal(path, Reserve(path, reserve_bytes)))

    def __init__(self, opened: opening.Opened) -> None:
        self.path: Final = opened.path
        self.notice: Final = opened.notice
        self._db: Final = opened.db
        self._lock: Final = opened.lock
        self._reserve: Final = opened.reserve
        self._tail: Final = opened.tail
        self._number = number_of(opened.db)
        self._file: Final = os.stat(opened.path).st_ino
        self._reader: Final = JournalReader(opened.path, opened.db)
        self._waiting: Final[dict[str, list[tuple[object, ...]]]] = {name: [] for name in _TABLES}
        self._bytes = 0
        self._is_full = not (opened.reserve.is_there() or opened.reserve.make())
        self._look_again_at = 0.0
        self.epoch: Final = float(self._reader.meta("epoch") or 0.0)
        self.last_seq = self._reader.last_seq()

    def close(self) -> None:
        """Commits pending rows and releases the journal for another process."""
        try:
            self.commit()
        finally:
            self._tail.close()
            self._db.close()
            os.close(self._lock)

    # -------------------------------------------------------------------------------------- adding

    def add(self, line: str) -> int:
        """Take a line into the next commit; returns the sequence number that it will have."""
        seq = self.last_seq + 1
        self._add("entries", (seq, line, checksum("entries", seq, line)), line)
        self.last_seq = seq
        return seq

    def put_spec(self, job_id: str, text: str) -> None:
        self._add("specs", (job_id, text, checksum("specs", job_id, text)), text)

    def add_ended(self, ended: EndedJob) -> None:
        if not isfinite(ended.ended_at):
            raise ValueError(f"job {ended.job_id!r} is said to have ended at {ended.ended_at}")
        self._add("ended", ended.columns(), ended.row)

    def set_meta(self, key: str, value: str) -> None:
        self._add("meta", (key, value, checksum("meta", key, value)), value)

    def forget(self, table: str, key: str) -> None:
        """A spec, the row of a job that has ended, or a value of meta is no longer kept."""
        self._add(FORGOTTEN, (table, key), key)

    def _add(self, table: str, row: tuple[object, ...], text: str) -> None:
        self._waiting[table].append(row)
        self._bytes += len(text)

    @property
    def pending(self) -> int:
        """How much waits to be committed."""
        return sum(map(len, self._waiting.values()))

    # ---------------------------------------------------------------------------------- committing

    def commit(self) -> None:
        """All that waits is on disk when this returns. Raises `JournalFull` if it cannot be written;
        it then waits on, and the next `commit` tries again."""
        if not self.pending:
            return
        if not self._tail.is_in_place:
            self._tail.begin(self._number, head(self._db))
        self._write(self._insert_all)
        self._number += 1
        self._clear()

    def _clear(self) -> None:
        self._bytes = 0
        for rows in self._waiting.values():
            rows.clear()

    def _insert_all(self) -> None:
        """Into the tail first, where it is on disk before SQLite has it."""
        number = self._number + 1
        self._tail.append(number, self._waiting)
        apply(self._db, self._waiting)
        apply(self._db, {"meta": [number_row(number)]})

    def _write(self, change: Callable[[], object], *, is_vital: bool = True) -> None:
        """In one transaction; a second time with the reserve given free if the disk is full."""
        self.check_in_place()
        try:
            with noticing_damage(self.path):
                self._transact(change)
        except (sqlite3.OperationalError, OSError) as error:
            if not (is_vital and may_be_full(error) and self._reserve.spend()):
                raise self._full(error) from error
            self._is_full = True
            self._write(change)

    def _transact(self, change: Callable[[], object]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            change()
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def check_in_place(self) -> None:
        """Raises `JournalLost` if the file is no longer ours: one that was removed is written anew
        first, of what we still have open; one that was put in its place is left as it is."""
        try:
            if os.stat(self.path).st_ino == self._file:
                return
        except FileNotFoundError:
            raise self._written_anew() from None
        if self.pending:
            self._tail.append(self._number + 1, self._waiting)
            self._clear()
        remove_own_log(self.path)
        raise JournalLost(
            f"the journal {self.path} was replaced by another file while in use; that one counts "
            "from the next start on, together with the latest entries beside it"
        )

    def _written_anew(self) -> JournalLost:
        if self.pending:
            self._transact(self._insert_all)
            self._number += 1
            self._clear()
        write_copy(self._db, self.path)
        return JournalLost(
            f"the journal {self.path} was removed while in use; it was written anew and nothing is "
            "lost; start Dovetail again"
        )

    def _full(self, error: Exception) -> JournalFull:
        return journal_full(
            self.path, error, self._bytes, f"{self.pending} records wait in memory, none is lost"
        )

    @property
    def is_full(self) -> bool:
        """From when the reserve had to be spent until there is room to put one by again. It is tried
        when asked, at most once a second."""
        now = time.monotonic()
        if self._is_full and now >= self._look_again_at:
            self._look_again_at = now + _SECONDS_BETWEEN_LOOKS
            self._is_full = not self._reserve.make()
        return self._is_full

    # ----------------------------------------------------------------------------------- snapshots

    def save_snapshot(self, seq: int, text: str) -> bool:
        """The state after entry `seq`. Commits what waits. False when there is no room for it: then
        the next start reads more entries, and nothing is lost."""
        self.commit()
        if seq > self.last_seq:
            raise ValueError(f"a snapshot after entry {seq}, but the last entry is {self.last_seq}")
        if self.is_full:
            return False
        try:
            self._write(lambda: self._replace_snapshots(seq, text), is_vital=False)
        except JournalFull:
            return False
        return True

    def let_others_move_its_log(self, others: bool) -> None:
        """SQLite moves its log into its file when that has grown, and waits for the disk: as a part of
        some commit, or not as long as somebody else sees to it (`JournalReader.move_log`)."""
        self._db.execute(f"PRAGMA wal_autocheckpoint={0 if others else PAGES_LOGGED}")

    @property
    def has_long_tail(self) -> bool:
        """Then it is time to shorten it, best when a snapshot was saved."""
        return self._tail.is_long

    def shorten_tail(self) -> None:
        """If it is long. All that is not over yet is written once more, which may take a while. Nothing
        is done unless SQLite has moved all of its log into its file, which it has then waited for."""
        if self.has_long_tail and move_log(self._db):
            with suppress(OSError):  # no room for another one: this one goes on
                self._tail.begin(self._number, head(self._db))

    def go_on_in(self, prepared: PreparedTail) -> None:
        """Shorten it by one that was prepared, since when SQLite has moved its log; or forget that."""
        with suppress(OSError):
            if not self._tail.go_on_in(prepared):
                prepared.forget()

    def _replace_snapshots(self, seq: int, text: str) -> None:
        row = (seq, text, checksum("snapshots", seq, text))
        self._db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", row)
        self._db.execute(
            "DELETE FROM snapshots WHERE seq NOT IN "
            f"(SELECT seq FROM snapshots ORDER BY seq DESC LIMIT {_SNAPSHOTS_KEPT})"
        )

    def prune(self, before_seq: int, at_most: int = 10_000) -> int:
        """Forget entries before that one, some at a time; how many went. Those that the older of two
        snapshots needs stay. The file does not shrink; its space is used again."""
        kept = [seq for (seq,) in self._db.execute("SELECT seq FROM snapshots ORDER BY seq")]
        if len(kept) < _SNAPSHOTS_KEPT:
            return 0
        (first,) = self._db.execute("SELECT min(seq) FROM entries").fetchone()
        end = min(before_seq, kept[0] + 1, (first or 0) + at_most)
        before = self._db.total_changes
        self._write(lambda: self._db.execute("DELETE FROM entries WHERE seq < ?", (end,)))
        return self._db.total_changes - before

    # ------------------------------------------------------------------------------------- reading

    def snapshots(self) -> Iterator[tuple[int, str]]:
        """Newest first, so that an unreadable one can be skipped."""
        return self._reader.snapshots()

    def lines_after(self, seq: int) -> Iterator[tuple[int, str]]:
        """The committed entries after that one, in order."""
        return self._reader.lines_after(seq)

    def spec(self, job_id: str) -> str | None:
        return self._reader.spec(job_id)

    def specs(self) -> set[str]:
        """The jobs whose description is kept: live ones, and those that ended lately."""
        return {job_id for (job_id,) in self._db.execute("SELECT job_id FROM specs")}

    def open_specs(self) -> set[str]:
        """Jobs that were described and have not ended."""
        found = (str(row[0]) for row in open_specs(self._db))
        return {job_id for job_id in found if job_id[:1].isdigit()}  # not the page of a study

    def meta(self, key: str) -> str | None:
        return self._reader.meta(key)

    def history(
        self, only: Filter | None = None, limit: int = 100, before: EndedJob | None = None
    ) -> list[EndedJob]:
        return self._reader.history(only, limit, before)
