"""Processes as /proc shows them, and signals that never reach a stranger."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from typing import TypeAlias

    Table: TypeAlias = dict[int, "Stat"]

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


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
        "terminal",
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
        self.terminal = int(fields[4])  # a device number; 0: it has none
        self.cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
        self.waited_cpu_s = (int(fields[13]) + int(fields[14])) / _TICKS
        self.threads = int(fields[17])
        self.started = int(fields[19])
        self.resident_bytes = int(fields[21]) * _PAGE

    @property
    def has_ended(self) -> bool:
        """Whether it is a zombie. (A main thread may be one while other threads work.)"""
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


def boot_id() -> str:
    """Numbers and start times of processes mean nothing after a reboot; this tells."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


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


def stop_descendants(root: int) -> list[Stat]:
    """SIGSTOP to all below `root` until no new ones appear; returns all of them."""
    stopped: set[tuple[int, int]] = set()
    while True:
        everybody = [s for s in descendants(root, all_processes()) if not s.has_ended]
        new = [stat for stat in everybody if (stat.pid, stat.started) not in stopped]
        if not new:
            return everybody
        send_to_groups(root, new, signal.SIGSTOP)
        stopped.update((stat.pid, stat.started) for stat in new)
