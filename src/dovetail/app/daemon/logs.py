"""Reading the log of a job, and following it while it grows and is rotated.

The keeper writes `log`; when that is full it becomes `log.1`, the former `log.1` goes, and a new `log`
begins.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path

from dovetail.backends.local.printed import without_colours

_CHUNK = 1 << 16
_LOOK_EVERY_S = 0.2
_LAST_LINES = 4096  # bytes at the end in which the last line is looked for
_LONGEST_LINE = 200


async def follow(log: Path, tail: int | None, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
    """All of it, or about the last `tail` bytes, then what comes until the job is over."""
    with closing(_Reading(log, tail)) as reading:
        while True:
            over = is_over()  # asked first: what was written before that is then read below
            while chunk := reading.next_chunk():
                yield chunk
            if over:
                return
            await asyncio.sleep(_LOOK_EVERY_S)


def whole(log: Path, tail: int | None) -> Iterator[bytes]:
    """What is there now. Whoever writes faster than we read does not keep us for ever."""
    left = _size(log.with_name(f"{log.name}.1")) + _size(log)
    with closing(_Reading(log, tail)) as reading:
        while left > 0 and (chunk := reading.next_chunk()):
            yield chunk
            left -= len(chunk)


def last_line(log: Path) -> str:
    """The last one that says something, shortened; "" if there is none."""
    text = b"".join(whole(log, _LAST_LINES)).decode(errors="replace")
    lines = map(as_shown, reversed(text.split("\n")))
    return next((line for line in lines if line), "")[:_LONGEST_LINE]


def as_shown(line: str) -> str:
    """In one line, without what would steer a terminal."""
    plain = " ".join(without_colours(line).split())
    return "".join(c if c.isprintable() else "?" for c in plain)


class _Reading:
    """A place in a log. A file that was opened stays readable when it is rotated away."""

    def __init__(self, log: Path, tail: int | None) -> None:
        self._log = log
        self._before = log.with_name(f"{log.name}.1")
        self._fd = -1
        self._begin(tail)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def next_chunk(self) -> bytes:
        """Nothing: for now there is no more."""
        while True:
            if self._fd < 0 and not self._open(self._before) and not self._open(self._log):
                return b""
            chunk = os.read(self._fd, _CHUNK)
            if chunk or not self._turn_page():
                return chunk

    def _begin(self, tail: int | None) -> None:
        """At the first byte, or so far before the end."""
        if tail is None:
            return
        size = _size(self._log)
        skip = _size(self._before) + size - tail
        newest_is_enough = tail <= size and self._open(self._log)
        if newest_is_enough:
            os.lseek(self._fd, max(size - tail, 0), os.SEEK_SET)
        elif skip > 0 and self._open(self._before):
            os.lseek(self._fd, skip, os.SEEK_SET)

    def _turn_page(self) -> bool:
        """At the end of a file: go on with the one that came after it, if it is not the newest."""
        mine = os.fstat(self._fd)
        newest = _identity(self._log)
        if newest in (None, (mine.st_dev, mine.st_ino)):
            return False
        if os.lseek(self._fd, 0, os.SEEK_CUR) < os.fstat(self._fd).st_size:
            return True  # it got its last bytes between our reading and our looking
        missed = _identity(self._before) != (mine.st_dev, mine.st_ino)
        return (missed and self._open(self._before)) or self._open(self._log)

    def _open(self, path: Path) -> bool:
        """Never a link, nor anything one could wait for: the folder may be the job's own."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            return False
        self.close()
        self._fd = fd
        return True


def _size(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
