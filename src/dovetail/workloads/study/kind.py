"""Studies in the state: folded from entries of their own and from what their trials do as jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast, final

from dovetail.core.entries import GroupAction, GroupEvent, Reported
from dovetail.core.errors import IllegalEntry
from dovetail.core.journal import with_infinity
from dovetail.core.model import JobId
from dovetail.core.track import SUSPENDED, Track
from dovetail.workloads.study import keeping
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.entries import (
    KIND,
    CloseStudy,
    StudyCancelled,
    StudyExtended,
    StudyOpened,
    StudyResumed,
    StudyStopped,
)
from dovetail.workloads.study.track import (
    NEW,
    PAUSED,
    Branching,
    Closed,
    Settings,
    StudyTrack,
    TrialTrack,
    is_beyond,
)

if TYPE_CHECKING:
    from dovetail.core.groups import Reader
    from dovetail.core.state import State
    from dovetail.core.view import View

MOST_CLOSED: Final = 100  # studies that are over and still remembered, in brief

READERS: Final[Mapping[str, Reader]] = {
    StudyOpened.tag: lambda at, value, _: StudyOpened(at, Design(**with_infinity(value))),
    StudyStopped.tag: lambda at, value, _: StudyStopped(at, value),
    StudyResumed.tag: lambda at, value, _: StudyResumed(at, value),
    StudyExtended.tag: lambda at, value, row: StudyExtended(at, value, row["planned"]),
    StudyCancelled.tag: lambda at, value, row: StudyCancelled(at, value, row["reason"]),
    CloseStudy.tag: lambda _, value, row: CloseStudy(value, row["reason"]),
}


def studies_of(view: View) -> Workload:
    """The studies of a state."""
    return cast(Workload, view.kind(KIND))


@final
class Workload:
    """The open studies by id, and those that closed lately."""

    pins = ""

    def __init__(self) -> None:
        self.watches = 0  # the state tells it, whatever others ask for
        self.open: Final[dict[str, StudyTrack]] = {}
        self.closed: Final[deque[Closed]] = deque(maxlen=MOST_CLOSED)

    def of(self, track: Track) -> StudyTrack | None:
        """The open study that the job is a trial of."""
        return self.open.get(track.job.group) if track.job.member is not None else None

    def trial(self, track: Track) -> tuple[StudyTrack, TrialTrack] | None:
        study = self.of(track)
        if study is None or track.job.member is None:
            return None
        return study, study.trials[track.job.member]

    # ------------------------------------------------------------------------ entries of its own

    def record(self, state: State, entry: GroupEvent | GroupAction) -> None:
        if isinstance(entry, StudyOpened):
            self._open(state, entry.design)
        elif isinstance(entry, StudyStopped):
            self._study(state, entry.study_id).stop(state.now)
        elif isinstance(entry, StudyResumed):
            self._study(state, entry.study_id).resume(state.now)
        elif isinstance(entry, StudyExtended):
            self._extend(self._study(state, entry.study_id), entry.planned)
        else:
            assert isinstance(entry, StudyCancelled | CloseStudy)
            self._close(state, self._study(state, entry.study_id), entry.reason)

    def _study(self, state: State, study_id: str) -> StudyTrack:
        study = self.open.get(study_id)
        if study is None:
            raise IllegalEntry(f"there is no open study {study_id!r} at t={state.now:g}")
        return study

    def _open(self, state: State, design: Design) -> None:
        if design.id in state.groups:
            raise IllegalEntry(f"study {design.id!r} is opened twice; ids of studies must differ")
        self._follow(state, StudyTrack(design, state.now))

    @staticmethod
    def _extend(study: StudyTrack, planned: int) -> None:
        if planned <= study.design.planned:
            raise IllegalEntry(
                f"study {study.design.name!r} has {study.design.planned} trials; {planned} are no more"
            )
        study.design = replace(study.design, planned=planned)

    def _follow(self, state: State, study: StudyTrack) -> None:
        self.open[study.id] = study
        state.groups[study.id] = study.group

    def _close(self, state: State, study: StudyTrack, reason: str) -> None:
        jobs = [job_id for trial in study.trials.values() for job_id in trial.jobs]
        left = [job_id for job_id in jobs if job_id in state.tracks]
        if left:
            raise IllegalEntry(
                f"cannot close study {study.design.name!r} at t={state.now:g}: jobs {left} of it "
                "have not ended"
            )
        design = self.open.pop(study.id).design
        del state.groups[study.id]
        self.closed.append(
            Closed(design.id, design.name, design.user, study.opened_at, state.now, reason)
        )
        state.tell_closed(study, reason)

    # ---------------------------------------------------------------------- what its trials do

    def joins(self, track: Track) -> None:
        self.open[track.job.group].join(track)

    def branches(self, track: Track, source: JobId, settings: Settings) -> None:
        found = self.trial(track)
        if found is None:
            raise IllegalEntry(f"job {track.job.id!r} is not a trial of an open study")
        found[1].branching = Branching(source, settings)

    def why_not_after(self, track: Track) -> str:
        """Why what a finished stage has saved is not what other trials share; "" if it is."""
        found = self.trial(track)
        if found is None or not found[1].points:
            return ""
        last = found[1].points[-1]
        if not is_beyond(last, found[1], track):
            return ""
        return (
            f"job {track.job.id!r}, which trains the steps that it shares with other trials, went on "
            f"to step {last.step:g}; a trial must end after DOVETAIL_STEPS steps, there "
            f"{track.job.last_step}"
        )

    def runs(self, track: Track) -> None:
        found = self.trial(track)
        if found is not None:
            found[0].begin_stint(found[1], track)

    def waits(self, track: Track) -> None:
        found = self.trial(track)
        if found is not None and found[1].since >= 0:
            study, trial = found
            study.end_stint(trial, track, track.waiting_since)
            trial.standing = PAUSED if track.phase is SUSPENDED or trial.points else NEW

    def parks(self, track: Track) -> None:
        self.waits(track)

    def reports(self, track: Track, entry: Reported) -> bool:
        found = self.trial(track)
        if found is None:
            return False
        found[0].report(found[1], entry)
        return True

    def ends(self, track: Track) -> None:
        found = self.trial(track)
        if found is not None:
            found[0].end_job(found[1], track)

    # ---------------------------------------------------------------------------------- keeping

    def kept(self) -> Mapping[str, Any]:
        return {
            "studies": [keeping.row_of(study) for study in self.open.values()],
            "closed": list(self.closed),
        }

    def restore(self, state: State, saved: Mapping[str, Any]) -> None:
        self.closed.extend(Closed(*row) for row in saved.get("closed", ()))
        for row in saved.get("studies", ()):
            self._take_up(state, keeping.restored(row))

    def copies(self) -> tuple[StudyTrack, ...]:
        return tuple([keeping.copy_of(study) for study in self.open.values()])

    def take_up(self, state: State, copies: tuple[StudyTrack, ...]) -> None:
        for study in copies:
            self._take_up(state, keeping.copy_of(study))

    def _take_up(self, state: State, study: StudyTrack) -> None:
        """Follow it from now on; its jobs are there already."""
        self._follow(state, study)
        for trial in study.trials.values():
            for job_id in trial.jobs:
                study.group.take_up(state.tracks, job_id)

    def fingerprint(self) -> Mapping[str, Any]:
        return {
            "studies": [keeping.values_of(study) for study in self.open.values()],
            "closed": list(self.closed),
        }
