"""The terminal that somebody sits at, lent to a job: keys go there as they are, what it prints comes
back, and the window's size follows."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable
from contextlib import suppress
from queue import Queue
from typing import Any, Final

from dovetail.client.connection import Client
from dovetail.client.consoles import Typing, seen
from dovetail.core.errors import BadInput, DovetailError
from dovetail.jobfiles.gone_output import gone_text

_MOST: Final = 1 << 16
_WAITING: Final = 64  # pieces that were typed and not sent
_LEAVES: Final = signal.SIGUSR1  # from the keys to whoever shows
_MAIN: Final = threading.main_thread().ident or 0
_RUNS: Final = ("running", "suspended", "ending")
_CONTROL: Final = {f"ctrl-{chr(own + 64).lower()}": bytes([own]) for own in range(32)}


def key_called(name: str) -> bytes:
    """`ctrl-]` as the terminal sends it; `none` is no key."""
    if name.lower() == "none":
        return b""
    if name.lower() not in _CONTROL:
        raise BadInput(f"there is no key {name!r}; write ctrl-] or another letter, or none")
    return _CONTROL[name.lower()]


def size_here() -> dict[str, int]:
    for fd in (1, 0, 2):
        with suppress(OSError):
            found = os.get_terminal_size(fd)
            return {"rows": max(found.lines, 1), "columns": max(found.columns, 1)}
    return {"rows": 24, "columns": 80}


class TerminalSeat:
    """Somebody at a terminal, and the console that they look at."""

    def __init__(
        self,
        client: Client,
        job_id: str,
        console: int = 0,
        *,
        leave_key: bytes = b"",
        types: bool = True,
        has_terminal: bool = True,
        say: Callable[[str], None],
    ) -> None:
        self._client: Final = client
        self._path: Final = f"/v1/jobs/{job_id}"
        self._console: Final = console
        self._leave_key: Final = leave_key
        self._types: Final = types
        self._has_terminal: Final = has_terminal
        self._say: Final = say
        self.phase = ""
        self._over: Final = threading.Event()
        self._keys: Final[Queue[bytes]] = Queue(maxsize=_WAITING)
        self._wakes, self._wake = os.pipe()
        self._was: Any = None

    def sit(self, start: int, stream: str | None = None) -> bool:
        """Until the console has ended, or they leave it: false."""
        before = [(number, signal.signal(number, do)) for number, do in self._signals()]
        try:
            shown = seen(self._client, self._path, start, self._enter, stream, self._console)
            for missing, piece in shown:
                self._lend()
                _show(missing, piece)
        except _Left:
            return False
        finally:
            self._over.set()
            self._poke()
            self._give_back()
            for number, do in before:
                signal.signal(number, do)
        return True

    def _signals(self) -> list[tuple[signal.Signals, Callable[[int, Any], None]]]:
        leaves = (signal.SIGHUP, signal.SIGTERM, _LEAVES)
        return [(signal.SIGWINCH, self._poke), *((number, _leave) for number in leaves)]

    def _enter(self, phase: str) -> None:
        """A phase of the job: the terminal is its own once it runs."""
        before, self.phase = self.phase, phase
        if phase in _RUNS:
            self._lend()
        if phase == before:
            return
        if phase == "suspended":
            self._say("it has given its GPUs away and stands still; it goes on by itself")
        elif before == "suspended" and phase == "running":
            self._say("it goes on")

    # ----------------------------------------------------------------------------- the terminal

    def _lend(self) -> None:
        """Once it runs, or prints: that may be seen before it is told to run."""
        if self._was is not None:
            return
        self._was = termios.tcgetattr(0)
        tty.setraw(0, termios.TCSADRAIN)
        if not self._has_terminal:
            _return_at_line_ends()
        for work in (self._read_keys, self._send_keys):
            threading.Thread(target=work, daemon=True).start()
        self._poke()

    def _give_back(self) -> None:
        if self._was is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self._was)
            self._was = None

    def _poke(self, *_: object) -> None:
        with suppress(OSError):
            os.write(self._wake, b".")

    def _resize(self) -> None:
        if not self._types:
            return
        another = self._client.another()
        with suppress(DovetailError):  # it does not run just now: at the next chance
            another.post(f"{self._path}/console/size?console={self._console}", size_here())
        another.close()

    # -------------------------------------------------------------------------------- the keys

    def _read_keys(self) -> None:
        """And the size of the window."""
        while True:
            ready, _, _ = select.select([0, self._wakes], [], [])
            if self._over.is_set():
                return
            if self._wakes in ready:
                os.read(self._wakes, _MOST)
                self._resize()
            if 0 in ready and not self._take(_read(0)):
                signal.pthread_kill(_MAIN, _LEAVES)
                return

    def _take(self, keys: bytes) -> bool:
        """False: they leave. So does a terminal that is gone."""
        mine, leaves, _ = keys.partition(self._leave_key) if self._leave_key else (keys, b"", b"")
        if mine and self._types:
            self._keys.put(mine)
        return bool(keys) and not leaves

    def _send_keys(self) -> None:
        client = self._client.another()
        typing = Typing(client, self._path, self._over.is_set, self._console)
        try:
            while typing.send(self._keys.get()):
                pass
        except DovetailError:
            pass  # whoever shows what it prints says what is wrong
        finally:
            client.close()


class _Left(Exception):
    """They have left the console; it goes on."""


def _return_at_line_ends() -> None:
    """What a job without a terminal prints goes to the next line, and stays in its column."""
    mode = termios.tcgetattr(0)
    mode[1] |= termios.OPOST | termios.ONLCR
    termios.tcsetattr(0, termios.TCSADRAIN, mode)


def _leave(number: int, frame: object) -> None:
    raise _Left


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _MOST)
    except OSError:  # the terminal is gone
        return b""


def _show(missing: int, piece: bytes) -> None:
    if missing:
        sys.stdout.buffer.write(f"\r\n{gone_text(missing)}\r\n".encode())
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def check_terminal() -> None:
    if not (os.isatty(0) and os.isatty(1)):
        raise BadInput("this needs a terminal for its input and its output")
