"""The latest commits once more, as text beside the database: what a lost or cut log of SQLite took with
it comes from here, and what a power failure would have.

Each line is one commit: its number, its rows and a checksum of both. A commit goes here first, and is
on disk before SQLite hears of it; so SQLite itself need not wait for the disk. When the file has grown
and SQLite has everything in its own file, a new one is begun, with what the next start would need from
before; the last one is kept beside it. That may be a lot: somebody else may prepare it meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias, final
from zlib import crc32

from dovetail.store.sqlite_tables import sync

Rows: TypeAlias = Mapping[str, Sequence[Sequence[object]]]  # by table
ROOM = 4 << 20  # bytes, before a new one is begun
_PIECE: Final = 1 << 18  # bytes: who commits beside it waits for the disk no longer than for these
_PREPARED: Final = ".next-"  # then the process that wrote it


class Commit(NamedTuple):
    """`journal` says which one it is of, `number` counts its commits. `is_first`: it holds what was
    needed from before, and so may follow a gap."""

    journal: str
    number: int
    rows: dict[str, list[list[Any]]]
    is_first: bool


@dataclass(frozen=True, slots=True)
class PreparedTail:
    """A file with what a start needs as of a commit, which ends at `upto` in the tail of then."""

    path: Path
    size: int
    tail_inode: int
    upto: int

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)


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
        self._replace_by(file, beside, line, 0)
        self._size = self._begun_with = len(line)

    def go_on_in(self, prepared: PreparedTail) -> bool:
        """The same with one that was prepared; it lacks only the commits since then. False: it was
        prepared beside another tail than this."""
        if prepared.tail_inode != self._inode or not self.is_in_place:
            return False
        since = os.pread(self._file, self._size - prepared.upto, prepared.upto)
        file = os.open(prepared.path, os.O_RDWR)
        self._replace_by(file, prepared.path, since, prepared.size)
        self._size, self._begun_with = prepared.size + len(since), prepared.size
        return True

    def _replace_by(self, file: int, path: Path, line: bytes, upto: int) -> None:
        """Go on in that file, once the line stands in it; the one before is kept as the last."""
        try:
            _write(file, line, upto)
            os.fdatasync(file)
            if self._path.exists():
                os.replace(self._path, last_tail_of(self._path))
            os.replace(path, self._path)
            sync(self._path.parent)
        except BaseException:
            os.close(file)
            raise
        self.close()
        self._file, self._inode = file, os.fstat(file).st_ino

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


def prepare(journal: Path, name: str, number: int, head: Rows) -> PreparedTail | None:
    """A tail that begins with that commit, on disk when this returns; None: the one that is there does
    not know the commit. Not for the writer: it may go on meanwhile."""
    with tail_of(journal).open("rb") as known:
        inode, upto = os.fstat(known.fileno()).st_ino, _end_of(known, number)
    if upto is None:
        return None
    path = journal.with_name(f"{tail_of(journal).name}{_PREPARED}{os.getpid()}")
    line = _line(name, number, head, is_first=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for start in range(0, len(line), _PIECE):
            _write(file, line[start : start + _PIECE], start)
            os.fdatasync(file)
        os.fsync(file)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(file)
    return PreparedTail(path, len(line), inode, upto)


def _end_of(file: BinaryIO, number: int) -> int | None:
    """Where the line of that commit ends."""
    end = 0
    for line in file:
        end += len(line)
        commit = line[9:].split(b",", 2)  # the name of the journal, the number, the rows
        if len(commit) == 3 and commit[1] == b"%d" % number:
            return end
    return None


def forget_prepared(journal: Path) -> None:
    """Those that nobody took up."""
    for path in journal.parent.glob(f"{tail_of(journal).name}{_PREPARED}*"):
        path.unlink(missing_ok=True)


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
