"""What is noted of launches before anything is made of them: all in one file, a line for each change.

So the notes of thousands of jobs that start at once are made sure of together, by as few waits for the
disk as it takes. What is over is left out when the file is written anew. The note of a job that is over
goes into the folder of its launch, where a pod that comes too late is looked up.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from dovetail.core.model import JobId
from dovetail.worlds.agent import RunId

_FEWEST_BYTES: Final = 1 << 20  # a smaller file is not written anew
_WORTH_IT: Final = 4  # times as long as what is still of use
_PODS: Final = "pods.json"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

log = logging.getLogger("dovetail.kubernetes")


@dataclass(frozen=True, slots=True)
class GangNote:
    """What is known of a launch without asking the cluster."""

    namespace: str
    nodes: tuple[str, ...]  # by rank
    masks: tuple[int, ...]  # the GPUs on each
    grace_s: float = 60.0
    attempt: int = 1
    is_made: bool = False  # all its pods were created and bound
    is_given_up: bool = False  # they were not, and never will be: the next attempt has other names
    late: int = 0  # attempts that did not come up in time
    is_moved: bool = False  # pods before these have saved what these go on with
    log_from: int = 0  # its output begins there in the job's log
    reports_from: int = 0  # and its reports in the job's

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FIELDS}


_FIELDS: Final = tuple(own.name for own in fields(GangNote))


def note_from(found: Mapping[str, Any]) -> GangNote:
    return GangNote(**{**found, "nodes": tuple(found["nodes"]), "masks": tuple(found["masks"])})


# ------------------------------------------------------------------- in the folder of a launch


def keep_in(folder: Path, note: GangNote) -> None:
    write_launch_file(folder / _PODS, note.as_json(), is_sure=False)


def kept_in(folder: Path) -> GangNote | None:
    try:
        return note_from(json.loads((folder / _PODS).read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_launch_file(path: Path, content: Mapping[str, Any], is_sure: bool) -> None:
    part = path.with_suffix(".part")
    try:
        file = os.open(part, _NEW, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(part, _NEW, 0o600)
    try:
        os.write(file, json.dumps(content).encode())
        if is_sure:
            os.fsync(file)
    finally:
        os.close(file)
    os.replace(part, path)


# ------------------------------------------------------------------------ of those that are live


class LaunchNotes:
    """From any thread. Whoever only reads leaves the file as it is: another process may be writing."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._lock: Final = threading.Lock()  # for all below
        self._notes: dict[JobId, dict[int, GangNote]] | None = None  # None: not read yet
        self._fd = -1  # -1: nothing was written yet, or what was written may be torn
        self._bytes = self._kept_bytes = 0
        self._written = self._sure = 0  # lines
        self._syncing: Final = threading.Lock()

    # ------------------------------------------------------------------------------------- reading

    def find(self, run: RunId) -> GangNote | None:
        with self._lock:
            return self._all().get(run.job_id, {}).get(run.number)

    def has(self, job_id: JobId) -> bool:
        with self._lock:
            return job_id in self._all()

    def live(self) -> dict[JobId, int]:
        """The jobs that may have pods, and the number of their last launch."""
        with self._lock:
            return {job_id: max(own) for job_id, own in self._all().items()}

    def _all(self) -> dict[JobId, dict[int, GangNote]]:
        if self._notes is None:
            self._notes = {}
            for line in self._lines():
                self._take(line)
        return self._notes

    def _lines(self) -> Iterator[dict[str, Any]]:
        """The last one may be torn, by a loss of power or a full disk."""
        try:
            found = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        for line in found:
            try:
                yield json.loads(line)
            except ValueError:
                log.warning("a torn line in %s is left out", self._path)

    def _take(self, line: Mapping[str, Any]) -> None:
        assert self._notes is not None
        job_id, note = JobId(line["job"]), line.get("note")
        if note is None:
            self._notes.pop(job_id, None)
        else:
            self._notes.setdefault(job_id, {})[line["run"]] = note_from(note)

    # ------------------------------------------------------------------------------------- writing

    def keep(self, run: RunId, note: GangNote) -> int:
        """It outlives this process. The number is for `make_sure`: then it outlives a loss of power."""
        with self._lock:
            self._all().setdefault(run.job_id, {})[run.number] = note
            self._write(_line(run.job_id, run.number, note))
            return self._written

    def drop(self, job_id: JobId) -> dict[int, GangNote]:
        """It is over: the notes that there were, by launch."""
        with self._lock:
            known = self._all().pop(job_id, {})
            if known:
                self._write(_line(job_id))
            return known

    def make_sure(self, number: int) -> None:
        """What was kept up to there is on the disk. One waits for it; the others find it done."""
        with self._syncing:
            if self._sure >= number and self._fd >= 0:
                return
            with self._lock:
                if self._fd < 0:
                    self._write_anew()
                fd, upto = os.dup(self._fd), self._written
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)
            self._sure = upto

    def _write(self, line: bytes) -> None:
        """The whole file, if it was never written by us or is full of what is over."""
        self._written += 1
        is_long = self._bytes > max(_FEWEST_BYTES, _WORTH_IT * self._kept_bytes)
        try:
            if self._fd < 0 or is_long:
                self._write_anew()
            elif os.write(self._fd, line) < len(line):
                raise OSError("the disk is full")
            else:
                self._bytes += len(line)
        except OSError:
            self._close()
            raise

    def _write_anew(self) -> None:
        notes = self._all().items()
        data = b"".join(_line(job, run, note) for job, own in notes for run, note in own.items())
        part = self._path.with_suffix(".part")
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._close()
        self._fd = os.open(part, _NEW | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if os.write(self._fd, data) < len(data):
            raise OSError("the disk is full")
        os.fsync(self._fd)
        os.replace(part, self._path)
        _sync_folder(self._path.parent)
        self._bytes = self._kept_bytes = len(data)

    def close(self) -> None:
        """Whoever writes again writes it anew."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _line(job_id: JobId, run: int = 0, note: GangNote | None = None) -> bytes:
    found = {"job": job_id, "run": run, "note": None if note is None else note.as_json()}
    return json.dumps(found).encode() + b"\n"


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
