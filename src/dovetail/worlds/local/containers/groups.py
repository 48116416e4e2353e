"""The processes of a job in a container: listed, frozen, thawed, asked to stop, killed.

What podman starts are descendants of the job's keeper, as orphans come to it; so all that holds for
other jobs holds for them. Docker's daemon has its containers for itself and is asked.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Final

from dovetail.worlds.agent import ProcessGroup
from dovetail.worlds.local.containers.engine import DOCKER, PODMAN
from dovetail.worlds.local.keeper.proc import Stat, read_stat, send_to_groups
from dovetail.worlds.local.runs import processes
from dovetail.worlds.local.runs.freezer import NotFrozen
from dovetail.worlds.local.runs.processes import Process, Tree

TIDY_WITHIN_S: Final = 30.0  # so long an engine may take to remove a container that has ended
_LOOK_EVERY_S: Final = 0.05
_ANSWER_WITHIN_S: Final = 60.0

_inits: Final[dict[str, Process]] = {}  # the first process of each of docker's containers


def group_of(keeper_pid: int, launch: Mapping[str, Any]) -> ProcessGroup:
    """The processes of a run with this launch (see `Launch`)."""
    engine = launch.get("engine", "")
    if engine == DOCKER:
        return DockerContainer(keeper_pid, launch["argv"][0], launch["container"])
    return PodmanContainer(keeper_pid) if engine == PODMAN else Tree(keeper_pid)


def main_inside(group: ProcessGroup) -> int | None:
    """The job's main process, if it runs in a container: the first child of the container's init."""
    if not isinstance(group, PodmanContainer | DockerContainer):
        return None
    inside = group.inside()
    inits = {stat.pid for stat in inside if _numbers(stat)[-1] == 1}
    children = [stat for stat in inside if stat.parent in inits]
    return min(children, key=lambda stat: stat.started).pid if children else None


def has_ended_inside(group: ProcessGroup) -> bool:
    """Is it a container without processes, of which only the engine is left?"""
    return isinstance(group, PodmanContainer | DockerContainer) and not group.inside()


@dataclass(frozen=True, slots=True)
class PodmanContainer(Tree):
    """Podman's client, its monitor and the container's processes: frozen and thawed together."""

    def ask_to_stop(self) -> None:
        """The job alone: client and monitor would hand the signal on, and it came three times. Before
        the container is there, the client."""
        inside = [stat for stat in self.inside() if _numbers(stat)[-1] != 1]
        send_to_groups(self.keeper_pid, inside or self._all(), signal.SIGTERM)

    def kill(self) -> None:
        """Kill the container. Podman then removes it; if that takes too long, all are killed."""
        inside = self.inside()
        if inside:
            everybody = {stat.pid for stat in inside}
            processes.signal_each(map(_process, inside), signal.SIGKILL)
            others = [stat for stat in self._all() if stat.pid not in everybody]
            processes.signal_each(map(_process, others), signal.SIGCONT)
        until = monotonic() + TIDY_WITHIN_S
        while self._all() and monotonic() < until:
            if not inside and self.inside():
                return  # it has only now begun: once more
            sleep(_LOOK_EVERY_S)
        processes.kill(self.keeper_pid)

    def _all(self) -> list[Stat]:
        return processes.living(self.keeper_pid)

    def inside(self) -> list[Stat]:
        depth = len(_numbers(read_stat(os.getpid())))
        return [stat for stat in self._all() if len(_numbers(stat)) > depth]


def _process(stat: Stat) -> Process:
    return Process(stat.pid, stat.started)


def _numbers(stat: Stat | None) -> list[int]:
    """The number of a process in each of its process namespaces, ours first."""
    with suppress(OSError), open(f"/proc/{stat.pid if stat else 0}/status", "rb") as lines:
        for line in lines:
            if line.startswith(b"NSpid:"):
                return [int(word) for word in line.split()[1:]]
    return [0]


@dataclass(frozen=True, slots=True)
class DockerContainer:
    """The client is a child of the keeper; the container's processes are children of docker's daemon."""

    keeper_pid: int
    program: str
    name: str

    def pids(self) -> list[int]:
        return [stat.pid for stat in self.inside()]

    def memory_bytes(self) -> int:
        return sum(map(processes.proportional_bytes, self.inside()))

    def freeze(self) -> int:
        trouble = self._ask("pause") if not self.is_frozen() else ""
        if trouble:
            raise NotFrozen(f"container {self.name} cannot be frozen: {trouble}")
        return self.memory_bytes()

    def thaw(self) -> None:
        if self.is_frozen():
            self._ask("unpause")

    def is_frozen(self) -> bool:
        return self._told("{{.State.Paused}}") == "true"

    def ask_to_stop(self) -> None:
        """A frozen container is thawed first: docker does not signal it."""
        self.thaw()
        if self._ask("kill", "--signal=TERM"):
            processes.terminate(self.keeper_pid)

    def kill(self) -> None:
        """Remove the container; if there is none, or docker does not answer, kill the client."""
        if self._ask("rm", "--force") and self._told("{{.Id}}") == "":
            processes.kill(self.keeper_pid)

    def inside(self) -> list[Stat]:
        first = self._first()
        stat = None if first is None else read_stat(first.pid)
        if stat is None or first is None or stat.started != first.started:
            _inits.pop(self.name, None)
            return []
        return [stat, *processes.living(first.pid)]

    def _first(self) -> Process | None:
        if self.name not in _inits:
            number = self._told("{{.State.Pid}}")
            stat = read_stat(int(number)) if number.isdigit() and number != "0" else None
            if stat is None:
                return None
            _inits[self.name] = _process(stat)
        return _inits[self.name]

    def _told(self, what: str) -> str:
        asked = self._run("container", "inspect", f"--format={what}", self.name)
        return asked.stdout.strip() if asked.returncode == 0 else ""

    def _ask(self, *words: str) -> str:
        """The error message; "" as a rule."""
        asked = self._run("container", *words, self.name)
        return asked.stderr.strip() or f"exit code {asked.returncode}" if asked.returncode else ""

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [self.program, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_ANSWER_WITHIN_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return subprocess.CompletedProcess(words, 125, "", str(error))
