"""The thread that keeps declared jobs and studies and the journal in step, both ways.

It wakes when something is declared, edited or withdrawn, and when a job of one starts, waits or ends;
else it looks once a second at those that have processes. Forecasts are made now and then, and never for
more than a twentieth of the time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic, thread_time
from typing import Final

from dovetail.api.job_row import ENDED, JobRow
from dovetail.core.errors import BadInput, DovetailError
from dovetail.core.model import JobId, Seconds
from dovetail.core.track import Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View
from dovetail.daemon.declared.notes import PREFIX, DeclaredNote, note_in
from dovetail.daemon.declared.statuses import (
    status_of_array,
    status_of_job,
    status_of_service,
    status_of_study,
)
from dovetail.daemon.declared.taking_on import Desired, caller_for
from dovetail.daemon.foresight.reasons import Reasons, reasons
from dovetail.daemon.history.job_rows import row_of
from dovetail.daemon.refusals import NotFound
from dovetail.daemon.service import Service
from dovetail.daemon.services.serving import Services
from dovetail.daemon.studies.service import Studies
from dovetail.worlds.declared import (
    JOB,
    REFUSED,
    SERVICE,
    STUDY,
    Declarations,
    Declared,
    DeclaredStatus,
)

_ROUND_S: Final = 1.0
_LEAST_S: Final = 0.2  # between two rounds
_FORECAST_S: Final = 10.0
_PART_FOR_FORECASTS: Final = 20.0
_AT_A_TIME: Final = 200
_TRY_AGAIN_S: Final = 15.0
_AS_WRITTEN_S: Final = 300.0  # of one that is wrong as it is, unless it is edited before

log = logging.getLogger("dovetail.daemon")


class Attendant:
    """An index of the state, and a thread that goes by it."""

    def __init__(
        self, service: Service, studies: Studies, services: Services, declarations: Declarations
    ) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self._service: Final = service
        self._studies: Final = studies
        self._services: Final = services
        self._declarations: Final = declarations
        self._desired: Final = Desired(service, studies, services)
        self._notes: Final[dict[str, DeclaredNote]] = {}  # by the key of the declared one
        self._key_of: Final[dict[str, str]] = {}  # by job
        self._touched: set[str] = set()
        self._lock: Final = threading.Lock()  # of the touched
        self._refused: Final[dict[str, tuple[int, float]]] = {}  # revision, when to try again
        self._revisions: Final[dict[str, int]] = {}  # of specs that were looked at
        self._troubles: Final[dict[str, str]] = {}
        self._phases: Final[dict[str, str]] = {}  # of members of arrays that have ended
        self._known: Reasons | None = None
        self._forecast_at = 0.0
        self._over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._work, name="declared", daemon=True)

    # ------------------------------------------------------------------- as an index, on the loop

    def build(self, view: View) -> Attendant:
        return self

    def waits(self, track: Track) -> None:
        self._touch(track)

    def runs(self, track: Track) -> None:
        self._touch(track)

    def parks(self, track: Track) -> None:
        self._touch(track)

    def ends(self, track: Track) -> None:
        self._touch(track)

    def _touch(self, track: Track) -> None:
        if track.job.id in self._key_of:
            self._look_at([track.job.id])
            self._declarations.rouse()

    def _look_at(self, ids: Iterable[str]) -> None:
        with self._lock:
            self._touched.update(ids)

    # ------------------------------------------------------------------------------ its thread

    def start(self) -> None:
        for key, text in self._service.reader.metas(PREFIX).items():
            self._note(key.removeprefix(PREFIX), note_in(text))
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._declarations.rouse()

    def _work(self) -> None:
        while not self._over.is_set():
            try:
                self._attend()
            except DovetailError as error:
                log.warning("declared jobs have to wait: %s", error)
            except Exception:
                log.exception("declared jobs could not be attended to")
            self._over.wait(_LEAST_S)
            self._declarations.await_news(_ROUND_S)

    def _note(self, key: str, note: DeclaredNote) -> None:
        self._notes[key] = note
        self._key_of.update(dict.fromkeys(note.ids, key))
        self._look_at(note.ids)

    def _attend(self) -> None:
        standing = {own.key: own for own in self._declarations.standing()}
        for key in [own for own in self._notes if own not in standing]:
            self._withdraw(key)
        for key in [own for own in self._refused if own not in standing]:
            del self._refused[key]
        for declared in standing.values():
            if self._over.is_set():
                return
            if declared.key not in self._notes:
                self._consider(declared)
            elif self._revisions.get(declared.key) != declared.revision:
                self._follow(declared)
        self._tell(standing)

    # ------------------------------------------------------------------------------ what is wanted

    def _consider(self, declared: Declared) -> None:
        revision, again_at = self._refused.get(declared.key, (-1, 0.0))
        if revision == declared.revision and monotonic() < again_at:
            return
        try:
            if declared.elsewhere:
                raise BadInput(declared.elsewhere)
            self._note(declared.key, self._desired.take_on(declared))
        except DovetailError as error:
            is_wrong = isinstance(error, BadInput | NotFound)
            wait_s = _AS_WRITTEN_S if is_wrong else _TRY_AGAIN_S
            self._refused[declared.key] = (declared.revision, monotonic() + wait_s)
            phase = REFUSED if is_wrong else "waiting"
            status = DeclaredStatus(phase, str(error), revision=declared.revision)
            self._declarations.tell(declared, status)
            return
        self._refused.pop(declared.key, None)
        self._revisions[declared.key] = declared.revision

    def _follow(self, declared: Declared) -> None:
        note, trouble = self._desired.follow(declared, self._notes[declared.key])
        self._notes[declared.key] = note
        self._troubles[declared.key] = trouble
        self._revisions[declared.key] = declared.revision
        self._look_at(note.ids)

    def _withdraw(self, key: str) -> None:
        self._desired.withdraw(PREFIX + key, self._notes[key])
        for job_id in self._notes.pop(key).ids:
            self._key_of.pop(job_id, None)
            self._phases.pop(job_id, None)
        for table in (self._refused, self._revisions, self._troubles):
            table.pop(key, None)

    # ------------------------------------------------------------------------------ what is told

    def _tell(self, standing: Mapping[str, Declared]) -> None:
        due = self._due(standing)
        self._look_ahead()
        ids = [own for key in due if self._notes[key].kind == JOB for own in self._notes[key].ids]
        rows, nodes = self._looked_up(ids)
        for key in due:
            status = self._status(standing[key], self._notes[key], rows, nodes)
            if status is not None:
                trouble = self._troubles.get(key, "")
                self._declarations.tell(standing[key], replace(status, trouble=trouble))

    def _due(self, standing: Mapping[str, Declared]) -> list[str]:
        """Those of which something may be new."""
        with self._lock:
            touched, self._touched = self._touched, set()
        at_work = self._service.look(self._at_work)
        keys = {self._key_of[own] for own in (touched | at_work) if own in self._key_of}
        keys |= {key for key, note in self._notes.items() if note.kind in (STUDY, SERVICE)}
        return [key for key in keys if key in standing and not self._is_settled(standing[key])]

    def _at_work(self, view: View, now: Seconds) -> set[str]:
        """Jobs of declared ones that have processes."""
        own = (view.tracks.get(JobId(job_id)) for job_id in self._key_of)
        return {t.job.id for t in own if t is not None and (t.placement is not None or t.process)}

    def _is_settled(self, declared: Declared) -> bool:
        """It says itself how it ended, and was not edited since."""
        return declared.is_told and not self._troubles.get(declared.key)

    def _look_ahead(self) -> None:
        if monotonic() < self._forecast_at:
            return
        began = thread_time()
        live = [JobId(own) for own in self._desired.live(self._key_of)]
        self._known = reasons(self._service, live) if live else None
        self._look_at(live)
        took = thread_time() - began
        self._forecast_at = monotonic() + max(_FORECAST_S, _PART_FOR_FORECASTS * took)

    def _status(
        self,
        declared: Declared,
        note: DeclaredNote,
        rows: dict[str, JobRow],
        nodes: Sequence[str],
    ) -> DeclaredStatus | None:
        if note.kind == STUDY:
            row = self._studies.row(note.ids[0])
            return None if row is None else status_of_study(row, declared.revision)
        if note.kind == SERVICE:
            return self._status_of_service(declared, note)
        for job_id in (own for own in note.ids if own not in rows and own not in self._phases):
            rows[job_id] = self._service.job(job_id)
        if len(note.ids) == 1:
            return status_of_job(rows[note.ids[0]], nodes, self._known, declared.revision)
        own = {job_id: rows[job_id] for job_id in note.ids if job_id in rows}
        self._phases.update({k: row.phase for k, row in own.items() if row.phase in ENDED})
        phases = {k: own[k].phase if k in own else self._phases[k] for k in note.ids}
        array = note.ids[0].partition(".")[0]
        return status_of_array(array, list(own.values()), phases, declared.revision)

    def _status_of_service(self, declared: Declared, note: DeclaredNote) -> DeclaredStatus:
        try:
            found = self._services.one(note.ids[0], caller_for(note.tenant))
        except NotFound:
            why = "it was stopped; delete it and apply it again to have it back"
            return DeclaredStatus("closed", why, id=note.ids[0], revision=declared.revision)
        return status_of_service(found, declared.revision)

    def _looked_up(self, ids: Sequence[str]) -> tuple[dict[str, JobRow], list[str]]:
        """The rows of those that have not ended, and the names of nodes; some at a time, as the loop
        waits meanwhile."""
        rows: dict[str, JobRow] = {}
        nodes: list[str] = self._service.look(lambda view, now: [n.id for n in view.room.nodes])
        for start in range(0, len(ids), _AT_A_TIME):
            some = partial(self._rows, ids[start : start + _AT_A_TIME])
            rows |= self._service.look(some)
        return rows, nodes

    def _rows(self, ids: Sequence[str], view: View, now: Seconds) -> dict[str, JobRow]:
        tracks = (view.tracks.get(JobId(own)) for own in ids)
        clock, nodes = self._service.clock, view.room.nodes
        return {t.job.id: row_of(t, clock, nodes) for t in tracks if t is not None}
