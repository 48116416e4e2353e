"""The output of a job, in pages on disk."""

from __future__ import annotations

import os
from contextlib import suppress

from .files import read_numbers, write_number

_BEFORE = ".before"  # beside the log: how many bytes came before its first one
HEAD, OLDER = ".head", ".1"  # beside the log: the first page ever, and the one before the last
_HEAD_PART = 8  # one of so many bytes is for the beginning


class LogPages:
    """The job's output in pages: the first, `log.head`, is kept for good, of the others the last
    two, `log.1` and `log`. As long as the first is not full it is the `log` itself.

    Output that cannot be written (the disk is full) is dropped: the job shall go on. A line in the
    log says so as soon as it can be written.
    """

    def __init__(self, path: str, limit_bytes: int) -> None:
        self._path = path
        self._head = max(1, limit_bytes // _HEAD_PART)
        self._page = max(1, (limit_bytes - self._head) // 2)
        self._fd = -1
        self._size = self._most = 0  # of the page that is written
        self._before = 0  # bytes before that page
        self._dropped = 0
        self._reason = ""
        self._note = b""

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            self._note_what_was_dropped()
            while rest:
                rest = rest[self._put(rest) :]
        except OSError as error:
            self._dropped += len(rest)
            self._reason = error.strerror or "it could not be written"

    @property
    def end(self) -> int:
        """How many bytes it has ever been given and could keep."""
        return self._before + self._size

    def close(self) -> None:
        self.write(b"")  # a last chance for the note

    def _note_what_was_dropped(self) -> None:
        self._finish_note()
        if self._dropped:
            text = (
                f"\n[dovetail: {self._dropped} bytes of output are missing here: {self._reason}]\n"
            )
            self._note = text.encode()[self._put(memoryview(text.encode())) :]
            self._dropped = 0  # only now: where not a byte of the note was written, it is made anew
            self._finish_note()

    def _finish_note(self) -> None:
        while self._note:
            self._note = self._note[self._put(memoryview(self._note)) :]

    def _put(self, data: memoryview) -> int:
        if self._fd < 0:
            self._open()
        if self._size >= self._most:
            self._rotate()
        written = os.write(self._fd, data[: self._most - self._size])
        self._size += written
        return written

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._fd).st_size
        self._before = bytes_before(self._path)
        self._most = self._page if self._before else self._head

    def _rotate(self) -> None:
        turned = self._path + (OLDER if bytes_before(self._path) else HEAD)
        with suppress(FileNotFoundError):
            os.unlink(turned)  # a rename onto it would send our bytes to the disk first
        with suppress(FileNotFoundError):  # somebody took it away: we begin anew
            os.rename(self._path, turned)
        # While there is no log, whoever reads it waits: the new one and this number belong together.
        _note_bytes_before(self._path, bytes_before(self._path) + self._size)
        os.close(self._fd)
        self._fd = -1
        self._open()


def bytes_before(log: str) -> int:
    """How much of the output came before the first byte of the log that is there now."""
    numbers = read_numbers(log + _BEFORE)
    return numbers[0] if numbers else 0


def _note_bytes_before(log: str, number: int) -> None:
    with suppress(OSError):
        write_number(log + _BEFORE, b"%020d" % number)
