"""A terminal for a process (a pty): made, sized, taken as its own."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

_PAGE = 1 << 16
_AT_ONCE = 32  # reads
_EIO = 5  # as a terminal tells that everybody has closed it
_LARGEST = 5000  # rows or columns: programs make tables of them


def open_terminal(rows: int, columns: int) -> tuple[int, int]:
    """Our end and the process's."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    resize(ours, rows, columns)
    return ours, theirs


def read_terminal(terminal: int) -> bytes:
    """What is there: the kernel gives 4 kB at a time. BlockingIOError: nothing; b"": nobody has it open
    any more."""
    pieces: list[bytes] = []
    try:
        while len(pieces) < _AT_ONCE:
            pieces.append(os.read(terminal, _PAGE))
            if not pieces[-1]:
                break
    except BlockingIOError:
        if not pieces:
            raise
    except OSError as error:
        if error.errno != _EIO:
            raise
    return b"".join(pieces)


def resize(terminal: int, rows: int, columns: int) -> None:
    """The kernel tells the processes in its foreground."""
    size = [min(max(number, 0), _LARGEST) for number in (rows, columns)]
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))


def take_as_own(terminal: int) -> None:
    """By the leader of a new session: Ctrl-C then reaches the processes in its foreground."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
