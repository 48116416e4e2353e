"""The processes of all jobs on this machine: what is wanted of them, and the work towards it.

Each job is worked on by one short-lived thread at a time: to start, to give way, to end. A job is
started when everybody who has to leave its GPUs has left.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import sleep
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId, Placement
from dovetail.core.track import Track
from dovetail.workloads.study.kind import studies_of
from dovetail.worlds.local import ladder
from dovetail.worlds.local.checkpoints import begin_from
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.ladder import Seat, Used
from dovetail.worlds.local.launching import as_user, launch, launch_of
from dovetail.worlds.local.lives import Life, Outcome, Place, Want, Work, overlap
from dovetail.worlds.local.machine import uuids_of
from dovetail.worlds.local.pacing import Paces
from dovetail.worlds.local.power import PowerLimits
from dovetail.worlds.local.runs import Launch, Run
from dovetail.worlds.local.watcher import Tells, Watcher
from dovetail.worlds.printed import Sought
from dovetail.worlds.shortage import is_short, patiently
from dovetail.worlds.world import Ground, Order

_TRY_SHORT_S = 0.5
_KEPT_S = 1e-3  # of progress: less is what rounding leaves of progress that was lost


log = logging.getLogger("dovetail.local")

Hands = Callable[[Life, Order, Seat, Launch | None], Used | None]

_SUCCESS: Final = {
    Work.BRING_UP: Outcome.UP,
    Work.GIVE_WAY: Outcome.GONE,
    Work.END: Outcome.ENDED,
}
_FAILURE: Final = {
    Work.BRING_UP: Outcome.NOT_STARTED,
    Work.GIVE_WAY: Outcome.STAYED,
    Work.END: Outcome.ENDED,
}


class CalledOff(DovetailError):
    """It could not be started yet, and need not be any more."""


@dataclass(frozen=True, slots=True)
class Done:
    """The work of somebody on the processes of a job is over."""

    job_id: JobId
    outcome: Outcome
    used: Used | None = None  # None: started afresh, or ended
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Relimited:
    """A running job has another power limit or share. None: some GPUs would not have their limit."""

    job_id: JobId | None


class Stage:
    """Used by the world's own thread. What the others see or have done goes to `post`."""

    def __init__(
        self,
        folders: Folders,
        ground: Ground,
        suspended_limit_bytes: int,
        limits: PowerLimits,
        post: Callable[[object], None],
        watcher: Watcher,
    ) -> None:
        self.folders: Final = folders
        self.ground: Final = ground
        self.view: Final = ground.view
        self.clock: Final = ground.clock
        self.order_for: Final = ground.order_for
        self.lives: Final[dict[JobId, Life]] = {}
        self._limit: Final = suspended_limit_bytes
        self._power_limits: Final = limits
        self._post: Final = post
        self._watcher: Final = watcher
        self.paces: Final = Paces(folders.runs)
        self.stalled = ""  # why somebody could not be set to work; tried again, see `step_all`
        self.holds_back = False  # somebody is to join a job whose speed alone is not known yet

    # ----------------------------------------------------------------------------- what is wanted

    def want_run(self, job_id: JobId, placement: Placement) -> None:
        life = self.lives.get(job_id)
        if life is None:
            self.lives[job_id] = Life(job_id, Want.RUN, placement)
        else:
            life.wish(Want.RUN, placement)

    def want_away(self, job_id: JobId) -> None:
        life = self.lives.get(job_id)
        if life is not None:
            life.wish(Want.AWAY)

    def want_share(self, job_id: JobId, placement: Placement) -> None:
        """Another share of the GPUs it has, a matter of the book alone, or another power limit."""
        life = self.lives.get(job_id)
        if life is not None:
            self._post(Relimited(job_id))  # it may be faster or slower there
            life.rebook(placement)

    def want_end(self, job_id: JobId) -> None:
        life = self.lives.get(job_id)
        if life is not None:
            life.wish(Want.END)

    def want_anew(self, job_id: JobId, reason: str) -> None:
        """End its processes; once they are gone it lines up again."""
        life = self.lives.get(job_id)
        if life is None:
            return
        life.wish_anew(reason)
        if life.work is Work.DROP:
            life.busy = True  # there is nothing to end: it has not begun
            self._post(Done(job_id, Outcome.ENDED))

    # --------------------------------------------------------------------------- the work towards it

    def step_all(self) -> None:
        self.stalled, self.holds_back = "", False
        for life in list(self.lives.values()):
            self.step(life)
        self._hold_limits()

    def _hold_limits(self) -> None:
        """Power limits are for jobs that are at work and stay so: whoever gives way may hurry."""
        wanted = {
            uuid: life.stands.limit
            for life in self.lives.values()
            if life.stands is not None and life.stands.limit and not life.is_leaving
            for uuid in self.gpus_of(life.stands)
        }
        if not self._power_limits.hold(wanted):
            self._post(Relimited(None))

    def step(self, life: Life) -> None:
        """Do the next thing towards what is wanted, if nobody is at it already."""
        work = life.work
        if work is Work.BRING_UP:
            if not self._is_clear(life):
                return
            if self._joins_too_early(life):
                self.holds_back = True
            else:
                self._bring_up(life)
        elif work is Work.DROP:
            self._drop(life)
        elif work is Work.END:
            self._at_work_on(life, work, self._end)
        elif work is Work.GIVE_WAY:
            self._at_work_on(life, work, self._give_way)

    def _drop(self, life: Life) -> None:
        del self.lives[life.job_id]
        self.paces.forget([life.job_id])
        self.folders.note(life.job_id).unlink(missing_ok=True)

    def _is_clear(self, life: Life) -> bool:
        """Has everybody left the GPUs that the job was given?"""
        assert life.booked is not None
        return not any(
            other.is_leaving and other.stands is not None and overlap(other.stands, life.booked)
            for other in self.lives.values()
            if other is not life
        )

    def _joins_too_early(self, life: Life) -> bool:
        """Is it put beside a job of which it will soon be known how fast it is alone?"""
        track = self.view.tracks.get(life.job_id)
        assert life.booked is not None
        if track is None or life.booked.share >= track.job.share:
            return False
        now = self.clock()
        there = [
            other
            for other in self.lives.values()
            if other is not life and other.stands is not None
            if overlap(other.stands, life.booked)
        ]
        if any(self.paces.is_awaited(other.job_id, other.began_at, now) for other in there):
            return True
        silent = [other.job_id for other in there if self.paces.alone(other.job_id) is None]
        if silent:
            log.warning(
                "job %s joins job %s, which reports no steps: whether that pays is not known",
                *(life.job_id, silent[0]),
            )
        return False

    def neighbours(self, life: Life) -> frozenset[JobId]:
        """Whose processes are on its GPUs, too."""
        here = life.stands
        return frozenset(
            other.job_id
            for other in self.lives.values()
            if other is not life and here is not None and other.stands is not None
            if (other.place is Place.AT_WORK or other.busy) and overlap(other.stands, here)
        )

    def _bring_up(self, life: Life) -> None:
        run = life.run
        if run is None or life.place is Place.ABSENT:
            run = self.run_of(self.view.tracks[life.job_id])
        life.bring_up(run, self.clock())
        self._at_work_on(life, Work.BRING_UP, self._start_when_it_can)

    def _at_work_on(self, life: Life, work: Work, hands: Hands) -> None:
        """Let somebody do the work; what comes of it arrives in the inbox."""

        def at_work(order: Order, seat: Seat, what: Launch | None) -> None:
            try:
                used, trouble = hands(life, order, seat, what), ""
                outcome = _SUCCESS[work]
                if used is not None and work is Work.GIVE_WAY and used.parked:
                    outcome = Outcome.PARKED
            except Exception as error:
                used, trouble = None, str(error) or type(error).__name__
                outcome = _failed(work, error)
                if not isinstance(error, DovetailError | OSError):
                    log.error("the work on job %s failed", life.job_id, exc_info=error)
            self._post(Done(life.job_id, outcome, used, trouble))

        life.busy = True
        try:
            order = self.order_for(life.job_id)
            seat = self.seat(life, order)
            given = (order, seat, self._launch(life, order, seat))
            name = f"job {life.job_id}"
            threading.Thread(target=at_work, args=given, name=name, daemon=True).start()
        except Exception as error:
            life.busy = False
            if not is_short(error):
                raise
            self.stalled = str(error)
            log.warning("job %s has to wait: %s", life.job_id, error)

    def seat(self, life: Life, order: Order) -> Seat:
        parked = sum(
            track.parked_bytes
            for track in (self.view.tracks.get(job_id) for job_id in list(self.lives))
            if track is not None
        )
        return Seat(
            self.gpus_of(life.stands or life.booked),
            self.folders.reports(life.job_id),
            self.folders.checkpoints(order),
            self._limit - parked,
        )

    def _launch(self, life: Life, order: Order, seat: Seat) -> Launch | None:
        if life.want is not Want.RUN:
            return None
        track = self.view.tracks.get(life.job_id)
        run, attempts = (track.run, track.attempts) if track is not None else (0, 0)
        environment_of = self.ground.environment_of
        return launch_of(order, self.folders, environment_of, life.booked, seat.gpus, run, attempts)

    def _start(self, life: Life, order: Order, seat: Seat, what: Launch | None) -> Used | None:
        """Go on with parked processes, or launch new ones."""
        run = life.run
        assert run is not None
        if run.is_alive():
            return ladder.go_on(run, seat.gpus)
        if not run.begun():
            account = self.ground.account_of(life.job_id)
            if order.begins_from is not None:
                source = self.folders.checkpoints(self.order_for(order.begins_from))
                begin_from(source, seat.checkpoints, account)
            note = self.folders.note(life.job_id)
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(run.folder.name)
            assert what is not None
            launch(run, as_user(what, account))
        return None

    def _start_when_it_can(
        self, life: Life, order: Order, seat: Seat, what: Launch | None
    ) -> Used | None:
        """Where the system is short of something it is tried again, as long as it is wanted."""
        while True:
            try:
                return self._start(life, order, seat, what)
            except (OSError, DovetailError) as error:
                if not is_short(error):
                    raise
                if life.want is not Want.RUN:
                    raise CalledOff(str(error)) from None
                log.warning("job %s waits to be started: %s", life.job_id, error)
            sleep(_TRY_SHORT_S)

    def _give_way(self, life: Life, order: Order, seat: Seat, what: Launch | None) -> Used | None:
        assert life.run is not None
        return ladder.give_way(life.run, order, seat)

    def _end(self, life: Life, order: Order, seat: Seat, what: Launch | None) -> Used | None:
        assert life.run is not None
        run = life.run
        patiently(lambda: ladder.end(run, order.grace_s), f"the end of job {life.job_id}")
        return None

    def watch(self, life: Life) -> None:
        track = self.view.tracks.get(life.job_id)
        assert life.run is not None
        life.watched = life.run
        upto = track.reported_upto if track is not None else 0
        self._watcher.watch(life.job_id, life.run, self._tells(life.job_id), upto, _step(track))

    def _tells(self, job_id: JobId) -> Tells:
        """Where the job's reports are to be found."""
        order = self.order_for(job_id)
        log = self.folders.log(job_id).path if order.reads_output else None
        reports = self.folders.reports(job_id)
        return Tells(reports, log, order.metric_pattern, self._sought(job_id))

    def _sought(self, job_id: JobId) -> Sought | None:
        track = self.view.tracks.get(job_id)
        study = studies_of(self.view).open.get(track.job.group) if track is not None else None
        if study is None:
            return None
        return Sought(study.design.metric, study.design.steps, study.design.report_every)

    def run_of(self, track: Track) -> Run:
        return self.folders.run(track.job.id, track.run)

    def gpus_of(self, placement: Placement | None) -> tuple[str, ...]:
        """The UUIDs of the GPUs of a placement; none where they are processor slots."""
        return () if placement is None else uuids_of(placement, self.view.room.nodes)


def _failed(work: Work, error: Exception) -> Outcome:
    if isinstance(error, ladder.NotNow):
        return Outcome.NO_ROOM
    return Outcome.CALLED_OFF if isinstance(error, CalledOff) else _FAILURE[work]


def _step(track: Track | None) -> float:
    """The last step that the job's processes know of: none, where they have to begin anew."""
    if track is None or track.step is None:
        return 0
    is_of_this_launch = track.reported_at >= track.started_at
    return track.step if is_of_this_launch or track.executed_s > _KEPT_S else 0
