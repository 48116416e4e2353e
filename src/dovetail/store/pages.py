"""Rows read from the bare pages of an SQLite file, whatever has become of the rest of it.

The format is https://www.sqlite.org/fileformat2.html. A row sits in a leaf page of its table; what
does not fit there goes on in a chain of overflow pages. We look at every page, take what can be
understood, and leave it to checksums to tell rows from rubble.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, final

from dovetail.store.sqlite_tables import PAGE, log_of

Value: TypeAlias = int | float | str | None
Row: TypeAlias = tuple[int, list[Value]]  # its number in the table, and its columns

_LEAF = 13
_LOG_HEADER = 32
_FRAME_HEADER = 24
_LARGEST_INSIDE = PAGE - 35
_SMALLEST_INSIDE = (PAGE - 12) * 32 // 255 - 23
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


def rows(path: Path) -> Iterator[Row]:
    """Every row of every table that can be found in the file and its log."""
    with Pages(path) as pages:
        for number in range(1, pages.count + 1):
            start = 100 if number == 1 else 0
            for page in pages.versions(number):
                if page and page[start] == _LEAF:
                    yield from _rows_of(page, pages, start)


def pages_in_log(path: Path) -> Mapping[int, int]:
    """The place of the latest committed version of each page in the write-ahead log."""
    committed: dict[int, int] = {}
    since: dict[int, int] = {}
    try:
        log = path.open("rb")
    except FileNotFoundError:
        return committed
    with log:
        salts = log.read(_LOG_HEADER)[16:24]
        while len(header := log.read(_FRAME_HEADER)) == _FRAME_HEADER:
            if header[8:16] != salts or len(log.read(PAGE)) < PAGE:
                break  # left from an earlier round of the log, or cut off
            number, ends_a_commit = struct.unpack(">II", header[:8])
            since[number] = log.tell() - PAGE
            if ends_a_commit:
                committed.update(since)
                since.clear()
    return committed


@final
class Pages:
    """The pages of a file as its log has them, or else as the file has them."""

    def __init__(self, path: Path) -> None:
        log = log_of(path)
        self._in_log = pages_in_log(log)
        self._file = os.open(path, os.O_RDONLY) if path.exists() else None
        self._log = os.open(log, os.O_RDONLY) if self._in_log else None
        size = 0 if self._file is None else os.fstat(self._file).st_size
        self.count = max(size // PAGE, *self._in_log, 0)

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._file, self._log):
            if descriptor is not None:
                os.close(descriptor)

    def read(self, number: int) -> bytes:
        return self.versions(number)[-1]

    def versions(self, number: int) -> list[bytes]:
        """As in the file and, later, as in the log; the log may be the damaged one of the two."""
        found = [_read(self._file, (number - 1) * PAGE)]
        if number in self._in_log:
            found.append(_read(self._log, self._in_log[number]))
        return found


def _read(descriptor: int | None, at: int) -> bytes:
    """A whole page; nothing where it is cut off or the disk refuses to read it."""
    if descriptor is None or at < 0:
        return b""
    try:
        page = os.pread(descriptor, PAGE, at)
    except OSError:
        return b""
    return page if len(page) == PAGE else b""


def _rows_of(page: bytes, pages: Pages, start: int) -> Iterator[Row]:
    (count,) = struct.unpack_from(">H", page, start + 3)
    first = start + 8
    for at in range(first, min(first + 2 * count, PAGE - 1), 2):
        (cell,) = struct.unpack_from(">H", page, at)
        try:
            yield _row(page, cell, pages)
        except (IndexError, ValueError, struct.error):
            continue  # rubble


def _row(page: bytes, at: int, pages: Pages) -> Row:
    length, at = _varint(page, at)
    number, at = _varint(page, at)
    return number, _columns(_payload(page, at, length, pages))


def _payload(page: bytes, at: int, length: int, pages: Pages) -> bytes:
    if length <= _LARGEST_INSIDE:
        return page[at : at + length]
    inside = _SMALLEST_INSIDE + (length - _SMALLEST_INSIDE) % (PAGE - 4)
    if inside > _LARGEST_INSIDE:
        inside = _SMALLEST_INSIDE
    if length > pages.count * PAGE:
        raise ValueError("longer than the file")
    pieces = [page[at : at + inside]]
    (following,) = struct.unpack_from(">I", page, at + inside)
    for _ in range(-(-(length - inside) // (PAGE - 4))):
        overflow = pages.read(following)
        pieces.append(overflow[4:])
        (following,) = struct.unpack_from(">I", overflow)
    return b"".join(pieces)[:length]


def _columns(record: bytes) -> list[Value]:
    end, at = _varint(record, 0)
    value_at, values = end, []
    while at < end:
        kind, at = _varint(record, at)
        value, value_at = _value(record, kind, value_at)
        values.append(value)
    if value_at != len(record):
        raise ValueError("not a record")
    return values


def _value(record: bytes, kind: int, at: int) -> tuple[Value, int]:
    if kind >= 13 and kind % 2:
        end = at + (kind - 13) // 2
        return record[at:end].decode(), end
    if size := _INTEGER_BYTES.get(kind):
        return int.from_bytes(record[at : at + size], "big", signed=True), at + size
    if kind == 7:
        return struct.unpack_from(">d", record, at)[0], at + 8
    if kind in (0, 8, 9):
        return (None if kind == 0 else kind - 8), at
    raise ValueError("nothing that we store")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(8):
        byte = data[at + place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + place + 1
    return value << 8 | data[at + 8], at + 9
