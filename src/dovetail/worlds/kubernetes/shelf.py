"""What is kept of jobs: on the controller's own disk, and what they save on a claim of their namespace.

Files on a claim are copied by a pod of its namespace that has nothing else to do: nobody else may mount
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from dovetail.core.model import JobId
from dovetail.worlds.agent import RunId
from dovetail.worlds.kubernetes.launch_notes import LaunchNotes, keep_in
from dovetail.worlds.local.folders import Folders, LogFile
from dovetail.worlds.world import UserAccount

_BEGINS_WITH: Final = "begins_with"  # in the folder of a job: which copy, on the claim


class Keeps(Protocol):
    """The cluster, as far as a shelf needs it."""

    def look_at_log(self, job_id: str) -> None: ...

    def copy_saved(self, sources: Sequence[JobId], name: str) -> bool: ...

    def drop_saved(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class PodLog(LogFile):
    """The log as far as it is here; who asks for it makes it be followed."""

    look: Callable[[], None]

    @property
    def place(self) -> str:
        return ""

    def end(self) -> int:
        self.look()
        return LogFile.end(self)

    def read(self, start: int, most: int) -> tuple[int, bytes]:
        self.look()
        return LogFile.read(self, start, most)


class PodShelf(Folders):
    """`cluster` is there from the moment its world has joined."""

    is_of_this_machine = False
    cluster: Keeps | None = None

    def __init__(self, runs: Path, environments: Path, socket: Path) -> None:
        super().__init__(runs, environments, socket, shared=False)
        self.launches: Final = LaunchNotes(runs / "launches")
        self._handed_over: set[str] = set()

    def log(self, job_id: str, stream: str = "") -> LogFile:
        return PodLog(super().log(job_id, stream).path, lambda: self._look(job_id))

    def _look(self, job_id: str) -> None:
        if self.cluster is not None:
            self.cluster.look_at_log(job_id)

    # ------------------------------------------------------------------------------------- lives

    def live(self) -> list[JobId]:
        return list(self.launches.live())

    def live_run(self, job_id: JobId) -> RunId:
        return RunId(job_id, self.launches.live()[job_id])

    def forget_live(self, job_id: JobId) -> None:
        """What was noted of its launches is kept with them: a pod of theirs may come too late."""
        for number, note in self.launches.drop(job_id).items():
            keep_in(self.launch(RunId(job_id, number)), note)

    def launch(self, run: RunId) -> Path:
        return self.folder(run.job_id) / str(run.number)

    def leave_alone(self, job_id: str) -> str:
        self.forget_live(JobId(job_id))
        return ""

    # ------------------------------------------------------------------------------- checkpoints

    def begins_with(self, job_id: str) -> str:
        """The name of the copy that was handed over to it; "" if none was."""
        try:
            return (self.folder(job_id) / _BEGINS_WITH).read_text()
        except OSError:
            return ""

    def copy_checkpoint(
        self, sources: Sequence[JobId], name: str, owner: UserAccount | None
    ) -> bool:
        return self.cluster is not None and self.cluster.copy_saved(sources, name)

    def hand_over(self, name: str, job_id: JobId) -> None:
        (self.folder(job_id) / _BEGINS_WITH).write_text(name)
        self._handed_over.add(name)

    def drop_copy(self, name: str) -> None:
        if self.cluster is not None and name not in self._handed_over:
            self.cluster.drop_saved(name)
