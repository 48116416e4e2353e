"""Kubernetes Events: what happened to a job, on its object if it has one, else on its pod.

One for each object and reason: what happens again is counted there. So many a second are written at
most, and of too many the oldest are left out: the journal has them all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from dovetail.core.entries import (
    Cancelled,
    Displaced,
    Entry,
    Failed,
    Finished,
    Held,
    Interrupted,
    Refuse,
    Restored,
    Saved,
    Started,
    Stayed,
)
from dovetail.core.model import JobId
from dovetail.core.view import View
from dovetail.text.durations import duration_text
from dovetail.worlds.kubernetes.client import NOT_FOUND, Api, ApiError
from dovetail.worlds.kubernetes.objects.writing import SlowWriter

_PER_S, _BURST, _MOST = 10.0, 50, 1000
_REMEMBERED: Final = 5000
_LONGEST: Final = 1000


@dataclass(frozen=True, slots=True)
class Regarding:
    """What an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Happened:
    reason: str
    text: str
    is_warning: bool = False


class EventLog:
    """`about` finds what the events of a job are on; None: nothing of it is there."""

    def __init__(self, api: Api, about: Callable[[JobId], Regarding | None]) -> None:
        self._api: Final = api
        self._about: Final = about
        self._writer: Final = SlowWriter("events", _PER_S, _BURST, _MOST)
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()  # by uid and reason
        self._names: dict[tuple[str, str], str] = {}  # of those that are written
        self.start: Final = self._writer.start
        self.stop: Final = self._writer.stop

    def heed(self, entries: Iterable[Entry], view: View) -> None:
        """Decisions and facts as the journal has them."""
        for entry in entries:
            happened = told_of(entry, view)
            job_id = getattr(entry, "job_id", None)
            if happened is not None and job_id is not None:
                regarding = self._about(job_id)
                if regarding is not None:
                    self.note(regarding, happened)

    def note(self, regarding: Regarding, happened: Happened) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        own = (regarding.uid, happened.reason)
        self._counts[own] = self._counts.get(own, 0) + 1
        self._counts.move_to_end(own)
        while len(self._counts) > _REMEMBERED:
            self._names.pop(self._counts.popitem(last=False)[0], None)
        key = f"event {happened.reason} of {regarding.kind} {regarding.name}"
        self._writer.put(key, lambda: self._write(regarding, happened, at), happened.is_warning)

    def _write(self, regarding: Regarding, happened: Happened, at: str) -> None:
        room = f"/api/v1/namespaces/{regarding.namespace}/events"
        own = (regarding.uid, happened.reason)
        name, count = self._names.get(own, ""), self._counts.get(own, 1)
        text = happened.text[:_LONGEST]
        if name:
            patch = {"count": count, "lastTimestamp": at, "message": text}
            try:
                self._api.patch(f"{room}/{name}", patch)
                return
            except ApiError as error:
                if error.code != NOT_FOUND:  # they are kept for an hour
                    raise
        name = f"{regarding.name[:200]}.{uuid4().hex[:16]}"
        self._api.create(room, {**_body(regarding, happened, text, at, name), "count": count})
        self._names[own] = name


def _body(
    regarding: Regarding, happened: Happened, text: str, at: str, name: str
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": regarding.namespace},
        "involvedObject": {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
        },
        "type": "Warning" if happened.is_warning else "Normal",
        "reason": happened.reason,
        "message": text,
        "source": {"component": "dovetail"},
        "firstTimestamp": at,
        "lastTimestamp": at,
    }


def told_of(entry: Entry, view: View) -> Happened | None:
    """None: nobody but the journal needs to know."""
    match entry:
        case Started(job_id=job_id):
            track = view.tracks.get(job_id)
            if track is not None and track.preemptions:
                return Happened("Resumed", f"job {job_id} goes on")
            return Happened("Started", f"job {job_id} has begun")
        case Saved(job_id=job_id, rung=rung):
            parked = f", {entry.bytes / 1e6:.0f} MB wait in host memory" if entry.parked else ""
            took = duration_text(entry.seconds)
            return Happened("Preempted", f"job {job_id} gave way ({rung}) in {took}{parked}")
        case Restored(job_id=job_id, rung=rung):
            return Happened("Restored", f"{rung} took {duration_text(entry.seconds)} to undo")
        case Finished(job_id=job_id):
            return Happened("Finished", f"job {job_id} has finished")
        case Failed(reason=reason):
            return Happened("Failed", reason, True)
        case Interrupted(reason=reason):
            return Happened("Interrupted", reason, True)
        case Displaced(reason=reason):
            return Happened("Displaced", reason, True)
        case Stayed(reason=reason):
            return Happened("CouldNotGiveWay", reason, True)
        case Held(reason=reason):
            return Happened("Held", reason, True)
        case Refuse(reason=reason):
            return Happened("Refused", reason, True)
        case Cancelled(reason=reason):
            return Happened("Cancelled", reason)
    return None
