"""The pods of one launch: all of them or none, one on each node.

What is made is noted before it is made, and how it ended before its pods are deleted: whoever takes
over after a crash finds there what the cluster can no longer tell.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from time import monotonic, time
from typing import Any, Final

from dovetail.worlds.agent import ProcessEnded, RunId
from dovetail.worlds.endings import Ending
from dovetail.worlds.kubernetes.launch_notes import (
    GangNote,
    LaunchNotes,
    kept_in,
    write_launch_file,
)
from dovetail.worlds.kubernetes.pods import Pod, pod_of
from dovetail.worlds.kubernetes.settings import Settings

_EXIT, _STOP = "exit.json", "stop"
_KILLED: Final = 9


class Gang:
    """From any thread, under its lock. Its pods are as last seen, by rank."""

    def __init__(self, run: RunId, folder: Path, notes: LaunchNotes) -> None:
        self.run: Final = run
        self.folder: Final = folder
        self._notes: Final = notes
        self._kept = 0  # the number of its note there
        self.lock: Final = threading.RLock()
        self.pods: dict[int, Pod] = {}
        self.vanished: list[Pod] = []  # gone from the API server before anybody saw them end
        self._seen_at: dict[int, float] = {}
        self.ending: Ending | None = _read_ending(folder)
        self.note: GangNote | None = notes.find(run) or kept_in(folder)
        self.is_moving = False  # its pods end so that others go on elsewhere: that is no end of it
        self.is_ending = False  # we end it
        self.taken_away = ""  # why somebody else does
        self.is_closed = self.ending is not None  # all that it has left is read
        self.is_told = False  # and its end was told, after all its reports
        self._end_fd = -1

    # ------------------------------------------------------------------------------------- notes

    def begin_attempt(self, note: GangNote) -> None:
        """What there was of the one before is of no matter any more."""
        with self.lock:
            self.pods.clear()
            self.vanished.clear()
            self.taken_away = ""
            self.keep_note(note)

    def keep_note(self, note: GangNote) -> None:
        """For the next controller. See `make_sure`."""
        with self.lock:
            self.note = note
            self._kept = self._notes.keep(self.run, note)

    def make_sure(self) -> None:
        """Before anything is made, or ended, that could not be found out again after a loss of power."""
        self._notes.make_sure(self._kept)

    def keep_ending(self, ending: Ending) -> None:
        with self.lock:
            if self.ending is None:
                found = {own.name: getattr(ending, own.name) for own in fields(ending)}
                write_launch_file(self.folder / _EXIT, found, is_sure=True)
                self.ending = ending

    def ask_to_stop(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / _STOP).touch(mode=0o600)

    @property
    def stop_asked(self) -> bool:
        return (self.folder / _STOP).exists()

    def leave(self) -> None:
        """Its pods are gone; those that follow have other names."""
        with self.lock:
            assert self.note is not None
            self.keep_note(replace(self.note, is_given_up=True, is_made=False, is_moved=True))
            self.make_sure()
            self.pods.clear()
            (self.folder / _STOP).unlink(missing_ok=True)
            self.is_moving = self.is_ending = False

    # -------------------------------------------------------------------------------------- pods

    @property
    def width(self) -> int:
        return len(self.note.nodes) if self.note is not None else 0

    def is_stray(self, pod: Pod) -> bool:
        """It is one that we could have made, and comes too late: from a controller that was thought
        dead, or of an attempt that was given up."""
        with self.lock:
            note = self.note
            if note is None or pod.namespace != note.namespace:
                return False
            return self.is_closed or pod.attempt < note.attempt + note.is_given_up

    def owns(self, pod: Pod) -> bool:
        """Is it where we have made it? Anybody may give a pod of their own namespace our labels, and a
        name that is free there. One of an attempt that was given up is somebody else's matter."""
        note = self.note
        if note is None or not 0 <= pod.rank < len(note.nodes):
            return False
        is_here = pod.namespace == note.namespace and pod.node in ("", note.nodes[pod.rank])
        return is_here and pod.attempt == note.attempt

    def see(self, pod: Pod, is_gone: bool = False) -> None:
        """Where nothing is known of the launch, it is a stray: see `KubernetesCluster.begin`."""
        with self.lock:
            if self.note is not None and not self.owns(pod):
                return
            known = self.pods.get(pod.rank)
            if not is_gone:
                self.pods[pod.rank] = pod
                self._seen_at[pod.rank] = monotonic()
            elif known is not None and known.uid == pod.uid:
                self._lose(known)
            if pod.taken_away and not (self.is_ending or self.is_moving or self.taken_away):
                self.taken_away = pod.taken_away

    def _lose(self, pod: Pod) -> None:
        del self.pods[pod.rank]
        if not pod.is_over:
            self.vanished.append(pod)

    def take_note_of(self, made: Mapping[str, Any], settings: Settings) -> None:
        """As the API server answers who creates it: the watch may be late."""
        pod = pod_of(made, settings)
        if pod is not None:
            with self.lock:
                self.pods.setdefault(pod.rank, pod)
                self._seen_at.setdefault(pod.rank, monotonic())

    def keep_only(self, uids: Collection[str], as_of: float) -> bool:
        """Those were all that there were at that time. Is any of ours not among them?"""
        with self.lock:
            gone = [
                pod
                for rank, pod in self.pods.items()
                if pod.uid not in uids and self._seen_at[rank] < as_of
            ]
            for pod in gone:
                self._lose(pod)
            return bool(gone)

    def all_pods(self) -> list[Pod]:
        with self.lock:
            return [self.pods[rank] for rank in sorted(self.pods)]

    @property
    def is_complete(self) -> bool:
        return self.width > 0 and len(self.pods) == self.width

    @property
    def is_over(self) -> bool:
        """Nothing of it runs any more."""
        with self.lock:
            return all(pod.is_over for pod in self.pods.values())

    @property
    def is_running(self) -> bool:
        """Every pod is at work, or has ended already."""
        with self.lock:
            return self.is_complete and all(
                pod.is_running or (pod.is_over and pod.container) for pod in self.pods.values()
            )

    def verdict(self) -> Ending | None:
        """How the launch has ended, if it has: once any pod has failed, or all are over. None also
        if one is missing: see `is_lost`."""
        pods = self.all_pods()
        over = [pod.ending for pod in pods if pod.ending is not None]
        failed = [own for own in over if own.code != 0]
        if failed:
            return min(failed, key=lambda own: own.ended_at or time())
        if over and len(over) == self.width:
            return max(over, key=lambda own: own.ended_at)
        return None

    def told_ending(self) -> Ending | None:
        """The verdict. Who was taken away and could not save itself has not ended by its own doing."""
        verdict = self.verdict()
        if verdict is None or not self.taken_away or verdict.code == 0:
            return verdict
        if self.stop_asked and verdict.signal != _KILLED:
            return verdict
        return replace(verdict, failure=self.taken_away, from_outside=True)

    @property
    def is_lost(self) -> bool:
        """A pod that was made is not there any more, and nobody has said how it ended."""
        with self.lock:
            is_made = self.note is not None and self.note.is_made
            return is_made and self.ending is None and len(self.pods) < self.width

    # --------------------------------------------------------------------------------- its end

    def end_fd(self) -> int:
        """Can be read once the launch is over. The caller's to close."""
        with self.lock:
            if self._end_fd < 0:
                self._end_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            return os.dup(self._end_fd)

    def ring_out(self) -> None:
        """It is over, and all that it has left is read."""
        with self.lock:
            self.is_closed = True
            if self._end_fd >= 0:
                os.eventfd_write(self._end_fd, 1)
                os.close(self._end_fd)
                self._end_fd = -1


class PodRun:
    """A launch as a stage knows it: see `worlds.agent.Run`."""

    def __init__(self, gang: Gang, is_frozen: bool) -> None:
        self._gang: Final = gang
        self._is_frozen: Final = is_frozen

    @property
    def id(self) -> RunId:
        return self._gang.run

    def begun(self) -> bool:
        note = self._gang.note
        return note is not None and note.is_made

    def is_alive(self) -> bool:
        gang = self._gang
        return (self.begun() or gang.is_moving) and not gang.is_closed

    def is_frozen(self) -> bool:
        return self._is_frozen

    def ending(self) -> Ending | None:
        return self._gang.ending

    def note_told(self) -> None:
        self._gang.is_told = True

    def over_since(self) -> float:
        ending = self._gang.ending
        return ending.ended_at if ending is not None and ending.ended_at else time()

    @property
    def stop_asked(self) -> bool:
        return self._gang.stop_asked

    def pidfd(self) -> int:
        handle = self._gang.end_fd()
        if self.is_alive():
            return handle
        os.close(handle)
        raise ProcessLookupError(f"no pods of job {self.id.job_id} are left")


def noting_ends(post: Callable[[object], None]) -> Callable[[object], None]:
    """Facts are told as before; of a launch that was told to be over, that is noted."""

    def told(fact: object) -> None:
        post(fact)
        if isinstance(fact, ProcessEnded) and isinstance(fact.run, PodRun):
            fact.run.note_told()

    return told


def _read_ending(folder: Path) -> Ending | None:
    try:
        return Ending(**json.loads((folder / _EXIT).read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None
