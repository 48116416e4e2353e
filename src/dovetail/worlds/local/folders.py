"""The folders of jobs on this machine: scripts, logs, standard input, reports, checkpoints.

runs/7/          a job: its scripts, `log`, `reports.jsonl`, `checkpoints`, and the folders of its
                 launches, by number; 7.0 is a member of the array whose scripts are in 7
runs/live/7      there while job 7 has processes: the number of their launch
env/7.json       its environment, which the daemon keeps; env/7.stdin what it reads
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dovetail.core.model import JobId
from dovetail.worlds.agent import RunId
from dovetail.worlds.local import checkpoints, keeper
from dovetail.worlds.local.keeper import feed
from dovetail.worlds.local.runs.run import Launch, ProcessRun
from dovetail.worlds.local.slurm.tools import TOOLS, lay_out_tools
from dovetail.worlds.local.watching import output
from dovetail.worlds.world import Order, UserAccount

LOG = "log"
_STREAMS: Final = {"": LOG, "stdout": "out", "stderr": "err"}
REPORTS = "reports.jsonl"  # what a job tells of itself
CHECKPOINTS = "checkpoints"  # where it may save itself
STEPS = "steps"  # how many steps a batch script has had
_LIVE, _LOST = "live", "lost"
_UNSETTLED = "unsaid"  # in the folder of a job whose submission is not in the journal yet
_ASIDE = "removing"
_JOB: Final = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A job's log (see `keeper.pages`): of a long one the beginning and the end are kept."""

    path: Path

    @property
    def place(self) -> str:
        return str(self.path)

    def end(self) -> int:
        return output.end_of(self.path)

    def read(self, start: int, most: int) -> tuple[int, bytes]:
        return output.read(self.path, start, most)


@dataclass(frozen=True, slots=True)
class StdinRing:
    """A job's standard input; `keeper.feed` reads it."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def room_bytes(self) -> int:
        return feed.STDIN_BYTES

    def put(self) -> tuple[int, bool]:
        return feed.what_is_put(str(self.path))[1:]

    def got(self) -> int:
        return feed.what_is_got(str(self.path))

    def is_there(self) -> bool:
        return self.path.exists()

    def add(self, put: int, piece: bytes, is_all: bool) -> int:
        """It may have no data: then its time alone says that the sender is alive."""
        upto = put + len(piece)
        feed.note_put(str(self.path), upto, put, False)
        place = put % feed.STDIN_BYTES
        first = feed.STDIN_BYTES - place
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            _write(fd, piece[:first], place)
            _write(fd, piece[first:], 0)
        finally:
            os.close(fd)
        feed.note_put(str(self.path), upto, upto, is_all)
        return upto


def _write(fd: int, data: bytes, place: int) -> None:
    while data:
        written = os.pwrite(fd, data, place)
        data, place = data[written:], place + written


class Folders:
    """`shared`: jobs of other users run here, so theirs is what they write."""

    is_of_this_machine = True

    def __init__(self, runs: Path, environments: Path, socket: Path, shared: bool) -> None:
        self.runs: Final = runs
        self.socket: Final = socket
        self._environments: Final = environments
        self._shared: Final = shared
        self._unsettled: list[Path] = []

    # ------------------------------------------------------------------------------------- places

    def folder(self, job_id: str) -> Path:
        return self.runs / job_id

    def run(self, job_id: str, number: int | str) -> ProcessRun:
        return ProcessRun(self.folder(job_id) / str(number))

    def reports(self, job_id: str) -> Path:
        return self.folder(job_id) / REPORTS

    def checkpoints(self, order: Order) -> Path:
        if order.checkpoint_dir:
            return Path(order.workdir, order.checkpoint_dir)
        return self.folder(order.job_id) / CHECKPOINTS

    def hook(self, name: str) -> Path:
        """A program of the administrator, beside the runs."""
        return self.runs.parent / "hooks" / name

    def environment(self, order: Order) -> Path:
        """The file of its variables, which the daemon writes. Secrets are nowhere else."""
        return self._environments / f"{order.kept_under}.json"

    def log(self, job_id: str, stream: str = "") -> LogFile:
        return LogFile(self.log_path(job_id, stream))

    def log_path(self, job_id: str, stream: str = "") -> Path:
        return self.folder(job_id) / _STREAMS[stream]

    def stdin(self, job_id: str) -> StdinRing:
        return StdinRing(self._environments / f"{job_id}.stdin")

    def note(self, job_id: str) -> Path:
        """The file that exists while the job has processes."""
        return self.runs / _LIVE / job_id

    def live(self) -> list[JobId]:
        return [JobId(note.name) for note in sorted((self.runs / _LIVE).glob("*"))]

    def live_run(self, job_id: JobId) -> RunId:
        return RunId(job_id, int(self.note(job_id).read_text()))

    def forget_live(self, job_id: JobId) -> None:
        self.note(job_id).unlink(missing_ok=True)

    def jobs(self) -> set[str]:
        return {path.name for path in self.runs.iterdir() if _JOB.fullmatch(path.name)}

    def holds(self, job_id: str) -> bool:
        return self.folder(job_id).exists()

    # --------------------------------------------------------------------------------- taking on

    def take_on(self, order: Order, owner: UserAccount | None) -> None:
        folder, common = self.folder(order.job_id), self.folder(order.kept_under)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._mark(folder)
        if order.shared_by is None or not common.exists():
            self._write_scripts(common, order, owner)
            self._mark(common)
        self._fill(folder, order, owner)

    def _mark(self, folder: Path) -> None:
        """Marks a job that the journal does not know yet."""
        (folder / _UNSETTLED).touch(mode=0o600)
        self._unsettled.append(folder / _UNSETTLED)

    def repair(self, order: Order, owner: UserAccount | None) -> None:
        folder = self.folder(order.job_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write_scripts(self.folder(order.kept_under), order, owner)
        self._fill(folder, order, owner)

    def _fill(self, folder: Path, order: Order, owner: UserAccount | None) -> None:
        if order.is_slurm:
            (folder / STEPS).touch(mode=0o600)
        (folder / REPORTS).touch(mode=0o600)
        (folder / CHECKPOINTS).mkdir(mode=0o700, exist_ok=True)
        self._give_to(owner, folder)

    def _write_scripts(self, folder: Path, order: Order, owner: UserAccount | None) -> None:
        """Written once for an array. Its folder also reserves the array's number."""
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, text in order.scripts.items():
            (folder / name).write_text(text, encoding="utf-8")
        if order.is_slurm:
            lay_out_tools(folder / TOOLS)
        self._give_to(owner, folder)

    def _give_to(self, owner: UserAccount | None, folder: Path) -> None:
        """A job of another user reads its scripts and writes its reports and checkpoints. The folder
        itself stays ours: nobody else can put a link where we write."""
        if not self._shared or owner is None:
            return
        folder.chmod(0o711)
        for path in _inside(folder):
            os.chown(path, owner.uid, -1, follow_symlinks=False)

    def settle(self) -> None:
        unsettled, self._unsettled = self._unsettled, []
        for mark in unsettled:
            mark.unlink(missing_ok=True)

    def drop(self) -> list[JobId]:
        unsettled, self._unsettled = self._unsettled, []
        for mark in unsettled:
            shutil.rmtree(mark.parent, ignore_errors=True)
        return [JobId(mark.parent.name) for mark in unsettled]

    def drop_unsettled(self, is_known: Callable[[str], bool]) -> set[str]:
        marked = [job_id for job_id in self.jobs() if (self.folder(job_id) / _UNSETTLED).exists()]
        never = {job_id for job_id in marked if not is_known(job_id)}
        for job_id in marked:
            if job_id in never:
                shutil.rmtree(self.folder(job_id), ignore_errors=True)
            else:
                (self.folder(job_id) / _UNSETTLED).unlink(missing_ok=True)
        return never

    def leave_alone(self, job_id: str) -> str:
        """Removed from the live jobs: the daemon would end its processes as leftovers."""
        note = self.note(job_id)
        if note.exists():
            aside = self.runs / _LOST
            aside.mkdir(mode=0o700, exist_ok=True)
            note.replace(aside / job_id)
        pid = self._keeper(job_id)
        return "" if pid is None else f"process {pid}"

    def _keeper(self, job_id: str) -> int | None:
        try:
            runs = [
                ProcessRun(path) for path in self.folder(job_id).iterdir() if path.name.isdigit()
            ]
        except OSError:
            return None
        return next((pid for run in runs if (pid := run.keeper_pid()) is not None), None)

    def as_launched(self, job_id: str) -> tuple[Order, UserAccount | None] | None:
        found = self.folder(job_id).glob(f"[0-9]*/{keeper.LAUNCH}")
        launched = sorted(found, key=lambda path: int(path.parent.name))
        if not launched:
            return None
        launch = Launch.from_json(launched[-1].read_text("utf-8"))
        if launch.uid is None or launch.gid is None:
            # On a box that is everybody's nobody knows any more whose it is.
            return None if self._shared else (_as_it_was(job_id, launch), None)
        account = UserAccount(launch.uid, launch.gid, launch.groups or ())
        return _as_it_was(job_id, launch), account

    # ---------------------------------------------------------------------------------- removing

    def ended(self, job_id: str) -> None:
        stdin = str(self.stdin(job_id).path)
        for path in (stdin, *feed.beside_stdin(stdin)):
            with suppress(OSError):  # looked for again at the next start
                os.unlink(path)

    def all_ended_but(self, known: Collection[str]) -> None:
        for path in self._environments.glob("*.stdin"):
            if path.stem not in known:
                self.ended(path.stem)

    def clear(self) -> None:
        for left in self.runs.glob(f"{_ASIDE}*"):
            remove_tree(left)

    def remove(self, job_id: str) -> None:
        """Moved aside first, so that nobody meets half of it. Links inside are not followed. Each has a
        place of its own: who goes on writing into one keeps no other from going."""
        aside = self.runs / f"{_ASIDE}-{job_id}"
        remove_tree(aside)
        folder = self.folder(job_id)
        if folder.is_symlink() or not folder.exists():
            return
        os.replace(folder, aside)
        remove_tree(aside)

    def bytes_of(self, job_id: str | None = None) -> int:
        return _bytes_in(self.runs if job_id is None else self.folder(job_id))

    def free_bytes(self) -> int:
        try:
            found = os.statvfs(self.runs)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize

    # ------------------------------------------------------------------------------- checkpoints

    def copy_checkpoint(
        self, sources: Sequence[JobId], name: str, owner: UserAccount | None
    ) -> bool:
        folders = [self.folder(job_id) / CHECKPOINTS for job_id in sources]
        source = next((own for own in folders if checkpoints.has_something(own)), None)
        if source is not None:
            checkpoints.copy(source, self._copy(name), owner)
        return source is not None

    def hand_over(self, name: str, job_id: JobId) -> None:
        os.replace(self._copy(name), self.folder(job_id) / CHECKPOINTS)

    def drop_copy(self, name: str) -> None:
        shutil.rmtree(self._copy(name), ignore_errors=True)

    def _copy(self, name: str) -> Path:
        return self.runs / f"{name}.part"


def _as_it_was(job_id: str, launch: Launch) -> Order:
    kept_under = JobId(launch.env_file.stem)
    return Order(
        JobId(job_id),
        launch.argv,
        launch.env,
        launch.cwd,
        owner="",
        shared_by=None if kept_under == job_id else kept_under,
        umask=launch.umask,
        streams_apart=launch.out is not None,
        has_stdin=launch.stdin is not None,
        terminal=launch.terminal,
        grace_s=launch.grace_s,
    )


def _inside(folder: Path) -> Iterator[Path]:
    """A job's files that become its owner's: not its runs, and not the tools, which we write anew."""
    own = (path for path in folder.iterdir() if path.name != TOOLS)
    yield from (path for path in own if not path.name.isdigit())


def remove_tree(folder: Path) -> None:
    """However deep it is: jobs make folders in theirs, and Python's own way ends a thousand below."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        words = ["rm", "-rf", "--one-file-system", "--", str(folder)]
        subprocess.run(words, check=False, cwd="/", env={"PATH": os.defpath}, capture_output=True)


def _bytes_in(folder: Path) -> int:
    """On the disk; links are not followed, and what lies too deep for a path is left out."""
    total, waiting = 0, [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for own in found:
                    if own.is_dir(follow_symlinks=False):
                        waiting.append(own.path)
                    with suppress(FileNotFoundError):
                        total += own.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue
    return total
