"""The standard input of a job, kept in a ring on disk."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress

from .files import read_numbers, write_number

_PUT, _GOT = ".put", ".got"  # beside the standard input: what is there, and what the job has had
STDIN_BYTES = 1 << 26  # that are kept of it
_FEED_MS = (2, 100)  # between two looks at it: while it flows, and while nothing comes
_ABANDONED_S = 900.0  # nobody has given a sign for so long: there is no more to come
PIPE_BYTES = 1 << 20  # what anybody may ask for; a burst of output does not make the job wait


class Feed:
    """The job's standard input: a ring in a file, which the daemon fills and we pass on.

    Each launch is given it from the first byte on. That cannot be done once more than the ring holds
    was put in, and is said then.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._ring = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        self.reading, self._pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        widen(self._pipe)
        self._got = 0
        self._patience_ms = _FEED_MS[0]
        note_got(path, 0)

    def is_gone(self) -> bool:
        """Whether the next byte for the job was overwritten, or is about to be."""
        return what_is_put(self._path)[0] - self._got > STDIN_BYTES

    def pump(self) -> int | None:
        """Pass on what the job takes now; milliseconds until there may be more, None: never."""
        if self._pipe < 0:
            return None
        _, put, is_all = what_is_put(self._path)
        moved = self._move(put - self._got) if put > self._got else 0
        if self._got == put and (is_all or self._is_abandoned()):
            self._close()
        self._patience_ms = _FEED_MS[0] if moved else min(2 * self._patience_ms, _FEED_MS[1])
        return self._patience_ms

    def _move(self, there: int) -> int:
        place = self._got % STDIN_BYTES
        data = os.pread(self._ring, min(there, PIPE_BYTES, STDIN_BYTES - place), place)
        if self.is_gone():
            raise RuntimeError("the standard input was overwritten before the job had read it")
        try:
            moved = os.write(self._pipe, data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:  # it reads no more: whoever sends the rest need not
            self._close()
            note_got(self._path, -1)
            return 0
        self._got += moved
        note_got(self._path, self._got)
        return moved

    def _is_abandoned(self) -> bool:
        try:
            return time.time() - os.stat(self._path + _PUT).st_mtime > _ABANDONED_S
        except OSError:
            return False  # nothing came yet

    def _close(self) -> None:
        os.close(self._pipe)
        self._pipe = -1


def beside_stdin(stdin: str) -> tuple[str, str]:
    return stdin + _PUT, stdin + _GOT


def what_is_put(stdin: str) -> tuple[int, int, bool]:
    """Bytes up to which the ring is, or is being, overwritten; that can be read; and: is that all?"""
    numbers = read_numbers(stdin + _PUT)
    return (numbers[0], numbers[1], numbers[2] == 1) if len(numbers) == 3 else (0, 0, False)


def note_put(stdin: str, upto: int, put: int, is_all: bool) -> None:
    write_number(stdin + _PUT, b"%020d %020d %d" % (upto, put, is_all))


def what_is_got(stdin: str) -> int:
    """Bytes that the job has had; -1: it wants no more."""
    numbers = read_numbers(stdin + _GOT)
    return numbers[0] if numbers else 0


def note_got(stdin: str, number: int) -> None:
    write_number(stdin + _GOT, b"%020d" % number)


def widen(pipe: int) -> None:
    with suppress(OSError):  # not to a user who has very many pipes
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
