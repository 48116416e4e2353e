"""The processes of a job: all descendants of its keeper. Linux, read from /proc.

A process is its number with its start time, checked right before each signal: a number that was given
to a stranger since is never hit. Orphans of a job come to its keeper, so the tree misses nobody.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dovetail.worlds.local import keeper
from dovetail.worlds.local.keeper import files, proc
from dovetail.worlds.local.keeper.proc import Stat, all_processes, descendants, read_stat
from dovetail.worlds.local.runs import freezer
from dovetail.worlds.local.runs.freezer import NotFrozen
from dovetail.worlds.shortage import is_short

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "ash"))
_STILL = "TtZXx"  # stopped, traced, dead
_ROUND_S = 0.002
_BLOCKED_IN_THE_KERNEL_S = 0.5  # so long we wait for one that sleeps uninterruptibly
_TOP_DOWN_S = 0.3  # so long parents are stopped before their children
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """One process, for ever: numbers are used again, but not with the same start time."""

    pid: int
    started: int  # clock ticks since the machine started


def is_alive(pid: int, started: int) -> bool:
    """Whether this very process exists and has not ended. (A zombie has.)"""
    stat = read_stat(pid)
    return stat is not None and stat.started == started and not stat.has_ended


def tree(pid: int) -> list[Process]:
    """All living descendants, parents before their children; not the process itself."""
    return [Process(stat.pid, stat.started) for stat in living(pid)]


def signal_each(processes: Iterable[Process], signum: int) -> None:
    """Send one signal to each of these processes that still exists and that we may signal."""
    for process in processes:
        with suppress(PermissionError):
            proc.send(process.pid, process.started, signum)


def terminate(keeper_pid: int, signum: int = signal.SIGTERM) -> None:
    """One signal to every process of the job, as a rule SIGTERM.

    A frozen job gets it when it is thawed.
    """
    proc.send_to_groups(keeper_pid, living(keeper_pid), signum)


def hang_up(keeper_pid: int) -> None:
    """SIGHUP to shells at a terminal: those do not heed SIGTERM."""
    shells = [stat for stat in living(keeper_pid) if stat.terminal and _name(stat.pid) in _SHELLS]
    signal_each((Process(stat.pid, stat.started) for stat in shells), signal.SIGHUP)


def _name(pid: int) -> str:
    with suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as name:
        return name.read().strip()
    return ""


def kill(keeper_pid: int, within_s: float = _PATIENCE_S) -> list[Process]:
    """SIGKILL in rounds until none is left, stopped ones too. Those that would not die: as a rule none.

    All are stopped first, so that a fork bomb cannot outrun us.
    """
    return _kill_all(lambda: _stopped(keeper_pid), within_s)


def resident_bytes(keeper_pid: int) -> int:
    """Memory that the job holds; what several share counts once.

    This walks page tables, some milliseconds per gigabyte: for a decision, not for every second.
    """
    return sum(proportional_bytes(stat) for stat in living(keeper_pid))


def cpu_seconds(keeper_pid: int) -> float:
    """Processor time of the job so far, with that of its processes that have ended."""
    table = all_processes()
    alive = sum(s.cpu_s + s.waited_cpu_s for s in descendants(keeper_pid, table))
    ended = table[keeper_pid].waited_cpu_s if keeper_pid in table else 0.0
    return alive + ended


@dataclass(frozen=True, slots=True)
class Tree:
    """All that a keeper keeps, as the group that a world works on."""

    keeper_pid: int

    def pids(self) -> list[int]:
        return [process.pid for process in tree(self.keeper_pid)]

    def memory_bytes(self) -> int:
        return resident_bytes(self.keeper_pid)

    def freeze(self) -> int:
        return freeze(self.keeper_pid)

    def thaw(self) -> None:
        thaw(self.keeper_pid)

    def is_frozen(self) -> bool:
        return is_frozen(self.keeper_pid)

    def ask_to_stop(self) -> None:
        terminate(self.keeper_pid)
        hang_up(self.keeper_pid)

    def kill(self) -> None:
        kill(self.keeper_pid)


# ---------------------------------------------------------------------------------- freezing


def freeze(keeper_pid: int, within_s: float = _PATIENCE_S) -> int:
    """Stop every process of the job where it is; the bytes of memory that it holds meanwhile.

    With the freezer where the job has a cgroup (v2) of its own which we may write, else by SIGSTOP in
    rounds until nobody runs, also of those born meanwhile. Where that is impossible it is undone, and
    NotFrozen raised.
    """
    try:
        if group := _own_cgroup(keeper_pid):
            freezer.freeze(group, within_s)
        else:
            _stop_in_rounds(keeper_pid, within_s)
    except (OSError, NotFrozen) as problem:
        thaw(keeper_pid)
        raise NotFrozen(f"the job of keeper {keeper_pid} cannot be frozen: {problem}") from problem
    return resident_bytes(keeper_pid)


def thaw(keeper_pid: int) -> None:
    """Let a frozen job go on. Children that it had stopped itself go on too: we cannot tell them apart.

    Children first: a parent that looks after them finds all at work.
    """
    group = _own_cgroup(keeper_pid)
    if group and freezer.is_frozen(group):
        freezer.thaw(group)
    signal_each(reversed(tree(keeper_pid)), signal.SIGCONT)


def is_frozen(keeper_pid: int) -> bool:
    """Whether there are processes and none of them can run."""
    group = _own_cgroup(keeper_pid)
    if group and freezer.is_frozen(group):
        return True
    alive = living(keeper_pid)
    return bool(alive) and not any(_moving_threads(stat) for stat in alive)


def _stop_in_rounds(keeper_pid: int, within_s: float) -> None:
    began = time.monotonic()
    while moving := _moving(keeper_pid):
        waited = time.monotonic() - began
        if waited > _BLOCKED_IN_THE_KERNEL_S and all(states == {"D"} for states in moving.values()):
            return  # the signal waits for them: they stop before they run any of their own code
        if waited > within_s:
            raise NotFrozen(f"process {next(iter(moving)).pid} does not stop")
        first = _without_moving_parent(moving) if waited < _TOP_DOWN_S else list(moving)
        if not proc.send_to_groups(keeper_pid, first, signal.SIGSTOP):
            raise NotFrozen("some of its processes are another user's")
        time.sleep(_ROUND_S)


def _without_moving_parent(moving: Collection[Stat]) -> list[Stat]:
    """A shell that sees its child stop takes the terminal back: so it is stopped before."""
    numbers = {stat.pid for stat in moving}
    return [stat for stat in moving if stat.parent not in numbers] or list(moving)


def _moving(keeper_pid: int) -> dict[Stat, set[str]]:
    """The processes that are not wholly stopped, with the states of their threads that are not."""
    states = {stat: _moving_threads(stat) for stat in living(keeper_pid)}
    return {stat: found for stat, found in states.items() if found}


def _moving_threads(stat: Stat) -> set[str]:
    if stat.threads == 1:
        return {stat.state} - set(_STILL)
    threads = []
    with suppress(FileNotFoundError, ProcessLookupError):
        threads = os.listdir(f"/proc/{stat.pid}/task")
    found = (read_stat(stat.pid, thread=int(thread)) for thread in threads)
    return {thread.state for thread in found if thread is not None} - set(_STILL)


def peak_of_own_cgroup(keeper_pid: int, stats: Sequence[Stat]) -> int | None:
    """The most memory that the job's control group has held; None: it has none of its own, as a rule."""
    home = _cgroup_path(keeper_pid)
    if not stats or _cgroup_path(stats[0].pid) == home:
        return None
    with suppress(OSError, ValueError):
        if group := _own_cgroup(keeper_pid):
            return int((group / "memory.peak").read_text())
    return None


def _own_cgroup(keeper_pid: int) -> Path | None:
    """The cgroup that holds this job and nobody else, if there is one and we may freeze it."""
    mount = _cgroup_mount()
    members = {stat.pid for stat in living(keeper_pid)}
    paths = {path for path in map(_cgroup_path, members) if path}
    home = _cgroup_path(keeper_pid)
    if mount is None or len(paths) != 1 or home is None:
        return None
    path = paths.pop()
    if home == path or home.startswith(path.rstrip("/") + "/"):
        return None  # the keeper must not be frozen
    group = mount / path.lstrip("/")
    return group if _holds_only(group, members) else None


def _holds_only(group: Path, members: set[int]) -> bool:
    try:
        files = group.rglob("cgroup.procs")
        inside = {int(line) for file in files for line in file.read_text().split()}
    except OSError:
        return False
    return inside <= members and os.access(group / "cgroup.freeze", os.W_OK)


def _cgroup_mount() -> Path | None:
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        rows = (line.split() for line in mounts)
        return next((Path(row[1]) for row in rows if row[2] == "cgroup2"), None)


def _cgroup_path(pid: int) -> str | None:
    with suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8") as lines:
        return next((line[3:].strip() for line in lines if line.startswith("0::")), None)
    return None


# --------------------------------------------------------------------------------- leftovers


def leftovers(job_id: str, runs_folder: Path) -> list[Process]:
    """Processes of this job whose keeper is gone: it was killed, and with it only the main process.

    Known by the environment they were started with: DOVETAIL_JOB_ID, and DOVETAIL_REPORT under
    `runs_folder` (other daemons have other folders). One that has wiped its environment is not found.
    """
    job_folder = Path(runs_folder) / job_id
    table = all_processes()
    kept = _kept(job_folder, table)
    return [
        Process(stat.pid, stat.started)
        for stat in table.values()
        if stat.pid not in kept and not stat.has_ended and _is_of(job_folder, stat.pid)
    ]


def kill_leftovers(job_id: str, runs_folder: Path, within_s: float = _PATIENCE_S) -> list[Process]:
    """SIGKILL to the leftovers in rounds until none is left. Those that would not die."""
    return _kill_all(lambda: leftovers(job_id, runs_folder), within_s)


def _kept(job_folder: Path, table: Mapping[int, Stat]) -> set[int]:
    """Keepers of this job that live, and all that they look after."""
    kept: set[int] = set()
    for file in job_folder.glob(f"*/{keeper.KEEPER}"):
        with suppress(OSError, ValueError):
            known = files.read_json(str(file))
            for role, started in (("pid", "started"), ("guard", "guard_started")):
                if role in known and is_alive(known[role], known[started]):
                    below = descendants(known[role], dict(table))
                    kept |= {known[role], *(stat.pid for stat in below)}
    return kept


def _is_of(job_folder: Path, pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (variable.partition(b"=") for variable in file.read().split(b"\0"))
    except OSError as error:
        if is_short(error):
            raise
        return False  # gone, or another user's
    env = {name: value for name, _, value in pairs}
    if env.get(b"DOVETAIL_JOB_ID") != os.fsencode(job_folder.name):
        return False
    report = os.path.realpath(env.get(b"DOVETAIL_REPORT", b""))
    return report.startswith(os.fsencode(os.path.realpath(job_folder)) + b"/")


# ------------------------------------------------------------------------------------- below


def living(keeper_pid: int) -> list[Stat]:
    """All below the keeper that have not ended."""
    return [stat for stat in descendants(keeper_pid, all_processes()) if not stat.has_ended]


def _stopped(keeper_pid: int) -> list[Process]:
    return [Process(stat.pid, stat.started) for stat in proc.stop_descendants(keeper_pid)]


def _kill_all(who_is_left: Callable[[], list[Process]], within_s: float) -> list[Process]:
    deadline = time.monotonic() + within_s
    while left := who_is_left():
        if time.monotonic() > deadline:
            return left
        signal_each(left, signal.SIGKILL)
        time.sleep(_ROUND_S)
    return []


def proportional_bytes(stat: Stat) -> int:
    """Its memory; what it shares with others counts in part."""
    with suppress(OSError), open(f"/proc/{stat.pid}/smaps_rollup", "rb") as lines:
        for line in lines:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return stat.resident_bytes
