"""Which launches there are, and which pods are theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from dovetail.core.model import JobId
from dovetail.worlds.agent import RunId
from dovetail.worlds.kubernetes.gangs import Gang
from dovetail.worlds.kubernetes.pods import Pod
from dovetail.worlds.kubernetes.shelf import PodShelf


class Roster:
    """From any thread. `is_at_work` says of a launch whether somebody is."""

    def __init__(self, folders: PodShelf, is_at_work: Callable[[RunId], bool]) -> None:
        self._folders: Final = folders
        self._is_at_work: Final = is_at_work
        self._lock: Final = threading.RLock()
        self._gangs: dict[RunId, Gang] = {}
        self._runs: dict[JobId, list[RunId]] = {}
        self._dropped: set[RunId] = set()  # and not forgotten yet
        self._by_uid: dict[str, RunId] = {}

    # ---------------------------------------------------------------------------------- launches

    def gang(self, run: RunId) -> Gang:
        """It is known from now on."""
        with self._lock:
            known = self._gangs.get(run)
            if known is None:
                known = self._gangs[run] = self._as_noted(run)
                self._runs.setdefault(run.job_id, []).append(run)
            return known

    def _as_noted(self, run: RunId) -> Gang:
        return Gang(run, self._folders.launch(run), self._folders.launches)

    def known(self, run: RunId) -> Gang | None:
        with self._lock:
            return self._gangs.get(run)

    def all(self) -> list[Gang]:
        with self._lock:
            return list(self._gangs.values())

    def last(self, job_id: str) -> Gang | None:
        with self._lock:
            runs = self._runs.get(JobId(job_id), ())
            return self._gangs[max(runs)] if runs else None

    def drop(self, job_id: JobId) -> list[Gang]:
        """All its launches; each is forgotten when nobody is at work on it: see `forget`."""
        self._folders.forget_live(job_id)
        with self._lock:
            runs = self._runs.pop(job_id, [])
            self._dropped.update(runs)
            return [self._gangs[run] for run in runs]

    def forget(self, gang: Gang) -> bool:
        """Only if it was dropped and nobody is at work on it. Was it?"""
        with self._lock:
            run = gang.run
            if run not in self._dropped or self._is_at_work(run):
                return False
            self._dropped.discard(run)
            self._gangs.pop(run, None)
            for pod in (*gang.all_pods(), *gang.vanished):
                self._by_uid.pop(pod.uid, None)
            return True

    # -------------------------------------------------------------------------------------- pods

    def noted(self, pod: Pod) -> Gang:
        """The launch that it would be of, which nobody else need know of."""
        with self._lock:
            return self._gangs.get(pod.run) or self._as_noted(pod.run)

    def owns(self, pod: Pod) -> bool:
        """Not because it says so: its launch is noted, there and under that name."""
        with self._lock:
            if pod.uid in self._by_uid:
                return True
        return self.noted(pod).owns(pod)

    def see(self, pod: Pod, is_gone: bool) -> Gang:
        gang = self.gang(pod.run)
        gang.see(pod, is_gone)
        with self._lock:
            if is_gone and pod.uid not in (own.uid for own in gang.vanished):
                self._by_uid.pop(pod.uid, None)
            elif gang.owns(pod):
                self._by_uid[pod.uid] = pod.run
        return gang

    def of_pod(self, uid: str) -> Gang | None:
        with self._lock:
            run = self._by_uid.get(uid)
            return self._gangs.get(run) if run is not None else None

    def node_of(self, uid: str) -> str:
        """Where that pod was bound to; "" if it is none of ours."""
        gang = self.of_pod(uid)
        pods = (*gang.all_pods(), *gang.vanished) if gang is not None else ()
        return next((pod.node for pod in pods if pod.uid == uid), "")
