"""Commands that are run beside a job: with its user, folder, variables and limits, and inside what ends
and is suspended with it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import partial
from time import monotonic

from . import BESIDE
from .command import become_the_job
from .consoles import Console
from .descriptors import WRITE
from .pages import LogPages
from .terminal import open_terminal, read_terminal

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from typing import Any

    from .descriptors import Descriptors

MOST_AT_ONCE = 32
_KEPT = 64  # of those that have ended, whose exit codes may still be asked for
_LOG_BYTES = 16 << 20
_NOBODY_S = 60.0  # nobody listens to it for so long: it is hung up
_CHUNK = 1 << 18
_LAST_READS = 64  # a terminal gives 4 kB at a time, and holds 64 at the most


class Beside:
    """One command."""

    def __init__(
        self, watch: Descriptors, folder: str, launch: dict[str, Any], asked: dict[str, Any]
    ):
        self._watch = watch
        self.pid = 0
        self.status: int | None = None
        self.failure = ""
        self._hung_up = False
        os.makedirs(folder, exist_ok=True)
        has_terminal = bool(asked.get("terminal"))
        if has_terminal:
            ours, theirs = open_terminal(asked["rows"], asked["columns"])
            self._reading = {ours: LogPages(os.path.join(folder, "out"), _LOG_BYTES)}
            pages, typing = {"stdout": self._reading[ours]}, ours
            self._streams = (theirs, theirs, theirs)
            self._theirs = {theirs}
        else:
            stdin, typing = os.pipe2(os.O_CLOEXEC)
            (out, writes_out), (err, writes_err) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
            pages = {
                "stdout": LogPages(os.path.join(folder, "out"), _LOG_BYTES),
                "stderr": LogPages(os.path.join(folder, "err"), _LOG_BYTES),
            }
            self._reading = {out: pages["stdout"], err: pages["stderr"]}
            self._streams = (stdin, writes_out, writes_err)
            self._theirs = {*self._streams}
        self.console = Console(watch, pages, typing, has_terminal)
        self.console.sources = list(self._reading)
        self._start({**launch, **_said(launch, asked)})

    def _start(self, launch: dict[str, Any]) -> None:
        gate, opened = os.pipe2(os.O_CLOEXEC)
        errors, failed = os.pipe2(os.O_CLOEXEC)
        os.write(opened, b"1")
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        self.pid = os.fork()
        if self.pid == 0:
            become_the_job(launch, self._streams, gate, failed)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Its end of a terminal stays open, or ours would tell an end before the last is read.
        for fd in {gate, opened, failed, *self._theirs} - self._kept:
            os.close(fd)
        self._errors = errors
        os.set_blocking(errors, False)
        self._watch.add(errors, self._hear_failure)
        for fd in self._reading:
            os.set_blocking(fd, False)
            self._watch.add(fd, partial(self._look, fd))

    @property
    def _kept(self) -> set[int]:
        return self._theirs if self.console.is_terminal else set()

    def _hear_failure(self, events: int = 0) -> None:
        """A line, if the command cannot be run; nothing once it is."""
        if self._errors < 0:
            return
        with suppress(BlockingIOError):
            self.failure += os.read(self._errors, 4096).decode(errors="surrogateescape")
            self._watch.remove(self._errors)
            os.close(self._errors)
            self._errors = -1

    def _look(self, fd: int, events: int) -> None:
        if events & WRITE:
            self.console.send()
        if events & ~WRITE:
            self._copy(fd)

    def _copy(self, fd: int) -> bool:
        try:
            data = read_terminal(fd) if self.console.is_terminal else os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._reading[fd].write(data)
            self.console.printed()
        else:
            self._close(fd)
        return bool(data)

    def _close(self, fd: int) -> None:
        if fd == self.console.typing:
            self.console.typing = -1
        self._watch.remove(fd)
        with suppress(OSError):
            os.close(fd)
        self._reading.pop(fd, None)
        self.console.sources = list(self._reading)
        self.console.printed()

    @property
    def is_over(self) -> bool:
        """It has ended and all that it printed is on the pages. What it left running goes on, and is
        heard no more."""
        return self.status is not None and not self._reading

    def ended(self, status: int) -> None:
        self._hear_failure()
        for fd in self._kept:
            os.close(fd)
        for fd in list(self._reading):
            for _ in range(_LAST_READS):  # somebody left behind may go on writing
                if fd not in self._reading or not self._copy(fd):
                    break
            if fd in self._reading:
                self._close(fd)
        self.console.close_typing()
        self.status = status
        self.console.printed()

    def tend(self) -> float | None:
        """Seconds until this wants to be looked at again."""
        if self.is_over:
            return None
        soon = self.console.look()
        since = self.console.unread_since()
        if not since:
            return soon
        left = since + _NOBODY_S - monotonic()
        if left <= 0 and not self._hung_up:
            self._hung_up = True
            self.signal(signal.SIGHUP if self.console.is_terminal else signal.SIGTERM)
        return min(soon or _NOBODY_S, max(left, 1.0))

    def signal(self, number: int) -> None:
        """To its group, unless it has ended."""
        if self.status is None and self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def standing(self) -> dict[str, Any]:
        if not self.is_over:
            return {"over": False}
        status = self.status or 0
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return {"over": True, "code": code, "failure": self.failure}


def _said(launch: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "argv": asked["argv"],
        "cwd": asked.get("cwd") or launch["cwd"],
        "env": {**launch["env"], **asked.get("env", {})},
        "terminal": bool(asked.get("terminal")),
    }


class Commands:
    """All that are run beside one job, by number."""

    def __init__(self, watch: Descriptors, folder: str, launch: dict[str, Any]) -> None:
        self._watch = watch
        self._folder = folder
        self._launch = launch
        self._all: dict[int, Beside] = {}
        self._last = 0

    def start(self, asked: dict[str, Any]) -> int:
        running = [own for own in self._all.values() if own.status is None]
        if len(running) >= MOST_AT_ONCE:
            raise ValueError(f"{MOST_AT_ONCE} commands run beside it already; wait for one")
        self._last += 1
        folder = os.path.join(self._folder, BESIDE, str(self._last))
        self._all[self._last] = Beside(self._watch, folder, self._launch, asked)
        self._forget_old()
        return self._last

    def _forget_old(self) -> None:
        over = [number for number, own in self._all.items() if own.is_over]
        for number in over[:-_KEPT]:
            del self._all[number]
            folder = os.path.join(self._folder, BESIDE, str(number))
            with suppress(OSError):
                for name in os.listdir(folder):
                    os.unlink(os.path.join(folder, name))
                os.rmdir(folder)

    def get(self, number: int) -> Beside | None:
        return self._all.get(number)

    def ended(self, pid: int, status: int) -> None:
        for own in self._all.values():
            if own.pid == pid and own.status is None:
                own.ended(status)

    def tend(self) -> float | None:
        soon = [left for own in self._all.values() if (left := own.tend()) is not None]
        return min(soon, default=None)
