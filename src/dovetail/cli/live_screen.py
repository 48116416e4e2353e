"""The terminal taken over for a live view, and given back as it was."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LOOK_FOR_KEYS_S = 0.2
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"  # another screen, without cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"
_QUIT = b"qQ\x03\x04"


def has_keyboard() -> bool:
    """Somebody looks and can press a key."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def draw(lines: list[str]) -> None:
    """Over what is there, line by line, so that nothing flickers."""
    sys.stdout.write("\x1b[H" + "\x1b[K\r\n".join(lines) + "\x1b[K\x1b[J")
    sys.stdout.flush()


def quits() -> bool:
    """Waits a moment for a key."""
    return any(key in _QUIT for key in pressed())


def pressed() -> bytes:
    """The keys of this moment; of a terminal that is gone, one that quits."""
    ready, _, _ = select.select([sys.stdin], [], [], _LOOK_FOR_KEYS_S)
    return (os.read(sys.stdin.fileno(), 64) or b"\x04") if ready else b""


@contextmanager
def screen() -> Iterator[None]:
    """The terminal is given back as it was, however we leave."""
    import termios
    import tty

    was = termios.tcgetattr(sys.stdin)

    def enter() -> None:
        tty.setcbreak(sys.stdin)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()

    def leave() -> None:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, was)

    def be_stopped(*_: object) -> None:
        leave()
        signal.raise_signal(signal.SIGSTOP)
        enter()

    def end(number: int, *_: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTSTP, be_stopped)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        enter()
        yield
    except KeyboardInterrupt:
        pass
    finally:
        leave()
