"""The latest commits once more, as text beside the database: what a lost or cut log of SQLite took with
it comes from here, and what a power failure would have.

Each line is one commit: its number, its rows and a checksum of both. A commit goes here first, and is
on disk before SQLite hears of it; so SQLite itself need not wait for the disk. When the file has grown
and SQLite has everything in its own file, a new one is begun, with what the next start would need from
before; the last one is kept beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias, final
from zlib import crc32

from dovetail.store.sqlite_tables import sync

Rows: TypeAlias = Mapping[str, Sequence[Sequence[object]]]  # by table
ROOM = 4 << 20  # bytes, before a new one is begun


class Commit(NamedTuple):
    """`journal` says which one it is of, `number` counts its commits. `is_first`: it holds what was
    needed from before, and so may follow a gap."""

    journal: str
    number: int
    rows: dict[str, list[list[Any]]]
    is_first: bool


@final
class Tail:
    """Written by the journal's one writer."""

    def __init__(self, journal: Path, name: str) -> None:
        self._path: Final = tail_of(journal)
        self._name: Final = name
        self._file = -1
        self._inode = 0
        self._size = 0
        self._begun_with = 0

    def begin(self, number: int, head: Rows) -> None:
        """A new one, which says what there was up to that commit. Replaces the one before last."""
        beside = self._path.with_name(f"{self._path.name}.new")
        line = _line(self._name, number, head, is_first=True)
        file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write(file, line, 0)
            os.fsync(file)
            if self._path.exists():
                os.replace(self._path, last_tail_of(self._path))
            os.replace(beside, self._path)
            sync(self._path.parent)
        except BaseException:
            os.close(file)
            raise
        self.close()
        self._file, self._inode = file, os.fstat(file).st_ino
        self._size = self._begun_with = len(line)

    def resume(self) -> bool:
        """Go on with the one that is there, whose last line was just found whole."""
        try:
            self._file = os.open(self._path, os.O_RDWR)
        except OSError:
            return False
        found = os.fstat(self._file)
        self._size, self._inode = found.st_size, found.st_ino
        return True

    @property
    def is_long(self) -> bool:
        return self._size - 2 * self._begun_with > ROOM

    @property
    def is_in_place(self) -> bool:
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    def append(self, number: int, rows: Rows) -> None:
        """On disk when this returns. What a failed attempt left is written over."""
        line = _line(self._name, number, rows, is_first=False)
        try:
            _write(self._file, line, self._size)
            os.fdatasync(self._file)
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def tail_of(journal: Path) -> Path:
    return journal.with_name(f"{journal.name}.tail")


def last_tail_of(tail: Path) -> Path:
    return tail.with_name(f"{tail.name}.last")


def tails_of(journal: Path) -> list[Path]:
    """The older one first."""
    tail = tail_of(journal)
    return [each for each in (last_tail_of(tail), tail) if each.exists()]


def commits(journal: Path) -> Iterator[Commit]:
    """All that can be read, in order; a line that was cut or altered is passed over."""
    for path in tails_of(journal):
        with path.open("rb") as file:
            for line in file:
                commit = _read(line)
                if commit is not None:
                    yield commit


def has_entries(journal: Path) -> bool:
    return any(
        "entries" in commit.rows or "snapshots" in commit.rows for commit in commits(journal)
    )


def last_commit(journal: Path) -> Commit | None:
    """The last commit of the newer file, if its last line is whole."""
    try:
        with tail_of(journal).open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            return _read(_last_line(file, end))
    except OSError:
        return None


def _last_line(file: BinaryIO, end: int) -> bytes:
    size = 1 << 14
    while True:
        start = max(end - size, 0)
        file.seek(start)
        lines = file.read(end - start).splitlines(keepends=True)
        if len(lines) > 1 or start == 0:
            return lines[-1] if lines else b""
        size *= 8


def set_aside(journal: Path) -> Path | None:
    """They are not of this journal, or cannot be joined to it: kept, and out of the way."""
    aside: Path | None = None
    for path in tails_of(journal):
        aside = _free_name(path)
        os.replace(path, aside)
    sync(journal.parent)
    return aside


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.kept-{number}")).exists():
        number += 1
    return aside


# -------------------------------------------------------------------------------------------- lines


def _line(name: str, number: int, rows: Rows, is_first: bool) -> bytes:
    told = {table: own for table, own in rows.items() if own}
    text = json.dumps([name, number, told, is_first], separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32(text), text)


def _read(line: bytes) -> Commit | None:
    text = line[9:-1]
    try:
        if line[-1:] != b"\n" or int(line[:8], 16) != crc32(text):
            return None
        return Commit(*json.loads(text))
    except (ValueError, TypeError):
        return None


def _write(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written
