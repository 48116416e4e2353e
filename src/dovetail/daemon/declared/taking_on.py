"""What is declared is handed in like any other job, study or service, once, and ended when withdrawn."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from dovetail.core.errors import BadInput
from dovetail.core.model import JobId
from dovetail.daemon.asking import Once
from dovetail.daemon.declared.notes import DeclaredNote, key_of, note_of
from dovetail.daemon.refusals import Conflict, NotFound
from dovetail.daemon.service import Service
from dovetail.daemon.services.serving import Services
from dovetail.daemon.studies.service import Studies
from dovetail.daemon.submissions import Opening, Submission
from dovetail.daemon.users.callers import Caller
from dovetail.jobfiles.job_model import JobSpec, read
from dovetail.worlds.declared import JOB, SERVICE, STUDY, Declared

_WHERE_THE_IMAGE_SAYS: Final = ""
_MAY_CHANGE: Final = ["priority"]


class Desired:
    """Asks the service, as anybody does."""

    def __init__(self, service: Service, studies: Studies, services: Services) -> None:
        self._service: Final = service
        self._studies: Final = studies
        self._services: Final = services

    def take_on(self, declared: Declared) -> DeclaredNote:
        """Refusals are those of a submission."""
        note, caller = note_of(declared), caller_for(declared.tenant)
        once = Once(key_of(declared), lambda ids: note.with_ids(ids).text())
        if declared.known_as:
            return self._recalled(declared, note)
        spec = {"name": declared.name, **declared.spec, "tenant": _tenant(declared)}
        _check_ways(spec.get("notify"))
        opening = Opening(spec, {}, _WHERE_THE_IMAGE_SAYS)
        if declared.kind == STUDY:
            return note.with_ids(self._studies.open_once(opening, caller, once))
        if declared.kind == SERVICE:
            return note.with_ids(self._services.declare_once(opening, caller, once))
        job = read(spec)
        self._check_others(job, caller)
        submission = Submission(job, {}, _WHERE_THE_IMAGE_SAYS)
        return note.with_ids(self._service.submit([submission], caller, once))

    def _recalled(self, declared: Declared, note: DeclaredNote) -> DeclaredNote:
        """It says that it was taken on, and a journal that was salvaged has forgotten so."""
        owners = {STUDY: self._studies.owner_of, SERVICE: self._services.owner_of}
        if owners.get(declared.kind, self._service.owner_of)(declared.known_as) != declared.tenant:
            raise BadInput(
                f"the journal has lost {declared.kind} {declared.known_as}, which it was; delete it "
                "and apply it again"
            )
        note = note.with_ids([declared.known_as])
        self._service.keep_meta(key_of(declared), note.text())
        return note

    def _check_others(self, job: JobSpec, caller: Caller) -> None:
        """Nobody finds out about jobs of others by coming after them."""
        for other in (*job.after, *job.after_any, *job.after_failed):
            if self._service.owner_of(other) != caller.name:
                raise NotFound(f"there is no job {other}, after which this one is to come")

    def withdraw(self, key: str, note: DeclaredNote) -> None:
        """Cancel its jobs that have not ended, and forget it: nobody is told of them any more."""
        caller = caller_for(note.tenant)
        try:
            if note.kind == STUDY:
                self._studies.cancel(note.ids[0], caller)
            elif note.kind == SERVICE:
                self._services.stop(note.ids[0], caller)
            elif live := self.live(note.ids):
                self._service.cancel(live, caller)
        except (Conflict, NotFound):
            if note.kind == JOB and self.live(note.ids):
                raise  # one of several has just ended: the others are cancelled the next time
        self._service.forget_meta(key)

    def live(self, ids: Iterable[str]) -> list[str]:
        return self._service.look(
            lambda view, now: [own for own in ids if JobId(own) in view.tracks]
        )

    def follow(self, declared: Declared, note: DeclaredNote) -> tuple[DeclaredNote, str]:
        """An edit: its priority may change, nothing else. What is not followed, in words."""
        edited = note.edited(declared)
        if not edited:
            return note, ""
        if edited == _MAY_CHANGE and note.kind == JOB:
            return self._set_priority(declared, note), ""
        if edited == ["replicas"] and note.kind == SERVICE:
            return self._scale(declared, note), ""
        names = ", ".join(f"spec.{name}" for name in edited)
        told = f"{names} changed after it was taken on: it goes on as it was; delete it and "
        return note, told + "apply it again to have it so"

    def _set_priority(self, declared: Declared, note: DeclaredNote) -> DeclaredNote:
        priority = read({"run": "true", "priority": declared.spec.get("priority")}).priority
        if live := self.live(note.ids):
            self._service.set_priority(live, priority, caller_for(note.tenant))
        return self._noted(declared, note)

    def _scale(self, declared: Declared, note: DeclaredNote) -> DeclaredNote:
        from dovetail.jobfiles.service_model import read_service

        wanted = read_service({"name": declared.name, **declared.spec}).replicas
        with suppress(NotFound):  # it was stopped by a command
            self._services.scale(note.ids[0], wanted.min, wanted.max, caller_for(note.tenant))
        return self._noted(declared, note)

    def _noted(self, declared: Declared, note: DeclaredNote) -> DeclaredNote:
        fresh = replace(note_of(declared), ids=note.ids)
        self._service.keep_meta(key_of(declared), fresh.text())
        return fresh


def caller_for(tenant: str) -> Caller:
    """Who may write into a namespace is known to its API server; here it is the tenant who asks."""
    return Caller(os.geteuid(), tenant, admin=False)


def _check_ways(notify: Any) -> None:
    """Who may write objects has not our network, nor our mail server."""
    for way in notify if isinstance(notify, list) else [notify]:
        if isinstance(way, str) and ":" in way:
            raise BadInput(
                f"notify: {way!r} is an address, and nobody is written to because an object names "
                "them: say mail or webhook, if the daemon's configuration sets where to"
            )


def _tenant(declared: Declared) -> str:
    named: Any = declared.spec.get("tenant") or declared.tenant
    if named != declared.tenant:
        raise BadInput(
            f"tenant: jobs of namespace {declared.tenant!r} are of the tenant of that name; leave it out"
        )
    return declared.tenant
