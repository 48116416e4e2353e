"""DovetailJobs, -Studies and -Services as they stand: watched, and told what became of them.

Nothing holds their deletion up (no finalizers): one that was deleted while no controller looked is
missing in the next list, and its job is cancelled then.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from time import time
from typing import Any, Final

from dovetail.core.model import JobId
from dovetail.worlds.declared import JOB, REFUSED, SERVICE, STUDY, Declared, DeclaredStatus
from dovetail.worlds.kubernetes.client import NOT_FOUND, Api, ApiError
from dovetail.worlds.kubernetes.objects.events import EventLog, Happened, Regarding
from dovetail.worlds.kubernetes.objects.status import OVER, difference, status_json
from dovetail.worlds.kubernetes.objects.writing import SlowWriter
from dovetail.worlds.kubernetes.settings import GROUP, SCHEDULER, VERSION, Settings
from dovetail.worlds.kubernetes.watching import Watch

_PLURALS: Final = {
    JOB: "dovetailjobs",
    STUDY: "dovetailstudies",
    SERVICE: "dovetailservices",
}
_KINDS: Final = {JOB: "DovetailJob", STUDY: "DovetailStudy", SERVICE: "DovetailService"}
_PER_S, _BURST, _MOST = 50.0, 100, 100_000
_LOST: Final = "it was taken on by a controller with another journal; delete it and apply it again"

Json = dict[str, Any]
Thing = Mapping[str, Any]


class Objects:
    """All of every kind that name this scheduler."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self._api: Final = api
        self._settings: Final = settings
        self._lock: Final = threading.Lock()
        self._news: Final = threading.Event()
        self._things: dict[str, tuple[str, Thing]] = {}  # kind and object, by uid
        self._uids: dict[str, str] = {}  # of their objects, by job
        self._jobs: dict[str, str] = {}  # and the other way round
        self._writer: Final = SlowWriter("statuses", _PER_S, _BURST, _MOST)
        self.events: EventLog | None = None

    def watches(self) -> list[Watch]:
        """One for each kind."""
        return [
            Watch(self._api, f"/apis/{GROUP}/{VERSION}/{plural}", _OfKind(self, kind))
            for kind, plural in _PLURALS.items()
        ]

    def start(self) -> None:
        self._writer.start()

    def stop(self) -> None:
        self._writer.stop()

    # ------------------------------------------------------------------------------ from watches

    def listed(self, kind: str, objects: Sequence[Thing]) -> None:
        with self._lock:
            known = [own for own, (other, _) in self._things.items() if other == kind]
            for thing in objects:
                self._keep(kind, thing)
            there = {thing["metadata"]["uid"] for thing in objects}
            for uid in (own for own in known if own not in there):
                self._drop(uid)
        self._news.set()

    def changed(self, kind: str, thing: Thing, is_gone: bool) -> None:
        uid = thing["metadata"]["uid"]
        with self._lock:
            _, known = self._things.get(uid, ("", {}))
            if is_gone:
                self._drop(uid)
            else:
                self._keep(kind, thing)
        if is_gone or _mark(known) != _mark(thing):
            self._news.set()

    def _keep(self, kind: str, thing: Thing) -> None:
        metadata = thing["metadata"]
        named = (metadata.get("labels") or {}).get(SCHEDULER, Settings.name)
        if named == self._settings.name:
            self._things[metadata["uid"]] = (kind, thing)
        else:
            self._drop(metadata["uid"])

    def _drop(self, uid: str) -> None:
        self._things.pop(uid, None)
        self._uids.pop(self._jobs.pop(uid, ""), None)

    # ------------------------------------------------------------------------- for the daemon

    def await_news(self, within_s: float) -> None:
        self._news.wait(within_s)
        self._news.clear()

    def rouse(self) -> None:
        self._news.set()

    def standing(self) -> Sequence[Declared]:
        with self._lock:
            things = list(self._things.values())
        found = (self._declared(kind, thing) for kind, thing in things)
        return [own for own in found if own is not None]

    def _declared(self, kind: str, thing: Thing) -> Declared | None:
        """None: it is being deleted, or over in another journal."""
        metadata, status = thing["metadata"], thing.get("status") or {}
        if "deletionTimestamp" in metadata:
            return None
        home = status.get("home") or ""
        is_over = status.get("phase") in OVER
        is_ours = home == self._settings.home
        if home and not is_ours and is_over:
            return None
        generation = int(metadata.get("generation") or 1)
        return Declared(
            key=metadata["uid"],
            kind=kind,
            name=metadata["name"],
            tenant=metadata["namespace"],
            spec=thing.get("spec") or {},
            revision=generation,
            is_told=is_over and is_ours and status.get("observedGeneration") == generation,
            known_as=str(status.get(kind) or "") if is_ours else "",
            elsewhere=_LOST if home and not is_ours else "",
        )

    def tell(self, declared: Declared, status: DeclaredStatus) -> None:
        thing = self._thing(declared.key)
        if thing is None:
            return
        with self._lock:
            if status.id and declared.kind == JOB:
                self._uids[status.id] = declared.key
                self._jobs[declared.key] = status.id
        wanted, now = self._wanted(declared, status, thing), thing.get("status") or {}
        if not difference(now, wanted):
            return
        is_urgent = now.get("phase") != wanted.get("phase")
        self._note_refusal(declared, status, now)
        key = f"the status of {declared.kind} {declared.tenant}/{declared.name}"
        self._writer.put(key, lambda: self._write(declared, wanted), is_urgent)

    def _wanted(self, declared: Declared, status: DeclaredStatus, thing: Thing) -> Json:
        """Whose journal it is in is said once it is in one."""
        home = self._settings.home if status.id else (thing.get("status") or {}).get("home")
        found = status_json(declared.kind, status, time())
        return {**found, "home": home} if home else found

    def _note_refusal(self, declared: Declared, status: DeclaredStatus, now: Thing) -> None:
        regarding = self._regarding(declared.key)
        if self.events is None or regarding is None:
            return
        if status.phase == REFUSED and now.get("why") != status.why:
            self.events.note(regarding, Happened("Refused", status.why, True))
        if status.trouble and now.get("trouble") != status.trouble:
            self.events.note(regarding, Happened("EditNotFollowed", status.trouble, True))

    def _write(self, declared: Declared, wanted: Json) -> None:
        """The difference as it is by now."""
        thing = self._thing(declared.key)
        patch = difference((thing or {}).get("status") or {}, wanted)
        if thing is None or not patch:
            return
        where = f"/apis/{GROUP}/{VERSION}/namespaces/{declared.tenant}/{_PLURALS[declared.kind]}"
        same = {"metadata": {"uid": declared.key}, "status": patch}
        try:
            fresh = self._api.patch(f"{where}/{declared.name}/status", same)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return
        with self._lock:
            if declared.key in self._things:
                self._things[declared.key] = (declared.kind, fresh)

    # ------------------------------------------------------------------------------- for events

    def of_job(self, job_id: JobId) -> Regarding | None:
        """The object that the job, or its array, was declared by."""
        with self._lock:
            uid = self._uids.get(job_id) or self._uids.get(job_id.partition(".")[0])
        return self._regarding(uid) if uid else None

    def _regarding(self, uid: str) -> Regarding | None:
        with self._lock:
            kind, thing = self._things.get(uid, ("", None))
        if thing is None:
            return None
        metadata = thing["metadata"]
        version = f"{GROUP}/{VERSION}"
        return Regarding(version, _KINDS[kind], metadata["namespace"], metadata["name"], uid)

    def _thing(self, uid: str) -> Thing | None:
        with self._lock:
            return self._things.get(uid, ("", None))[1]


class _OfKind:
    def __init__(self, objects: Objects, kind: str) -> None:
        self._objects: Final = objects
        self._kind: Final = kind

    def listed(self, objects: Sequence[Json], as_of: float) -> None:
        self._objects.listed(self._kind, objects)

    def changed(self, thing: Json, is_gone: bool) -> None:
        self._objects.changed(self._kind, thing, is_gone)


def _mark(thing: Thing) -> tuple[object, ...]:
    """What of it is others' doing: its status is ours."""
    metadata = thing.get("metadata") or {}
    return metadata.get("generation"), "deletionTimestamp" in metadata, metadata.get("labels")
