"""Jobs whose namespace has used up its ResourceQuota: they wait outside the line, and none fails for it.

The API server refuses the pod of such a job. The job gives its GPUs back at once, is held with the quota
as the reason, and holds nobody else up. One of a namespace is let go when a quota there changes, another
as soon as that one runs; and now and then without a sign, as a sign may be missed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from dovetail.core.entries import Displaced, Event, Held, Released, Started
from dovetail.core.model import JobId, Seconds
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.worlds.kubernetes.client import FORBIDDEN, ApiError
from dovetail.worlds.world import LIMITED

PATH: Final = "/api/v1/resourcequotas"
_HELD: Final = f"{LIMITED}the quota of namespace "
_WITHOUT_A_SIGN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class QuotaSeen:
    """There may be room for one more job of the namespace."""

    namespace: str


def is_over_quota(error: ApiError) -> bool:
    return error.code == FORBIDDEN and "exceeded quota" in str(error)


class Quotas:
    """Told by flows and by the watch of quotas; asked on the world's own thread."""

    def __init__(self, post: Callable[[object], None]) -> None:
        self._post: Final = post
        self._lock: Final = threading.Lock()
        self._refused: dict[JobId, tuple[str, str]] = {}  # that are to be held, and why
        self._waiting: dict[str, set[JobId]] = {}  # by namespace
        self._signs: dict[str, float] = {}  # when the last one came, by namespace

    # ------------------------------------------------------------------------------ from threads

    def refused(self, job_id: JobId, namespace: str, why: str) -> None:
        with self._lock:
            self._refused[job_id] = (namespace, _short(why))

    def listed(self, objects: Sequence[Mapping[str, Any]], as_of: float) -> None:
        for namespace in {thing["metadata"]["namespace"] for thing in objects}:
            self._sign(namespace)

    def changed(self, thing: Mapping[str, Any], is_gone: bool) -> None:
        self._sign(thing["metadata"]["namespace"])

    def look(self) -> None:
        """Called now and then."""
        with self._lock:
            late = monotonic() - _WITHOUT_A_SIGN_S
            due = [own for own in self._waiting if self._signs.get(own, 0.0) < late]
        for namespace in due:
            self._sign(namespace)

    def _sign(self, namespace: str) -> None:
        with self._lock:
            if namespace not in self._waiting:
                return
            self._signs[namespace] = monotonic()
        self._post(QuotaSeen(namespace))

    # ------------------------------------------------------------------------------- the loop

    def recall(self, view: View) -> None:
        """Those that an earlier controller has held."""
        for track in view.tracks.values():
            if track.held.startswith(_HELD):
                namespace = track.held.removeprefix(_HELD).partition(" ")[0]
                self._wait(track.job.id, namespace)

    def with_holds(self, events: Iterable[Event]) -> list[Event]:
        """Whoever was refused waits outside the line; who runs says that another may be tried."""
        found: list[Event] = []
        for event in events:
            found.append(event)
            if isinstance(event, Displaced):
                found += self._held(event)
            elif isinstance(event, Started):
                self._began(event.job_id)
        return found

    def _held(self, event: Displaced) -> list[Event]:
        with self._lock:
            namespace, why = self._refused.pop(event.job_id, ("", ""))
        if not namespace:
            return []
        self._wait(event.job_id, namespace)
        return [Held(event.at, event.job_id, f"{_HELD}{namespace} is used up: {why}")]

    def _wait(self, job_id: JobId, namespace: str) -> None:
        with self._lock:
            self._waiting.setdefault(namespace, set()).add(job_id)
            self._signs.setdefault(namespace, monotonic())

    def _began(self, job_id: JobId) -> None:
        with self._lock:
            own = [name for name, ids in self._waiting.items() if job_id in ids]
        for namespace in own:
            self._drop(namespace, [job_id])
            self._sign(namespace)

    def _drop(self, namespace: str, ids: Iterable[JobId]) -> None:
        with self._lock:
            left = self._waiting.get(namespace, set())
            left.difference_update(ids)
            if not left:
                self._waiting.pop(namespace, None)
                self._signs.pop(namespace, None)

    def released(self, seen: QuotaSeen, view: View, at: Seconds) -> list[Event]:
        """One of those that wait: the first by priority, then by age."""
        with self._lock:
            waiting = list(self._waiting.get(seen.namespace, ()))
        self._drop(seen.namespace, [own for own in waiting if own not in view.tracks])
        held = [view.tracks[own] for own in waiting if own in view.tracks]
        held = [track for track in held if track.held.startswith(_HELD)]
        return [Released(at, min(held, key=_rank).job.id)] if held else []


def _rank(track: Track) -> tuple[float, int]:
    return -track.job.priority, track.sequence


def _short(why: str) -> str:
    """Without the name of a pod that its user never sees again."""
    return why[why.find("exceeded quota") :]
