"""The keeper: a small process beside each job. It outlives the daemon and writes down how the job ended.

Above it stands its guard, which does nothing but wait for it. Orphans of a job come to its keeper, and
when that one is killed, to the guard, which ends them: whatever session or environment they have made
for themselves, they cannot choose whom they come to.

Run as `python -I -S keeper.py RUN_FOLDER`, in a session of its own. A run folder holds

    launch.json   what to run, written by whoever starts the keeper
    lock          held by the one keeper that may run it
    keeper.json   the keeper and the job's main process; once it is there, this run is never begun again
    stop          made when the job is asked to stop; if it is there before the job runs, it never does
    exit.json     how it ended; there exactly once unless the keeper itself was killed

It starts in some 20 ms: it imports little and nothing of ours. Therefore what it shares with
processes.py (reading /proc, signalling) is here.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeAlias

    Table: TypeAlias = dict[int, "Stat"]

LAUNCH = "launch.json"
LOCK = "lock"
KEEPER = "keeper.json"
STOP = "stop"
EXIT = "exit.json"
TROUBLE = "keeper.err"

_BEFORE = ".before"  # beside the log: how many bytes came before its first one
HEAD, OLDER = ".head", ".1"  # beside the log: the first page ever, and the one before the last
_HEAD_PART = 8  # one of so many bytes is for the beginning
_PUT, _GOT = ".put", ".got"  # beside the standard input: what is there, and what the job has had
STDIN_BYTES = 1 << 26  # that are kept of it
_FEED_MS = (2, 100)  # between two looks at it: while it flows, and while nothing comes
_ABANDONED_S = 900.0  # nobody has given a sign for so long: there is no more to come
_EXIT_RESERVE = "exit.tmp"
_RESERVED_BYTES = 4096
_FAILURE_CHARACTERS = 500  # six bytes each at the worst: they fit into the reserve
_CHUNK = 1 << 18
_PIPE_BYTES = 1 << 20  # what anybody may ask for; a burst of output does not make the job wait
_LONGEST_ROUND_S = 1.0
_CANNOT_RUN, _NOT_FOUND = 126, 127  # as a shell has it
_ENOEXEC = 8
_NO_DESCRIPTOR = (23, 24)  # ENFILE, EMFILE
_NOT_NOW = (11, 12, 23, 24)  # EAGAIN, ENOMEM and these
_EXECUTE_WITHIN_S = 300.0
_EXECUTE_AGAIN_S = 0.2

_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


# ------------------------------------------------------------------------------------- /proc


class Stat:
    """One process as /proc/PID/stat has it. `started` with `pid` names a process for ever."""

    __slots__ = (
        "cpu_s",
        "group",
        "parent",
        "pid",
        "resident_bytes",
        "started",
        "state",
        "threads",
        "waited_cpu_s",
    )

    def __init__(self, pid: int, line: bytes) -> None:
        # The name, in parentheses, may hold anything: spaces, parentheses, digits.
        fields = line[line.rindex(b")") + 2 :].split()
        self.pid = pid
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
        self.waited_cpu_s = (int(fields[13]) + int(fields[14])) / _TICKS
        self.threads = int(fields[17])
        self.started = int(fields[19])
        self.resident_bytes = int(fields[21]) * _PAGE

    @property
    def has_ended(self) -> bool:
        """A zombie. (A main thread may be one while others still work.)"""
        return self.state in "ZXx" and self.threads <= 1


def read_stat(pid: int, *, thread: int | None = None) -> Stat | None:
    """The process (or one thread of it), or None if there is no such process."""
    path = f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat"
    try:
        fd = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        return Stat(pid, os.read(fd, 4096))
    except (ProcessLookupError, ValueError):  # it went while we read
        return None
    finally:
        os.close(fd)


def all_processes() -> Table:
    """Every process on this machine by its number."""
    numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return {stat.pid: stat for stat in map(read_stat, numbers) if stat is not None}


def descendants(root: int, table: Table) -> list[Stat]:
    """All below `root`, parents before their children."""
    children: dict[int, list[Stat]] = {}
    for stat in table.values():
        children.setdefault(stat.parent, []).append(stat)
    found = list(children.get(root, ()))
    for stat in found:
        found.extend(children.get(stat.pid, ()))
    return found


def send(pid: int, started: int, signum: int) -> bool:
    """Signal this very process and no other that has got its number since. False: it is gone."""
    handle = _handle(pid)
    try:
        stat = read_stat(pid)
        if stat is None or stat.started != started:
            return False
        if handle is None:
            os.kill(pid, signum)
        else:
            signal.pidfd_send_signal(handle, signum)
        return True
    except ProcessLookupError:
        return False
    finally:
        if handle is not None:
            os.close(handle)


def send_to_groups(root: int, stats: list[Stat], signum: int) -> bool:
    """One signal to each process group of these descendants of `root`. False: some were refused.

    A group is signalled in one stroke, so that nobody is born between and forgotten: not even a fork
    bomb is faster. Nobody else is hit, as a job is a session of its own and its orphans come to us.
    """
    keeper = read_stat(root)
    alone = []  # not yet in a session of its own; or just dying: 0, 1 and -1 would mean many others
    groups: dict[int, list[Stat]] = {}
    for stat in stats:
        if stat.group <= 1 or keeper is None or stat.group == keeper.group:
            alone.append(stat)
        else:
            groups.setdefault(stat.group, []).append(stat)
    allowed = [send_if_allowed(stat, signum) for stat in alone]
    allowed += [_send_to_group(group, members, signum) for group, members in groups.items()]
    return all(allowed)


def _send_to_group(group: int, members: list[Stat], signum: int) -> bool:
    """As long as one member is in it, the group's number is not given to others."""
    if any(_is_still_in(group, member) for member in members):
        try:
            os.killpg(group, signum)
        except ProcessLookupError:
            pass
        except PermissionError:
            return False
    return True


def _is_still_in(group: int, member: Stat) -> bool:
    now = read_stat(member.pid)
    return now is not None and now.started == member.started and now.group == group


def send_if_allowed(stat: Stat, signum: int) -> bool:
    try:
        send(stat.pid, stat.started, signum)
    except PermissionError:
        return False
    return True


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:  # gone; or a kernel before 5.3, or no descriptor left: then by number
        return None


# --------------------------------------------------------------------------------------- the log


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
        self._most = self._page if bytes_before(self._path) else self._head

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
    numbers = _read_numbers(log + _BEFORE)
    return numbers[0] if numbers else 0


def _note_bytes_before(log: str, number: int) -> None:
    with suppress(OSError):
        _write_number(log + _BEFORE, b"%020d" % number)


# -------------------------------------------------------------------------------- standard input


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
        _widen(self._pipe)
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
        data = os.pread(self._ring, min(there, _PIPE_BYTES, STDIN_BYTES - place), place)
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
    numbers = _read_numbers(stdin + _PUT)
    return (numbers[0], numbers[1], numbers[2] == 1) if len(numbers) == 3 else (0, 0, False)


def note_put(stdin: str, upto: int, put: int, is_all: bool) -> None:
    _write_number(stdin + _PUT, b"%020d %020d %d" % (upto, put, is_all))


def what_is_got(stdin: str) -> int:
    """Bytes that the job has had; -1: it wants no more."""
    numbers = _read_numbers(stdin + _GOT)
    return numbers[0] if numbers else 0


def note_got(stdin: str, number: int) -> None:
    _write_number(stdin + _GOT, b"%020d" % number)


def _read_numbers(path: str) -> list[int]:
    try:
        with open(path, encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR:
            raise  # that it cannot be looked at does not say that there is none
        return []


def _write_number(path: str, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.pwrite(fd, text, 0)  # in one go and always as long: never half a number
    finally:
        os.close(fd)


# --------------------------------------------------------------------------------------- the job


def become_the_job(
    launch: dict[str, Any], streams: tuple[int, int, int], gate: int, errors: int
) -> NoReturn:
    """In the child: prepare everything, wait at the gate, run the command. Never returns."""
    code = _CANNOT_RUN
    try:
        _run_the_command(launch, streams, gate)
    except CannotRun as problem:
        code = problem.code
        os.write(errors, str(problem).encode(errors="surrogateescape"))
    except BaseException as problem:
        os.write(errors, f"cannot start: {_one_line(problem)}".encode(errors="surrogateescape"))
    finally:
        os._exit(code)


class CannotRun(Exception):
    """One clear line for the job's user, and the exit code that a shell would give."""

    def __init__(self, line: str, code: int = _CANNOT_RUN) -> None:
        super().__init__(line)
        self.code = code


def _run_the_command(launch: dict[str, Any], streams: tuple[int, int, int], gate: int) -> None:
    os.setsid()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    env = _environment(launch)
    _give(streams, launch)
    _limit_files(launch.get("open_files"))
    _take_on_user(launch)
    os.umask(launch.get("umask", 0o022))
    _enter(launch["cwd"])
    for standard, stream in enumerate(streams):
        os.dup2(stream if stream >= 0 else os.open(os.devnull, os.O_RDONLY), standard)
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # only now: a change of user would undo it
    if not os.read(gate, 1):
        os._exit(0)  # the keeper is gone, or the job was called off
    # What was sent to us since we are in the keeper's books waits, blocked, and strikes here.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _execute(launch["argv"], env)


def _environment(launch: dict[str, Any]) -> dict[str, str]:
    try:
        return {**read_json(launch["env_file"]), **launch["env"]}
    except (OSError, ValueError) as error:
        raise CannotRun(f"cannot start: its environment cannot be read: {error}") from error


def _give(streams: tuple[int, int, int], launch: dict[str, Any]) -> None:
    """The job opens its own standard streams again by /dev/stdin, /dev/stdout and /dev/stderr."""
    if launch["uid"] is not None:
        for stream in {*streams} - {-1}:
            with suppress(OSError):
                os.fchown(stream, launch["uid"], -1)


def _limit_files(number: int | None) -> None:
    if number is not None:
        with suppress(OSError, ValueError):
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


def _take_on_user(launch: dict[str, Any]) -> None:
    uid, gid, groups = launch["uid"], launch["gid"], launch["groups"]
    try:
        if groups is not None or (gid is not None and uid is not None):
            os.setgroups(groups if groups is not None else [gid])
        if gid is not None:
            os.setgid(gid)
        if uid is not None:
            os.setuid(uid)
    except OSError as error:
        line = f"cannot start: not allowed to run as user {uid}, group {gid}: {error.strerror}"
        raise CannotRun(line) from error


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except FileNotFoundError as error:
        raise CannotRun(f"cannot start: its work folder {folder!r} is gone") from error
    except OSError as error:
        line = f"cannot start: cannot enter its work folder {folder!r}: {error.strerror}"
        raise CannotRun(line) from error


def _execute(argv: list[str], env: dict[str, str]) -> None:
    """As os.execvpe does, which would import a module first: our user may not be able to read it."""
    refused: OSError | None = None
    for path in _candidates(argv[0], env):
        try:
            _execute_when_it_can(path, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if path == argv[0] or os.path.exists(path):  # not: a folder that is closed to us
                refused = refused or error
    if refused is None:
        raise CannotRun(f"cannot start: {_why_not_found(argv[0])}", _NOT_FOUND)
    if isinstance(refused, PermissionError):
        raise CannotRun(f"cannot start: {argv[0]!r} is not executable")
    hint = " (does it lack a #! line?)" if refused.errno == _ENOEXEC else ""
    raise CannotRun(f"cannot start {argv[0]!r}: {refused.strerror}{hint}")


def _execute_when_it_can(path: str, argv: list[str], env: dict[str, str]) -> None:
    """A user who has as many processes as they may gets no more, for the time being."""
    until = time.monotonic() + _EXECUTE_WITHIN_S
    while True:
        try:
            os.execve(path, argv, env)
        except OSError as error:
            if error.errno not in _NOT_NOW or time.monotonic() > until:
                raise
        time.sleep(_EXECUTE_AGAIN_S)


def _candidates(command: str, env: dict[str, str]) -> list[str]:
    if "/" in command:
        return [command]
    return [os.path.join(folder, command) for folder in env.get("PATH", os.defpath).split(":")]


def _why_not_found(command: str) -> str:
    if "/" not in command:
        return f"no command {command!r} in its PATH"
    if os.path.exists(command):
        return f"{command!r} names an interpreter that does not exist"
    return f"there is no {command!r}"


def prctl(option: int, value: int) -> None:
    unused = ctypes.c_ulong(0)
    if ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), unused, unused, unused) != 0:
        raise OSError(f"prctl({option}, {value}) failed")


# ------------------------------------------------------------------------------------ the keeper


class Keeper:
    """Begins one run, follows it to its end, and writes that down."""

    def __init__(self, folder: str, launch: dict[str, Any]) -> None:
        self._folder = folder
        self._launch = launch
        self._log = LogPages(launch["log"], launch["log_bytes"])
        self._sinks: dict[int, tuple[LogPages, ...]] = {}  # by pipe: where goes what comes from it
        self._main = 0
        self._status: int | None = None  # of the main process, once it has ended
        self._failure = ""
        self._cpu_s = 0.0
        self._max_rss_bytes = 0
        self._wake = _wake_up_on_children()
        self._feed = Feed(launch["stdin"]) if launch.get("stdin") else None
        output = self._pipe_to(launch.get("out"))
        errors = self._pipe_to(launch["err"]) if launch.get("err") else output
        self._streams = (self._feed.reading if self._feed else -1, output, errors)

    def _pipe_to(self, own: str | None) -> int:
        """The end that the job writes to. All goes into the log, and into one of its own, if any."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        _widen(reading)
        logs = (self._log, LogPages(own, self._launch["log_bytes"])) if own else (self._log,)
        self._sinks[reading] = logs
        return writing

    def keep(self) -> None:
        errors, gate = self._prepare()
        _write_durably(self._folder, KEEPER, json.dumps(self._identity()))
        try:
            self._begin(errors, gate)
            self._reserve()
            self._follow()
        except Exception as problem:  # whatever it is, the job's end must be told
            self._failure = f"the keeper failed: {_one_line(problem)}"
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
        for fd in {gate, failed, *self._streams} - {-1}:
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
            self._status = _CANNOT_RUN << 8
        else:
            _open_gate(gate)
        os.close(gate)
        self._failure = self._failure or _read_all(errors).decode(errors="surrogateescape")
        os.close(errors)

    def _follow(self) -> None:
        """Copy the output and bury the dead until the main process has ended."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        for pipe in self._sinks:
            poll.register(pipe, select.POLLIN)
        self._reap()
        while self._status is None:
            for fd, _ in poll.poll(self._feed.pump() if self._feed else None):
                if fd == self._wake:
                    self._reap()
                elif not self._copy(fd):
                    poll.unregister(fd)  # everybody has closed it

    def _copy(self, pipe: int) -> int:
        data = os.read(pipe, _CHUNK)
        for log in self._sinks[pipe]:
            log.write(data)
        return len(data)

    def _reap(self) -> bool:
        """Take note of all that have ended. False: nobody is left, dead or alive."""
        _forget_wake_ups(self._wake)
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
        for pipe in self._sinks:
            os.set_blocking(pipe, False)
            with suppress(BlockingIOError):
                for _ in range(_PIPE_BYTES // _CHUNK + 1):
                    if not self._copy(pipe):
                        break

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
            _overwrite(os.path.join(self._folder, _EXIT_RESERVE), b" " * _RESERVED_BYTES)

    def _record(self, ending: dict[str, int | float | str | None]) -> None:
        """The job's end must not be lost: try until it works."""
        reserve = os.path.join(self._folder, _EXIT_RESERVE)
        text = json.dumps(ending).encode().ljust(_RESERVED_BYTES)
        for log in {log for logs in self._sinks.values() for log in logs}:
            log.close()
        while True:
            try:
                _overwrite(reserve, text)
                return _rename_durably(reserve, self._folder, EXIT)
            except OSError:
                if not os.path.isdir(self._folder):
                    return None  # taken away with all that it held: nobody waits for us
                time.sleep(0.1)


def end_descendants(reap: Callable[[], bool], wake: int) -> list[Stat]:
    """Every process left behind is our descendant (orphans come to us): end them all. Those that are
    not ours to end; as a rule none.

    First all are stopped, so that nobody makes new ones or notices that others die.
    """
    patience_s = 0.01
    while reap():
        _hurry()
        left = stop_descendants(os.getpid())
        allowed = [send_if_allowed(stat, signal.SIGKILL) for stat in left]
        if left and not any(allowed):
            return left
        select.select([wake], [], [], patience_s)
        patience_s = min(2 * patience_s, _LONGEST_ROUND_S)
    return []


def stop_descendants(root: int) -> list[Stat]:
    """SIGSTOP to all below `root`, until nobody new turns up; all of them."""
    stopped: set[tuple[int, int]] = set()
    while True:
        everybody = [s for s in descendants(root, all_processes()) if not s.has_ended]
        new = [stat for stat in everybody if (stat.pid, stat.started) not in stopped]
        if not new:
            return everybody
        send_to_groups(root, new, signal.SIGSTOP)
        stopped.update((stat.pid, stat.started) for stat in new)


def _hurry() -> None:
    """Ahead of all that we are about to end, where we may (as root): else a fork bomb outruns us."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _wake_up_on_children() -> int:
    """A descriptor that can be read when a child has ended."""
    wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    return wake


def _forget_wake_ups(wake: int) -> None:
    with suppress(BlockingIOError):
        while os.read(wake, 4096):
            pass


def _widen(pipe: int) -> None:
    with suppress(OSError):  # not to a user who has very many pipes
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _open_gate(gate: int) -> None:
    with suppress(BrokenPipeError):  # it could not be made ready; it says why
        os.write(gate, b"1")


# ----------------------------------------------------------------------------------------- files


def read_json(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content


def boot_id() -> str:
    """Numbers and start times of processes mean nothing after a reboot; this tells."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _write_durably(folder: str, name: str, text: str) -> None:
    temporary = os.path.join(folder, name + ".tmp")
    _overwrite(temporary, text.encode())
    _rename_durably(temporary, folder, name)


def _overwrite(path: str, content: bytes) -> None:
    """In place: where the file has so many bytes already, no room is needed."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        done = 0
        while done < len(content):
            done += os.pwrite(fd, content[done:], done)
        os.ftruncate(fd, len(content))
        os.fsync(fd)
    finally:
        os.close(fd)


def _rename_durably(path: str, folder: str, name: str) -> None:
    os.rename(path, os.path.join(folder, name))
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 4096):
        parts.append(part)
    return b"".join(parts)


def _one_line(problem: BaseException) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())


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
    """Wait for the keeper. If it was killed, its job's processes are ours: end them. Its exit code.

    How the job ended is then for nobody to say; but once we are gone, so is all of it.
    """
    while True:
        pid, status = os.wait()
        if pid == keeper:
            break
    wake = _wake_up_on_children()

    def reap() -> bool:
        _forget_wake_ups(wake)
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


_SURVIVED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)

if __name__ == "__main__":
    main(sys.argv[1])
