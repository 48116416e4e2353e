"""The process that becomes the job: its user, its folder, its streams, its command."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from contextlib import suppress

from .files import read_json
from .terminal import take_as_own

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from typing import Any, NoReturn

CANNOT_RUN, _NOT_FOUND = 126, 127  # as a shell has it
_ENOEXEC = 8
_NOT_NOW = (11, 12, 23, 24)  # EAGAIN, ENOMEM and these
_EXECUTE_WITHIN_S = 300.0
_EXECUTE_AGAIN_S = 0.2
_PR_SET_PDEATHSIG = 1


def become_the_job(
    launch: dict[str, Any], streams: tuple[int, int, int], gate: int, errors: int
) -> NoReturn:
    """In the child: prepare everything, wait at the gate, run the command. Never returns."""
    code = CANNOT_RUN
    try:
        _run_the_command(launch, streams, gate)
    except CannotRun as problem:
        code = problem.code
        os.write(errors, str(problem).encode(errors="surrogateescape"))
    except BaseException as problem:
        os.write(errors, f"cannot start: {one_line(problem)}".encode(errors="surrogateescape"))
    finally:
        os._exit(code)


class CannotRun(Exception):
    """One clear line for the job's user, and the exit code that a shell would give."""

    def __init__(self, line: str, code: int = CANNOT_RUN) -> None:
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
    if launch.get("terminal"):
        take_as_own(0)
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


def one_line(problem: BaseException) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())
