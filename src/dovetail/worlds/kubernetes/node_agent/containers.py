"""A container as a group of processes: the leaf control group that its runtime made for it.

Never the pod's own group: frozen as a whole a pod could not even be deleted.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dovetail.worlds.local import machine
from dovetail.worlds.local.keeper import proc
from dovetail.worlds.local.runs import freezer
from dovetail.worlds.local.runs.processes import Process, proportional_bytes, signal_each

_FREEZE_WITHIN_S: Final = 10.0
# A kubelet evicts pods when less than 100 MiB are free, by default, and counts more as used than we do.
_KEPT_FREE_BYTES: Final = 1 << 30
# As images name them; under v1 not even SIGKILL reaches a frozen process.
_ENDINGS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)


class ControlGroups:
    """The mount of control groups of a node, version 1 or 2."""

    def __init__(self, mount: Path) -> None:
        self._mount: Final = mount
        is_v1 = (mount / "freezer").is_dir()
        self._freezers: Final = mount / "freezer" if is_v1 else mount
        self._memory: Final = mount / "memory" if is_v1 else mount

    def find(self, pod_uid: str, container_id: str) -> Path | None:
        """The leaf, wherever the kubelet has its groups; None if there is none (any more)."""
        pod = re.compile(rf"pod{pod_uid.replace('-', '[-_]')}(\.slice)?$")
        leaf = re.compile(rf"^((?!.*conmon).*-)?{container_id}(\.scope)?$")
        for path, folders, _ in os.walk(self._freezers):
            if pod.search(path):
                found = [name for name in folders if leaf.match(name)]
                if found:
                    return Path(path, found[0])
                folders.clear()
        return None

    def memory_room(self, group: Path) -> int:
        """What may still be filled by the processes of a group, before they or the node lack it."""
        within = str(group.relative_to(self._freezers))
        on_node = machine.memory_available_bytes() - _KEPT_FREE_BYTES
        return min([on_node, *machine.rooms_upwards(self._memory, within)])


@dataclass(frozen=True, slots=True)
class Container:
    """See `ProcessGroup`."""

    group: Path

    def pids(self) -> list[int]:
        return [stat.pid for stat in self._living()]

    def memory_bytes(self) -> int:
        return sum(proportional_bytes(stat) for stat in self._living())

    def freeze(self) -> int:
        freezer.freeze(self.group, _FREEZE_WITHIN_S)
        return self.memory_bytes()

    def thaw(self) -> None:
        freezer.thaw(self.group)

    def is_frozen(self) -> bool:
        return freezer.is_frozen(self.group)

    def ask_to_stop(self) -> None:
        """As the kubelet does: its first process alone is told."""
        signal_each(self._first(), signal.SIGTERM)

    def kill(self) -> None:
        signal_each([Process(stat.pid, stat.started) for stat in self._living()], signal.SIGKILL)
        self.thaw()

    def is_asked_to_end(self) -> bool:
        """Somebody has sent its first process a signal that it cannot hear while it is frozen."""
        return any(_pending(process.pid) & _mask(_ENDINGS) for process in self._first())

    def _first(self) -> list[Process]:
        """The one that the runtime started; whatever else it starts there later (exec) is younger."""
        living = self._living()
        inside = {stat.pid for stat in living}
        first = min(
            (stat for stat in living if stat.parent not in inside),
            key=lambda stat: (stat.started, stat.pid),
            default=None,
        )
        return [] if first is None else [Process(first.pid, first.started)]

    def _living(self) -> list[proc.Stat]:
        found = map(proc.read_stat, self._numbers())
        return [stat for stat in found if stat is not None and not stat.has_ended]

    def _numbers(self) -> Iterator[int]:
        """Also of groups that a container has made inside its own."""
        for path, _, _ in os.walk(self.group):
            with suppress(OSError):
                yield from map(int, Path(path, "cgroup.procs").read_text().split())


def _pending(pid: int) -> int:
    status = _status(pid)
    return int(status.get("ShdPnd", "0"), 16) | int(status.get("SigPnd", "0"), 16)


def _mask(signals: tuple[signal.Signals, ...]) -> int:
    return sum(1 << (number - 1) for number in signals)


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}
