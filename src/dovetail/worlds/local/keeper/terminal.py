"""A terminal for a process (a pty): made, sized, taken as its own."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

_LARGEST = 5000  # rows or columns: programs make tables of them


def open_terminal(rows: int, columns: int) -> tuple[int, int]:
    """Our end and the process's."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    resize(ours, rows, columns)
    return ours, theirs


def resize(terminal: int, rows: int, columns: int) -> None:
    """The kernel tells the processes in its foreground."""
    size = [min(max(number, 0), _LARGEST) for number in (rows, columns)]
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))


def take_as_own(terminal: int) -> None:
    """By the leader of a new session: Ctrl-C then reaches the processes in its foreground."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
