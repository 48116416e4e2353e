"""The keeper and its guard, from the lock to exit.json."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial

from . import EXIT, KEEPER, LAUNCH, LOCK, STOP
from .beside import Commands
from .command import CANNOT_RUN, become_the_job, one_line, prctl
from .consoles import Console
from .copies import Copies, CopyFile
from .descriptors import WRITE, Descriptors
from .door import Door
from .feed import PIPE_BYTES, STDIN_BYTES, Feed, widen
from .files import overwrite, read_json, rename_durably, write_durably
from .orphans import end_descendants, forget_wake_ups, wake_up_on_children
from .pages import LogPages
from .proc import boot_id, read_stat
from .terminal import open_terminal, read_terminal

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from typing import Any

_EXIT_RESERVE = "exit.tmp"
_RESERVED_BYTES = 4096
_FAILURE_CHARACTERS = 500  # six bytes each at the worst: they fit into the reserve
_CHUNK = 1 << 18

_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT
_PR_SET_CHILD_SUBREAPER = 36
_SURVIVED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class Keeper:
    """Begins one run, follows it to its end, and writes that down."""

    def __init__(self, folder: str, launch: dict[str, Any]) -> None:
        self._folder = folder
        self._launch = launch
        self._log = LogPages(launch["log"], launch["log_bytes"])
        self._sinks: dict[int, tuple[LogPages | CopyFile, ...]] = {}  # by pipe: where it goes
        self._main = 0
        self._status: int | None = None  # of the main process, once it has ended
        self._failure = ""
        self._cpu_s = 0.0
        self._max_rss_bytes = 0
        self._wake = wake_up_on_children()
        self._feed = Feed(launch["stdin"]) if launch.get("stdin") else None
        copies = Copies(launch)
        self._unwritable = copies.trouble
        self._fds = Descriptors()
        self._terminal = -1  # the job's end of it stays open: its last words are read after its end
        if launch.get("terminal"):
            self._open_terminal(copies.output)
        else:
            self._open_pipes(copies)
        self._commands = Commands(self._fds, folder, launch)
        self._open_door()

    def _open_pipes(self, copies: Copies) -> None:
        launch = self._launch
        output = self._pipe_to(launch.get("out"), copies.output)
        apart = launch.get("err") or copies.error is not copies.output
        errors = self._pipe_to(launch.get("err"), copies.error) if apart else output
        self._streams = (self._feed.reading if self._feed else -1, output, errors)
        self._console = Console(self._fds, {"": self._log}, -1, False)

    def _open_terminal(self, copy: CopyFile | None) -> None:
        ours, self._terminal = open_terminal(*self._launch["terminal"])
        self._sinks[ours] = (self._log,) if copy is None else (self._log, copy)
        self._streams = (self._terminal, self._terminal, self._terminal)
        self._console = Console(self._fds, {"": self._log}, ours, True)
        self._console.sources = [ours]

    def _open_door(self) -> None:
        """A job runs without one rather than not at all."""
        with suppress(OSError):
            door = Door(self._fds, self._folder, self._console, self._commands)
            door.may_start = self._why_nothing_beside

    def _why_nothing_beside(self) -> str:
        main = read_stat(self._main)
        if main is None or main.has_ended:
            return "it has ended"
        return "it is suspended" if main.state in "Tt" else ""

    def _pipe_to(self, own: str | None, copy: CopyFile | None) -> int:
        """The end that the job writes to. All goes into the log, into one of its own and into a file
        of its user's, if any."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        widen(reading)
        logs = (self._log, LogPages(own, self._launch["log_bytes"])) if own else (self._log,)
        self._sinks[reading] = (*logs, copy) if copy is not None else logs
        return writing

    def keep(self) -> None:
        errors, gate = self._prepare()
        write_durably(self._folder, KEEPER, json.dumps(self._identity()))
        try:
            self._begin(errors, gate)
            self._reserve()
            self._follow()
        except Exception as problem:  # whatever it is, the job's end must be told
            self._failure = f"the keeper failed: {one_line(problem)}"
        self._end_the_rest()
        self._drain()
        self._record(self._ending())

    def _prepare(self) -> tuple[int, int]:
        """The job's process, made ready and waiting at a gate: it runs nothing before we are on record.

        Signals are blocked meanwhile, so that none is lost between two ways of taking it.
        """
        gate, opened = os.pipe2(os.O_CLOEXEC)
        errors, failed = os.pipe2(os.O_CLOEXEC)
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        self._main = os.fork()
        if self._main == 0:
            os.close(opened)
            become_the_job(self._launch, self._streams, gate, failed)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for fd in {gate, failed, *self._streams} - {-1, self._terminal}:
            os.close(fd)
        return errors, opened

    def _identity(self) -> dict[str, int | str]:
        me, main = read_stat(os.getpid()), read_stat(self._main)
        assert me is not None
        assert main is not None, "it cannot go before it was waited for"
        guard = read_stat(me.parent)
        return {
            "pid": me.pid,
            "started": me.started,
            "guard": me.parent,
            "guard_started": guard.started if guard is not None else 0,
            "child": main.pid,
            "child_started": main.started,
            "boot": boot_id(),
        }

    def _begin(self, errors: int, gate: int) -> None:
        """Open the gate, unless it was asked to stop meanwhile.

        Who asks later finds the main process in keeper.json: there is no moment between.
        """
        called_off = os.path.exists(os.path.join(self._folder, STOP))
        if called_off:
            self._failure = "it was asked to stop before it began"
            self._status = int(signal.SIGTERM)  # as if it had obeyed at once
        elif self._feed is not None and self._feed.is_gone():
            self._failure = (
                "cannot start again: its standard input was longer than the "
                f"{STDIN_BYTES >> 20} MB that are kept of it"
            )
            self._status = CANNOT_RUN << 8
        elif self._unwritable:
            self._failure = f"cannot start: {self._unwritable}"
            self._status = CANNOT_RUN << 8
        else:
            _open_gate(gate)
        os.close(gate)
        self._failure = self._failure or _read_all(errors).decode(errors="surrogateescape")
        os.close(errors)

    def _follow(self) -> None:
        """Copy the output and bury the dead until the main process has ended."""
        self._fds.add(self._wake, self._look_for_the_dead)
        for pipe in self._sinks:
            self._fds.add(pipe, partial(self._look, pipe))
        self._reap()
        while self._status is None:
            self._fds.wait(self._patience_ms())

    def _patience_ms(self) -> int | None:
        feed = self._feed.pump() if self._feed else None
        consoles = [self._console.look(), self._commands.tend()]
        told = [int(own * 1000) + 1 for own in consoles if own is not None]
        return min([*told, *([feed] if feed is not None else [])], default=None)

    def _look(self, pipe: int, events: int) -> None:
        if events & WRITE:
            self._console.send()
        with suppress(BlockingIOError):
            if events & ~WRITE and not self._copy(pipe):
                self._fds.remove(pipe)  # everybody has closed it

    def _copy(self, pipe: int) -> int:
        data = os.read(pipe, _CHUNK) if self._terminal < 0 else read_terminal(pipe)
        for log in self._sinks[pipe]:
            log.write(data)
        self._console.printed()
        return len(data)

    def _look_for_the_dead(self, events: int) -> None:
        self._reap()

    def _reap(self) -> bool:
        """Take note of all that have ended. False: nobody is left, dead or alive."""
        forget_wake_ups(self._wake)
        self._end_group_of_main()
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._cpu_s += usage.ru_utime + usage.ru_stime
            self._max_rss_bytes = max(self._max_rss_bytes, usage.ru_maxrss * 1024)
            if pid == self._main and self._status is None:
                self._status = status
            self._commands.ended(pid, status)

    def _end_group_of_main(self) -> None:
        """When the main process has ended and is not yet buried: until then the number is its own."""
        if self._status is None and os.waitid(os.P_PID, self._main, _PEEK) is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._main, signal.SIGKILL)

    def _end_the_rest(self) -> None:
        """What has become another user's (sudo) is not ours to end: say so and wait no longer."""
        left = end_descendants(self._reap, self._wake)
        if left:
            numbers = " ".join(str(stat.pid) for stat in left)
            self._failure = self._failure or f"left behind, as another user's processes: {numbers}"

    def _drain(self) -> None:
        """What is in the pipe, and no more: somebody whom we could not end may go on writing."""
        if self._terminal >= 0:
            os.close(self._terminal)
        for pipe in self._sinks:
            os.set_blocking(pipe, False)
            left = PIPE_BYTES
            with suppress(BlockingIOError):
                while left > 0 and (length := self._copy(pipe)):
                    left -= length

    def _ending(self) -> dict[str, int | float | str | None]:
        status = self._status
        killed = status is not None and os.WIFSIGNALED(status)
        return {
            "code": None if status is None or killed else os.WEXITSTATUS(status),
            "signal": os.WTERMSIG(status) if status is not None and killed else None,
            "failure": self._failure[:_FAILURE_CHARACTERS],
            "ended_at": time.time(),
            "cpu_s": round(self._cpu_s, 6),
            "max_rss_bytes": self._max_rss_bytes,
        }

    def _reserve(self) -> None:
        """Room for exit.json, taken now: its bytes are overwritten in place when the disk is full."""
        with suppress(OSError):  # then we may have to try for longer at the end
            overwrite(os.path.join(self._folder, _EXIT_RESERVE), b" " * _RESERVED_BYTES)

    def _record(self, ending: dict[str, int | float | str | None]) -> None:
        """The job's end must not be lost: try until it works."""
        reserve = os.path.join(self._folder, _EXIT_RESERVE)
        text = json.dumps(ending).encode().ljust(_RESERVED_BYTES)
        for log in {log for logs in self._sinks.values() for log in logs}:
            log.close()
        while True:
            try:
                overwrite(reserve, text)
                return rename_durably(reserve, self._folder, EXIT)
            except OSError:
                if not os.path.isdir(self._folder):
                    return None  # taken away with all that it held: nobody waits for us
                time.sleep(0.1)


def _open_gate(gate: int) -> None:
    with suppress(BrokenPipeError):  # it could not be made ready; it says why
        os.write(gate, b"1")


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 4096):
        parts.append(part)
    return b"".join(parts)


def may_begin(folder: str) -> bool:
    """Whether this run is ours: we hold its lock (until we end) and nobody has begun it.

    Another who holds the lock may die before it has begun: we leave only when it has.
    """
    lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    while not os.path.exists(os.path.join(folder, KEEPER)):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return not os.path.exists(os.path.join(folder, KEEPER))
        time.sleep(0.005)
    return False


def guard(keeper: int) -> int:
    """Wait for the keeper; returns its exit code. If it was killed, the processes of its job are
    ours: end them.

    Nobody can say then how the job ended, but nothing of it is left when we end.
    """
    while True:
        pid, status = os.wait()
        if pid == keeper:
            break
    wake = wake_up_on_children()

    def reap() -> bool:
        forget_wake_ups(wake)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            return True
        return False

    end_descendants(reap, wake)
    return os.waitstatus_to_exitcode(status)


def main(folder: str) -> None:
    folder = os.path.abspath(folder)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # whatever the one who started us had open
    os.chdir("/")
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in _SURVIVED:
        signal.signal(number, signal.SIG_IGN)
    if not may_begin(folder):
        return
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.fork()
    if keeper:
        sys.exit(guard(keeper))
    os.setsid()  # who kills a whole group or session gets one of us, not both
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    Keeper(folder, read_json(os.path.join(folder, LAUNCH))).keep()
