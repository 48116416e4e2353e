"""Slow work for studies: the next settings, copies of checkpoints. A thread for each user
does it: whoever stops the copy of a checkpoint keeps nobody else's studies waiting.

What there is to do follows from the state alone, so that whoever takes over after a crash does it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from random import Random
from time import sleep
from typing import TYPE_CHECKING, Final, final

from dovetail.core.entries import Event, Submitted
from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId, Seconds
from dovetail.core.track import Track
from dovetail.core.view import CLOSES, ENDS, RUNS, View
from dovetail.daemon.asking import Parts
from dovetail.daemon.refusals import Unavailable
from dovetail.daemon.service import Service
from dovetail.daemon.studies.service import Studies, ready_for
from dovetail.daemon.submissions import OpeningShell
from dovetail.daemon.users.job_owners import patiently, rights_of
from dovetail.home import Home
from dovetail.tune.board import Mirror
from dovetail.tune.study import Trial
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.kind import studies_of
from dovetail.workloads.study.track import NEW, Branching, Settings, StudyTrack
from dovetail.worlds.shortage import is_short
from dovetail.worlds.world import UserAccount

if TYPE_CHECKING:
    from dovetail.jobfiles.study_model import StudySpec

_TRY_AGAIN_S = 1.0

log = logging.getLogger("dovetail.daemon")


@dataclass(frozen=True, slots=True)
class Departure:
    """A trial that is to go on from another one."""

    number: int
    job: JobId  # that it was
    branching: Branching
    settings: Settings  # of the other one


@dataclass(frozen=True, slots=True)
class Needs:
    """The work that a study needs, and the facts for it."""

    design: Design
    branchings: Sequence[Departure]
    trials: int  # that were submitted
    ahead: int  # of these: never started
    wanted: int  # so many that never started there should be
    past: Sequence[Trial]

    @property
    def more(self) -> bool:
        return self.trials < self.design.planned and self.ahead < self.wanted


@final
class _Runner:
    """The thread that attends to one user's studies."""

    def __init__(self, attend: Callable[[str], None]) -> None:
        self.asked: Final[SimpleQueue[str]] = SimpleQueue()
        self._attend: Final = attend
        self._lock: Final = threading.Lock()
        self._is_begun = False

    def begin(self) -> None:
        with self._lock:
            if self._is_begun:
                return
            thread = threading.Thread(target=self._work, name="studies", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # none is to be had now: with the next errand
                log.warning("the errands of studies have to wait: %s", error)
            else:
                self._is_begun = True

    def _work(self) -> None:
        while True:
            study_id = self.asked.get()
            try:
                self._attend(study_id)
            except Exception as error:
                self._stumbled(study_id, error)

    def _stumbled(self, study_id: str, error: Exception) -> None:
        """Whatever it is, the other studies go on; what may work later is tried again."""
        if isinstance(error, DovetailError):
            log.warning("study %s: %s", study_id, error)
        else:
            log.error("study %s: a trial could not be submitted", study_id, exc_info=error)
        if is_short(error) or isinstance(error, Unavailable):
            sleep(_TRY_AGAIN_S)
            self.asked.put(study_id)


class Errands:
    """An index of the state: at starts and ends of trials it looks for work."""

    def __init__(self, parts: Parts, service: Service, studies: Studies, home: Home) -> None:
        self.watches = RUNS | ENDS | CLOSES
        self._parts: Final = parts
        self._service: Final = service
        self._studies: Final = studies
        self._home: Final = home
        self._runners: Final[dict[str, _Runner]] = {}  # by user

    def build(self, view: View) -> Errands:
        for study in studies_of(view).open.values():
            self.look_after(study.id, study.design.user)
        return self

    def look_after(self, study_id: str, user: str) -> None:
        runner = self._runners.setdefault(user, _Runner(self._attend))
        runner.asked.put(study_id)
        runner.begin()

    def runs(self, track: Track) -> None:
        if track.job.member is not None:
            self.look_after(track.job.group, track.job.user)

    def ends(self, track: Track) -> None:
        if track.job.member is not None:
            self.look_after(track.job.group, track.job.user)

    def closes(self, study: StudyTrack, reason: str) -> None:
        self._parts.book.forget_environment(study.id)

    # --------------------------------------------------------------------------------- on a thread

    def _attend(self, study_id: str) -> None:
        while True:
            needs = self._service.look(lambda view, now: _needs(view, study_id))
            if needs is None:
                return
            for departure in needs.branchings:
                self._branch(needs.design, departure)
            if not needs.more:
                return
            self._submit_next(needs)

    def _submit_next(self, needs: Needs) -> None:
        from dovetail.daemon.studies.opening import TrialToSubmit, learns, reopened

        shell = self._parts.book.shell(needs.design.id)
        if shell is None:
            return
        spec, opening, caller = reopened(needs.design, shell)
        if not learns(spec):
            return
        settings = self._suggested(spec, needs)
        trial = TrialToSubmit(needs.trials, settings, spec.steps)

        def change(view: View, now: Seconds) -> tuple[list[Event], None]:
            study = studies_of(view).open.get(needs.design.id)
            if study is None or len(study.trials) != needs.trials:
                return [], None
            return self._studies.submitted(
                spec, study.design, [trial], opening, caller, view, now
            ), None

        self._service.change(change)

    @staticmethod
    def _suggested(spec: StudySpec, needs: Needs) -> Settings:
        from dovetail.daemon.studies.opening import by_chance, settings_for

        try:
            return settings_for(spec, needs.trials, needs.past)
        except Exception:  # somebody else's code, which may fail on what nobody thought of
            log.exception(
                "study %s: %s failed; a trial by chance instead", spec.title, spec.sampler
            )
            return by_chance(spec, needs.trials)

    def _branch(self, design: Design, departure: Departure) -> None:
        """A new job for the trial, which begins with a copy of the other's checkpoints (or, if that
        one has saved nothing yet, of its own). Rules know no bounds: the space has the last word."""
        from dovetail.daemon.studies.opening import TrialToSubmit, reopened

        shell = self._parts.book.shell(design.id)
        if shell is None:
            return
        spec, opening, caller = reopened(design, shell)
        number, branching = departure.number, departure.branching
        shelf, copy = self._parts.world.shelf, f"{design.id}.{number}"
        sources = (branching.source, departure.job)
        has_copy = shelf.copy_checkpoint(sources, copy, self._owner(design, shell))
        draw = Random(f"{design.seed}/{departure.job}").random
        settings = spec.space.repaired(dict(branching.settings), dict(departure.settings), draw)
        trial = TrialToSubmit(number, tuple(settings.items()), spec.steps)

        def change(view: View, now: Seconds) -> tuple[list[Event], None]:
            study = studies_of(view).open.get(design.id)
            if study is None or study.trials[number].branching != branching:
                return [], None
            events = self._studies.submitted(spec, design, [trial], opening, caller, view, now)
            for event in events:
                if isinstance(event, Submitted) and has_copy:
                    shelf.hand_over(copy, event.job.id)
            return events, None

        self._service.change(change)
        shelf.drop_copy(copy)

    def _owner(self, design: Design, shell: OpeningShell) -> UserAccount | None:
        me, shared = os.geteuid(), self._home.system
        return patiently(
            lambda: rights_of(shell, design.id, design.user, daemon_uid=me, shared=shared)
        )


def _needs(view: View, study_id: str) -> Needs | None:
    study = studies_of(view).open.get(study_id)
    if study is None or study.is_stopped:
        return None
    trials = study.trials.values()
    branchings = [
        Departure(
            trial.number, trial.job, trial.branching, _settings_of(study, trial.branching.source)
        )
        for trial in trials
        if trial.branching is not None
    ]
    ahead = sum(trial.standing == NEW for trial in trials)
    past, wanted = list[Trial](), 0
    if len(trials) < study.design.planned:
        mirror = Mirror(study).sync(view)  # of its own: it is looked at on another thread
        past, wanted = mirror.study.trials, ready_for(mirror.study.slots)
    return Needs(study.design, branchings, len(trials), ahead, wanted, past)


def _settings_of(study: StudyTrack, job_id: JobId) -> Settings:
    trials = study.trials.values()
    return next((trial.settings for trial in trials if job_id in trial.jobs), ())
