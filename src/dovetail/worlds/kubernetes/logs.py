"""What pods print, copied from the API server into the log of their job.

A log is followed while somebody wants it, and read to its end before the pod goes. How much of it is
here already is the length of the log since the launch began, so that nobody has to remember it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.worlds.kubernetes.client import Api, Stream
from dovetail.worlds.kubernetes.gangs import Gang
from dovetail.worlds.kubernetes.pods import CONTAINER, Pod
from dovetail.worlds.local.keeper.pages import LogPages
from dovetail.worlds.local.watching import output

_LOG_BYTES: Final = 64 * 1024 * 1024
_ASKED_FOR_S: Final = 60.0  # so long it is followed after somebody has asked for it
_MOST_FOLLOWED: Final = 200
_AGAIN_S: Final = 1.0

log = logging.getLogger("dovetail.kubernetes")


# A kubelet's words, in place of the log of a container that it has removed.
_REMOVED: Final = re.compile(rb"unable to retrieve container logs for [a-z]+://[0-9a-f]+\s*")


def _readable(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        if not _REMOVED.fullmatch(piece):
            yield piece


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"


class LogMirror:
    """`log_of` says where the log of a job lies here."""

    def __init__(self, api: Api, log_of: Callable[[str], Path]) -> None:
        self._api: Final = api
        self._log_of: Final = log_of
        self._lock: Final = threading.Lock()
        self._writing: dict[str, threading.Lock] = {}  # by job: one writer at a time
        self._followed: dict[str, Stream | None] = {}  # by uid of the pod
        self._wanted_until: dict[str, float] = {}
        self._is_over = False

    # ----------------------------------------------------------------------------------- copying

    def copy(self, gang: Gang, pod: Pod) -> None:
        """All that there is and is not here yet."""
        self._write(gang, _readable(self._api.pieces(_path(pod), container=CONTAINER)))

    def _copy_on(self, gang: Gang, pod: Pod) -> None:
        """Until its container ends."""
        stream = self._api.stream(_path(pod), container=CONTAINER, follow="true")
        try:
            with self._lock:
                self._followed[pod.uid] = stream
            self._write(gang, stream.pieces())
        finally:
            stream.close()

    def _write(self, gang: Gang, pieces: Iterator[bytes]) -> None:
        assert gang.note is not None
        job_id = gang.run.job_id
        with self._lock:
            writing = self._writing.setdefault(job_id, threading.Lock())
        with writing:
            path = self._log_of(job_id)
            pages = LogPages(str(path), _LOG_BYTES)
            known = output.end_of(path) - gang.note.log_from
            for piece in pieces:
                fresh, known = piece[max(known, 0) :], known - len(piece)
                if fresh:
                    pages.write(fresh)
            pages.close()

    # --------------------------------------------------------------------------------- following

    def want(self, gang: Gang, always: bool = False) -> None:
        """Somebody looks at it, now or as long as it runs."""
        pod = gang.pods.get(0)
        if pod is None or not pod.is_running:
            return
        with self._lock:
            until = float("inf") if always else monotonic() + _ASKED_FOR_S
            self._wanted_until[pod.uid] = max(until, self._wanted_until.get(pod.uid, 0.0))
            if pod.uid in self._followed or len(self._followed) >= _MOST_FOLLOWED:
                return
            self._followed[pod.uid] = None
        name = f"log of {pod.name}"
        threading.Thread(target=self._follow, args=(gang, pod), name=name, daemon=True).start()

    def hears(self, gang: Gang) -> bool:
        """Is what it prints followed already? Also if it cannot be, or not now."""
        pod = gang.pods.get(0)
        with self._lock:
            return pod is None or self._followed.get(pod.uid, self) is not None

    def _follow(self, gang: Gang, pod: Pod) -> None:
        try:
            while self._is_wanted(gang, pod):
                try:
                    self._copy_on(gang, pod)
                except DovetailError as error:
                    log.info("the log of %s is not followed for now: %s", pod.name, error)
                threading.Event().wait(_AGAIN_S)
        finally:
            with self._lock:
                self._followed.pop(pod.uid, None)
                self._wanted_until.pop(pod.uid, None)

    def _is_wanted(self, gang: Gang, pod: Pod) -> bool:
        now = gang.pods.get(pod.rank)
        is_there = now is not None and now.uid == pod.uid and now.is_running
        return (
            is_there
            and not self._is_over
            and gang.ending is None
            and self._wanted_until.get(pod.uid, 0.0) > monotonic()
        )

    def leave_idle(self) -> None:
        """Close what nobody has asked for lately. Now and then."""
        with self._lock:
            idle = [
                stream
                for uid, stream in self._followed.items()
                if stream is not None and self._wanted_until.get(uid, 0.0) < monotonic()
            ]
        for stream in idle:
            stream.close()

    def forget(self, job_id: str) -> None:
        with self._lock:
            self._writing.pop(job_id, None)

    def stop(self) -> None:
        self._is_over = True
        with self._lock:
            streams = [stream for stream in self._followed.values() if stream is not None]
        for stream in streams:
            stream.close()
