"""Studies: opened, looked at, stopped, resumed, cancelled. Their trials are jobs like all others.

Whoever takes turns is decided by the loop (`dovetail.tune.live`); here is what users ask for, and what
needs time or the disk: choosing the next settings, copying a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from dovetail.api.study_row import StudiesTold, StudyHead, StudyOpen, StudyPage, StudyRow
from dovetail.core.entries import (
    Cancelled,
    Event,
    Held,
    Submitted,
)
from dovetail.core.model import JobId, Seconds
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.asking import Change, Once, Parts
from dovetail.daemon.holds import STUDY_STOPPED
from dovetail.daemon.http.visibility import study_for
from dovetail.daemon.refusals import Conflict, NotAllowed, NotFound
from dovetail.daemon.service import Service
from dovetail.daemon.studies.archive import ClosedStudies
from dovetail.daemon.studies.rows import StudyLook, look_at, page_of_study, row_in, row_of_study
from dovetail.daemon.submissions import Opening, Submission
from dovetail.daemon.users.callers import Caller
from dovetail.daemon.users.limits import PER_CHANGE
from dovetail.tune.live import Exchanging
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.entries import (
    StudyCancelled,
    StudyExtended,
    StudyOpened,
    StudyResumed,
    StudyStopped,
)
from dovetail.workloads.study.kind import MOST_CLOSED, studies_of
from dovetail.workloads.study.track import Closed, StudyTrack

if TYPE_CHECKING:
    from dovetail.daemon.studies.opening import TrialToSubmit
    from dovetail.jobfiles.study_model import StudySpec

ToldStudy = TypeVar("ToldStudy", bound=StudyHead)
_LEARNED_AHEAD = 2  # trials that wait to be started, at least, while others are learned from


class Studies:
    """Beside the service, and by its means."""

    def __init__(self, parts: Parts, service: Service, exchange: Exchanging) -> None:
        self._parts: Final = parts
        self._service: Final = service
        self._exchange: Final = exchange
        self._past: Final = ClosedStudies(parts.reader)
        self.on_more: Callable[[str, str], None] = lambda study_id, user: None

    # ------------------------------------------------------------------------------------- opening

    def open(self, opening: Opening, caller: Caller) -> StudyOpen:
        return self._service.change(self._opened(opening, caller))

    def open_once(self, opening: Opening, caller: Caller, once: Once) -> list[str]:
        """Its id alone."""
        opened = self._opened(opening, caller)

        def change(view: View, now: Seconds) -> tuple[Sequence[Event], list[str]]:
            events, answer = opened(view, now)
            return events, [answer.study]

        return self._service.change(self._service.once(change, once))

    def _opened(self, opening: Opening, caller: Caller) -> Change[StudyOpen]:
        # Imported with the first study: most daemons never see one.
        from dovetail.daemon.studies import opening as plan

        spec = plan.read_plan(opening)
        self._service.check_folder(opening.workdir, spec.workdir, caller)
        first = plan.first_trials(spec, self._at_first(spec, caller))

        def change(view: View, now: Seconds) -> tuple[list[Event], StudyOpen]:
            other = _open(spec.title, caller, view)
            if other is not None and other.design.user == caller.name:
                raise Conflict(_taken(other))
            number = int(self._parts.store.meta("next_study") or "1")
            allowed = plan.within(self._parts.limits, spec, first[0], caller, view)
            size = plan.size_of(opening, allowed, allowed.planned)
            self._service.intake.charge(caller.name, size, view, now)
            design = plan.design_of(allowed, f"s{number}", caller, now, self._parts.clock)
            clock, why_not = self._parts.clock, partial(self._service.why_not, caller)
            plan.check_room(allowed, design, first[0], view, now, clock, why_not)
            self._parts.book.keep_shell(design.id, opening.shell(allowed.envs, caller))
            submitted = self.submitted(allowed, design, first, opening, caller, view, now)
            self._parts.store.set_meta("next_study", str(number + 1))
            trials = [str(event.job.id) for event in submitted if isinstance(event, Submitted)]
            answer = StudyOpen(
                study=design.id, name=design.name, planned=design.planned, trials=trials
            )
            return [StudyOpened(now, design), *submitted], answer

        return change

    def _at_first(self, spec: StudySpec, caller: Caller) -> int:
        """All, or enough for every slot: before the first result there is nothing to learn from."""
        from dovetail.daemon.studies import opening as plan

        if not plan.learns(spec):
            return spec.planned
        clock = self._parts.clock
        slots = self._service.look(lambda view, now: plan.slots_for(spec, caller, view, now, clock))
        return min(ready_for(slots), spec.planned)

    def submitted(
        self,
        spec: StudySpec,
        design: Design,
        trials: Sequence[TrialToSubmit],
        opening: Opening,
        caller: Caller,
        view: View,
        now: Seconds,
    ) -> list[Event]:
        """The trials as jobs, their folders and environments made."""
        from dovetail.daemon.studies.opening import member_of

        first, events = self._service.next_number(), list[Event]()
        for number, trial in enumerate(trials, first):
            parent = None if trial.parent is None else JobId(str(first + trial.parent))
            member = member_of(spec, design, trial, str(number), parent, now, self._parts.clock)
            submission = Submission(
                member.spec, opening.environment, opening.workdir, opening.umask
            )
            events += self._service.take_on([member], submission, caller, view, now)
        self._parts.store.set_meta("next_job", str(first + len(trials)))
        return events

    # ---------------------------------------------------------------------------------- looking

    def all(self, caller: Caller, limit: int = MOST_CLOSED) -> StudiesTold:
        """The open ones first, then as many of the closed ones, the last first; how many more of
        those there are."""

        def look(view: View, now: Seconds) -> tuple[list[StudyLook], list[str]]:
            looks = [self._look(study, view, now) for study in studies_of(view).open.values()]
            return looks, [closed.id for closed in reversed(studies_of(view).closed)]

        looks, lately = self._service.look(look)
        closed = self._past.last_first(lately, [own.study.id for own in looks])
        pages = (self._past.page(study_id) for study_id in closed[:limit])
        rows = [self._with_hint(row_of_study(own), own.study.design.metric) for own in looks]
        rows += [row_in(page) for page in pages if page is not None]
        told = [study_for(caller, row) for row in rows]
        return StudiesTold(studies=told, more=len(closed[limit:]))

    def one(self, name: str, caller: Caller) -> StudyPage:
        """By its id or name; of several that had the name, the caller's own before others', the open
        one, else the last."""

        def look(view: View, now: Seconds) -> StudyLook | str | None:
            study = _open(name, caller, view)
            if study is not None:
                return self._look(study, view, now)
            closed = _closed_lately(name, view)
            return closed.id if closed else None

        own = self._service.look(look)
        found = own if isinstance(own, StudyLook) else self._past.find(name, caller.name) or own
        if isinstance(found, StudyLook):
            page: StudyPage | None = self._with_hint(
                page_of_study(found, self._parts.clock), found.study.design.metric
            )
        else:
            page = None if found is None else self._past.page(found)
        if page is None:
            raise NotFound(f"there is no study {name!r}; `dovetail study list` shows them")
        return study_for(caller, page)

    def row(self, study_id: str) -> StudyRow | None:
        """The study as its owner sees it; None: there is no such study."""

        def look(view: View, now: Seconds) -> StudyLook | None:
            study = studies_of(view).open.get(study_id)
            return None if study is None else self._look(study, view, now)

        found = self._service.look(look)
        if found is not None:
            return row_of_study(found)
        page = self._past.page(study_id)
        return None if page is None else row_in(page)

    def owner_of(self, study_id: str) -> str | None:
        def look(view: View, now: Seconds) -> str | None:
            study = studies_of(view).open.get(study_id)
            return None if study is None else study.design.user

        found = self._service.look(look)
        if found is None and (page := self._past.page(study_id)) is not None:
            found = page.user
        return found

    def _look(self, study: StudyTrack, view: View, now: Seconds) -> StudyLook:
        trouble = self._exchange.troubles.get(study.id, "")
        return look_at(study, view, now, self._exchange.board, trouble)

    def _with_hint(self, study: ToldStudy, metric: str) -> ToldStudy:
        """Where no trial has ever reported: what one has printed meanwhile."""
        quiet = study.quiet
        if quiet is not None and quiet.usual_s is None:
            from dovetail.daemon.studies.metric_hint import hint

            found = hint(self._parts.world.shelf.log(quiet.job), metric)
            quiet.printed, quiet.pattern = list(found.lines), found.pattern
        return study

    # -------------------------------------------------------------- stopping, resuming, cancelling

    def stop(self, name: str, caller: Caller) -> StudyRow:
        def change(view: View, now: Seconds) -> tuple[list[Event], str]:
            study = self._owned(name, caller, view, "stop")
            live = self._charged(study, caller, view, now)
            events: list[Event] = [] if study.is_stopped else [StudyStopped(now, study.id)]
            events += [Held(now, t.job.id, STUDY_STOPPED) for t in live if not t.held]
            return events, study.id

        return self._row(self._service.change(change), caller)

    def resume(self, name: str, caller: Caller) -> StudyRow:
        def change(view: View, now: Seconds) -> tuple[list[Event], tuple[str, str]]:
            study = self._owned(name, caller, view, "resume")
            live = self._charged(study, caller, view, now)
            events: list[Event] = [StudyResumed(now, study.id)] if study.is_stopped else []
            stopped = [track for track in live if track.held == STUDY_STOPPED]
            events += [self._service.admission.let_go(track, view, now) for track in stopped]
            return events, (study.id, study.design.user)

        study_id, user = self._service.change(change)
        self.on_more(study_id, user)
        return self._row(study_id, caller)

    def extend(self, name: str, more: int, caller: Caller) -> StudyRow:
        """With the settings that a study with so many trials would have had."""
        from dovetail.daemon.studies import opening as plan

        def change(view: View, now: Seconds) -> tuple[list[Event], tuple[str, str]]:
            study = self._owned(name, caller, view, "extend")
            design = study.design
            shell = self._parts.book.shell(design.id)
            if study.is_stopped or shell is None:
                raise Conflict(f"study {name!r} is stopped; resume it before it has more trials")
            spec, opening, owner = plan.reopened(design, shell)
            further = plan.further_trials(spec, design.planned, more)
            self._parts.limits.check_number(more, owner.name, view)
            self._service.intake.charge(owner.name, plan.size_of(opening, spec, more), view, now)
            submitted = self.submitted(spec, design, further, opening, owner, view, now)
            extended = StudyExtended(now, design.id, design.planned + more)
            return [extended, *submitted], (design.id, design.user)

        study_id, user = self._service.change(change)
        self.on_more(study_id, user)
        return self._row(study_id, caller)

    def cancel(self, name: str, caller: Caller) -> StudyRow:
        """It is over for good; what its trials have told so far is kept."""

        def change(view: View, now: Seconds) -> tuple[list[Event], str]:
            study = self._owned(name, caller, view, "cancel")
            why = f"cancelled by {caller.name}"
            events: list[Event] = [Cancelled(now, t.job.id, why) for t in _live(study, view)]
            return [*events, StudyCancelled(now, study.id, why)], study.id

        return self._row(self._service.change(change), caller)

    def _row(self, study_id: str, caller: Caller) -> StudyRow:
        return row_in(self.one(study_id, caller))

    def _charged(
        self, study: StudyTrack, caller: Caller, view: View, now: Seconds
    ) -> Sequence[Track]:
        """Its jobs, each of which may be changed: again and again, if nobody counted it."""
        live = _live(study, view)
        size = (1 + len(live)) * PER_CHANGE
        self._service.intake.charge(caller.name, size, view, now)
        return live

    def _owned(self, name: str, caller: Caller, view: View, verb: str) -> StudyTrack:
        study = _open(name, caller, view)
        if study is None:
            closed = _closed_lately(name, view)
            if closed or self._past.find(name, caller.name):
                why = f": {closed.reason}" if closed else ""
                raise Conflict(f"study {name!r} is closed already{why}")
            raise NotFound(f"there is no study {name!r}; `dovetail study list` shows them")
        owner = study.design.user
        if not caller.may_read(owner):
            raise NotAllowed(
                f"study {name!r} is {owner}'s: only {owner} or an administrator may {verb} it"
            )
        return study


def ready_for(slots: int) -> int:
    """So many trials that were never started there should be, so that no slot waits for settings."""
    return max(_LEARNED_AHEAD, slots)


def _open(name: str, caller: Caller, view: View) -> StudyTrack | None:
    """By its id, or by its name: each user has names of their own, and sees theirs first."""
    if name in studies_of(view).open:
        return studies_of(view).open[name]
    found = [study for study in studies_of(view).open.values() if study.design.name == name]
    return min(found, key=lambda study: study.design.user != caller.name, default=None)


def _closed_lately(name: str, view: View) -> Closed | None:
    """By its id or name; of several that had it, the last."""
    found = (own for own in reversed(studies_of(view).closed) if name in (own.id, own.name))
    return next(found, None)


def _taken(other: StudyTrack) -> str:
    """Its name is somebody's."""
    state, way = ("stopped", "resume it") if other.is_stopped else ("open", "wait for its end")
    return (
        f"a study called {other.design.name!r} is {state}; {way}, cancel it, or give this one "
        "another name"
    )


def _live(study: StudyTrack, view: View) -> Sequence[Track]:
    jobs = [JobId(job_id) for trial in study.trials.values() for job_id in trial.jobs]
    return [view.tracks[job_id] for job_id in jobs if job_id in view.tracks]
