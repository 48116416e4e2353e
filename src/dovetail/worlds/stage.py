"""The processes of all jobs of a world: what is wanted of them, and which work comes next.

The agent does it. A job is started when everybody who has to leave its GPUs has left.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from dovetail.core.model import JobId, Placement
from dovetail.core.track import Track
from dovetail.workloads.study.kind import studies_of
from dovetail.worlds.agent import Agent, Done, Errand, RunId, Tells, Work, WorkOutcome
from dovetail.worlds.lives import Life, Place, Want, overlap
from dovetail.worlds.pacing import PairPaces
from dovetail.worlds.printed import Sought
from dovetail.worlds.shortage import is_short
from dovetail.worlds.world import Ground, Power

_KEPT_S = 1e-3  # of progress: less is what rounding leaves of progress that was lost


log = logging.getLogger("dovetail.local")


@dataclass(frozen=True, slots=True)
class Relimited:
    """A running job has another power limit or share. None: some GPUs would not have their limit."""

    job_id: JobId | None


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """What was told is to be recorded first; then whoever waits for that is looked at again."""


class ProcessStage:
    """Used by the world's own thread. What the others see or have done goes to `post`."""

    def __init__(
        self,
        agent: Agent,
        ground: Ground,
        suspended_limit_bytes: int,
        limits: Power,
    ) -> None:
        self.agent: Final = agent
        self.folders: Final = agent.folders
        self.view: Final = ground.view
        self.clock: Final = ground.clock
        self.order_for: Final = ground.order_for
        self.lives: Final[dict[JobId, Life]] = {}
        self._limit: Final = suspended_limit_bytes
        self._power_limits: Final = limits
        self._post: Final = agent.post
        self.paces: Final = PairPaces(agent.folders.runs)
        self._pending: dict[JobId, Life] = {}  # those that there may be work for
        self._leaving: dict[JobId, Life] = {}
        self._limited: dict[JobId, Life] = {}
        self.stalled = ""  # why somebody could not be set to work; tried again, see `step_all`
        self.holds_back = False  # somebody is to join a job whose speed alone is not known yet
        self._room: int | None = None  # see `room_bytes`; the same while many are set to work

    # ------------------------------------------------------------------------------- who is there

    def add(self, life: Life) -> Life:
        self.lives[life.job_id] = life
        life.rouse = self._rouse
        self._rouse(life)
        return life

    def _rouse(self, life: Life) -> None:
        """Something is new about it: of thousands only those are looked at."""
        self._pending[life.job_id] = life
        has_limit = life.stands is not None and bool(life.stands.limit)
        for table, is_in in ((self._leaving, life.is_leaving), (self._limited, has_limit)):
            if is_in:
                table[life.job_id] = life
            else:
                table.pop(life.job_id, None)

    # ----------------------------------------------------------------------------- what is wanted

    def want_run(self, job_id: JobId, placement: Placement) -> None:
        life = self.lives.get(job_id)
        if life is None:
            self.add(Life(job_id, Want.RUN, placement))
        else:
            life.wish(Want.RUN, placement)

    def want_away(self, job_id: JobId) -> None:
        life = self.lives.get(job_id)
        if life is not None:
            life.wish(Want.AWAY)
            self._reconsider(life)

    def want_share(self, job_id: JobId, placement: Placement) -> None:
        """The same GPUs with another share (only booked) or another power limit."""
        life = self.lives.get(job_id)
        if life is not None:
            self._post(Relimited(job_id))  # it may be faster or slower there
            life.rebook(placement)

    def want_elsewhere(self, job_id: JobId, placement: Placement) -> None:
        """Other GPUs, more or fewer: it saves itself and goes on there."""
        life = self.lives.get(job_id)
        if life is not None:
            life.wish_elsewhere(placement)

    def want_end(self, job_id: JobId) -> None:
        life = self.lives.get(job_id)
        if life is not None:
            life.wish(Want.END)
            self._reconsider(life)

    def want_anew(self, job_id: JobId, reason: str) -> None:
        """End its processes; once they are gone it lines up again."""
        life = self.lives.get(job_id)
        if life is None:
            return
        life.wish_anew(reason)
        self._reconsider(life)
        if life.work is Work.DROP:
            life.busy = True  # there is nothing to end: it has not begun
            self._post(Done(job_id, WorkOutcome.ENDED))

    # --------------------------------------------------------------------------- the work towards it

    def step_all(self) -> None:
        self.stalled, self.holds_back = "", False
        self._room = None
        for life in list(self._pending.values()):
            self.step(life)
            if life.work is None:
                self._pending.pop(life.job_id, None)
        self._hold_limits()

    def _hold_limits(self) -> None:
        """Power limits are for jobs that are at work and stay so: whoever gives way may hurry."""
        wanted = {
            uuid: life.stands.limit
            for life in self._limited.values()
            if life.stands is not None and not life.is_leaving
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
        elif work is not None:
            self._at_work_on(life, work)

    def _drop(self, life: Life) -> None:
        for table in (self.lives, self._pending, self._leaving, self._limited):
            table.pop(life.job_id, None)
        self.paces.forget([life.job_id])
        self.agent.drop(life.job_id)

    def _is_clear(self, life: Life) -> bool:
        """Has everybody left the GPUs that the job was given?"""
        assert life.booked is not None
        return not any(
            other.stands is not None and overlap(other.stands, life.booked)
            for other in self._leaving.values()
            if other is not life
        )

    def _joins_too_early(self, life: Life) -> bool:
        """Whether it would join a job whose speed alone will soon be known."""
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
        """The jobs whose processes use the same GPUs."""
        here = life.stands
        if here is None or here.whole:
            return frozenset()  # nobody is let in where others have whole GPUs
        return frozenset(
            other.job_id
            for other in self.lives.values()
            if other is not life and here is not None and other.stands is not None
            if (other.place is Place.AT_WORK or other.busy) and overlap(other.stands, here)
        )

    def _bring_up(self, life: Life) -> None:
        run = life.run
        if run is None or life.place is Place.ABSENT:
            run = self.agent.run(run_of(self.view.tracks[life.job_id]))
            if life.run is not None and run.id == life.run.id and run.begun():
                self._post(Unrecorded())  # that the last launch is over, which was told just now
                return
        life.bring_up(run, self.clock())
        self._at_work_on(life, Work.BRING_UP)

    def _at_work_on(self, life: Life, work: Work) -> None:
        """Hand the work to the agent; a fact tells its outcome."""
        life.busy = True
        try:
            self.agent.want(self._errand(life, work))
        except Exception as error:
            life.busy = False
            if not is_short(error):
                raise
            self.stalled = str(error)
            log.warning("job %s has to wait: %s", life.job_id, error)

    def _errand(self, life: Life, work: Work) -> Errand:
        track = self.view.tracks.get(life.job_id)
        is_to_leave = work in (Work.GIVE_WAY, Work.MOVE)
        placement = None if is_to_leave else life.booked  # it has nothing to do there yet
        return Errand(
            *(_id_of(life), work, self.order_for(life.job_id)),
            *(self.gpus_of(life.stands or life.booked), placement),
            attempts=track.attempts if track is not None else 0,
            room_bytes=self._room_now(),
        )

    def room_bytes(self) -> int:
        """The bytes left of the memory for suspended jobs."""
        tracks = (self.view.tracks.get(job_id) for job_id in list(self.lives))
        return self._limit - sum(track.parked_bytes for track in tracks if track is not None)

    def _room_now(self) -> int:
        """Counted once for all that are set to work at once."""
        if self._room is None:
            self._room = self.room_bytes()
        return self._room

    def _reconsider(self, life: Life) -> None:
        if life.busy and life.want is not Want.RUN and life.run is not None:
            self.agent.call_off(_id_of(life))

    def watch(self, life: Life) -> None:
        track = self.view.tracks.get(life.job_id)
        assert life.run is not None
        life.watched = life.run
        upto = track.reported_upto if track is not None else 0
        self.agent.watch(life.run, self._tells(life.job_id), upto, _step(track))

    def _tells(self, job_id: JobId) -> Tells:
        """Where the job's reports are to be found."""
        order = self.order_for(job_id)
        log = self.folders.log_path(job_id) if order.reads_output else None
        reports = self.folders.reports(job_id)
        return Tells(reports, log, order.metric_pattern, self._sought(job_id))

    def _sought(self, job_id: JobId) -> Sought | None:
        track = self.view.tracks.get(job_id)
        study = studies_of(self.view).open.get(track.job.group) if track is not None else None
        if study is None:
            return None
        return Sought(study.design.metric, study.design.steps, study.design.report_every)

    def gpus_of(self, placement: Placement | None) -> tuple[str, ...]:
        """The UUIDs of the GPUs of a placement; none where they are processor slots."""
        return () if placement is None else self.agent.gpus_of(placement)


def run_of(track: Track) -> RunId:
    """The job's last launch."""
    return RunId(track.job.id, track.run)


def _id_of(life: Life) -> RunId:
    assert life.run is not None
    return life.run.id


def _step(track: Track | None) -> float:
    """The last step that the job's processes know of: none, where they have to begin anew."""
    if track is None or track.step is None:
        return 0
    is_of_this_launch = track.reported_at >= track.started_at
    return track.step if is_of_this_launch or track.executed_s > _KEPT_S else 0
