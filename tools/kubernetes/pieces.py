"""Processes of a test cluster. Each leaves a log and a note of who it is, so that somebody who comes
later, after a test run was killed, finds and ends it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from dovetail.worlds.local.keeper import proc

_LOOK_EVERY_S = 0.02


def is_alive(note: Path) -> int | None:
    """The process that the note names, if it is still that one."""
    try:
        pid, started = (int(word) for word in note.read_text().split())
    except (OSError, ValueError):
        return None
    stat = proc.read_stat(pid)
    return pid if stat is not None and stat.started == started and not stat.has_ended else None


def note_process(pid: int, note: Path) -> None:
    stat = proc.read_stat(pid)
    note.write_text(f"{pid} {0 if stat is None else stat.started}")


def end(note: Path, within_s: float = 10.0, reap: Callable[[], object] = lambda: None) -> None:
    """Ask the process that the note names to end; after that time make it."""
    for number, seconds in ((signal.SIGTERM, within_s), (signal.SIGKILL, 30.0)):
        until = time.monotonic() + seconds
        pid = is_alive(note)
        if pid is not None and seconds > 0:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        while is_alive(note) is not None and time.monotonic() < until:
            reap()
            time.sleep(_LOOK_EVERY_S)


class Piece:
    """One program. `inside`: the words that lead into namespaces; its own process is their child."""

    def __init__(
        self,
        folder: Path,
        name: str,
        command: Sequence[str],
        inside: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        self.name: Final = name
        self.log: Final = folder / f"{name}.log"
        self._note: Final = folder / f"{name}.pid"
        self._command: Final = command
        self._inside: Final = inside
        self._child = 0

    @property
    def pid(self) -> int | None:
        self._reap()
        return is_alive(self._note)

    def start(self) -> None:
        """In a session of its own: it does not end with us."""
        before = () if self._inside is None else self._inside()
        words = [*before, *self._command]
        log = os.O_CREAT | os.O_APPEND | os.O_WRONLY
        files = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        files += [(os.POSIX_SPAWN_OPEN, number, str(self.log), log, 0o600) for number in (1, 2)]
        self._child = os.posix_spawnp(words[0], words, os.environ, file_actions=files, setsid=True)
        note_process(self._own_child() if before else self._child, self._note)

    def _own_child(self) -> int:
        while proc.read_stat(self._child) is not None and not self._reap():
            below = proc.descendants(self._child, proc.all_processes())
            if below:
                return below[0].pid
            time.sleep(_LOOK_EVERY_S)
        raise RuntimeError(f"{self.name} did not start: {self.last_words()}")

    def kill(self) -> None:
        """At once, as a crash would."""
        self.stop(0.0)

    def freeze(self) -> None:
        """It does nothing until `go_on`. Whoever has entered a node for it stops with it."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        pid = self.pid
        for own in {pid, self._child or pid}:
            if own is not None:
                os.kill(own, number)

    def stop(self, within_s: float = 10.0) -> None:
        end(self._note, within_s, self._reap)

    def _reap(self) -> bool:
        """Whether the process that we started has ended."""
        try:
            return self._child > 0 and os.waitpid(self._child, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def last_words(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return "it said nothing"
        return " / ".join(lines[-3:])[-600:]
