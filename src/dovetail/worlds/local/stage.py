"""The processes of all jobs on this machine: what is wanted of them, and the work towards it.

Each job is worked on by one short-lived thread at a time: to start, to give way, to end. A job is
started when everybody who has to leave its GPUs has left.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.core.model import WHOLE_GPU, JobId, Placement, Seconds
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.workloads.study.kind import studies_of
from dovetail.worlds.local import ladder
from dovetail.worlds.local.checkpoints import begin_from, owner_of
from dovetail.worlds.local.ladder import Manners, Used
from dovetail.worlds.local.lives import LIVE, REPORTS, Life, Order, Place, Want, overlap
from dovetail.worlds.local.machine import uuids_of
from dovetail.worlds.local.pacing import Paces
from dovetail.worlds.local.power import PowerLimits
from dovetail.worlds.local.printed import Sought
from dovetail.worlds.local.runs import Launch, Run
from dovetail.worlds.local.shortage import Short, is_short, patiently, says_short
from dovetail.worlds.local.watcher import Tells, Watcher

_BEGIN_WITHIN_S = 30.0
_TRY_AGAIN_S = 0.05
_TRY_SHORT_S = 0.5
_KEPT_S = 1e-3  # of progress: less is what rounding leaves of progress that was lost


log = logging.getLogger("dovetail.local")


class CalledOff(DovetailError):
    """It could not be started yet, and need not be any more."""


@dataclass(frozen=True, slots=True)
class Done:
    """The work of somebody on the processes of a job is over."""

    job_id: JobId
    wanted: Want
    used: Used | None  # None: started afresh, or ended
    trouble: str = ""
    unharmed: bool = False  # in spite of the trouble: try again later
    called_off: bool = False  # it never began, and is not wanted any more


@dataclass(frozen=True, slots=True)
class Relimited:
    """A running job has another power limit or share. None: some GPUs would not have their limit."""

    job_id: JobId | None


class Stage:
    """Used by the world's own thread. What the others see or have done goes to `post`."""

    def __init__(
        self,
        runs: Path,
        view: View,
        clock: Callable[[], Seconds],
        order_for: Callable[[JobId], Order],
        suspended_limit_bytes: int,
        limits: PowerLimits,
        post: Callable[[object], None],
        watcher: Watcher,
    ) -> None:
        self.runs: Final = runs
        self.view: Final = view
        self.clock: Final = clock
        self.order_for: Final = order_for
        self.lives: Final[dict[JobId, Life]] = {}
        self._limit: Final = suspended_limit_bytes
        self._power_limits: Final = limits
        self._post: Final = post
        self._watcher: Final = watcher
        self.paces: Final = Paces(runs)
        self.stalled = ""  # why somebody could not be set to work; tried again, see `step_all`
        self.holds_back = False  # somebody is to join a job whose speed alone is not known yet

    # ----------------------------------------------------------------------------- what is wanted

    def want_run(self, job_id: JobId, placement: Placement) -> None:
        life = self.lives.get(job_id)
        if life is None:
            life = self.lives[job_id] = Life(job_id, Want.RUN)
        life.booked = placement
        if not life.requeue:  # else its processes go first, and it lines up again
            life.want = Want.RUN

    def want_away(self, job_id: JobId) -> None:
        life = self.lives.get(job_id)
        if life is not None:
            life.booked = None
            if not life.requeue:
                life.want = Want.AWAY

    def want_share(self, job_id: JobId, placement: Placement) -> None:
        """Another share of the GPUs it has, a matter of the book alone, or another power limit."""
        life = self.lives.get(job_id)
        if life is not None:
            self._post(Relimited(job_id))  # it may be faster or slower there
            life.booked = placement
            if life.stands is not None:
                life.stands = placement

    def want_end(self, job_id: JobId) -> None:
        life = self.lives.get(job_id)
        if life is not None:
            life.want = Want.END
            life.booked = None
            self.step(life)

    def want_anew(self, job_id: JobId, reason: str) -> None:
        """End its processes; once they are gone it lines up again."""
        life = self.lives.get(job_id)
        if life is None:
            return
        life.requeue = reason
        life.want = Want.END
        if life.place is Place.ABSENT and not life.busy and not life.ended:
            life.busy = True  # there is nothing to end: it has not begun
            self._post(Done(job_id, Want.END, None))
        else:
            self.step(life)

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
        if life.busy or life.ended:
            return
        if life.want is Want.RUN:
            if life.place is not Place.AT_WORK and self._is_clear(life):
                if self._joins_too_early(life):
                    self.holds_back = True
                else:
                    self._bring_up(life)
        elif life.place is Place.ABSENT:
            self._drop(life)
        elif life.want is Want.END:
            self._at_work_on(life, self._end)
        elif life.place is Place.AT_WORK:
            self._at_work_on(life, self._give_way)

    def _drop(self, life: Life) -> None:
        del self.lives[life.job_id]
        self.paces.forget([life.job_id])
        (self.live_folder() / life.job_id).unlink(missing_ok=True)

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
        track = self.view.tracks[life.job_id]
        if life.run is None or life.place is Place.ABSENT:
            life.run = self.run_of(track)
        life.stands = life.booked
        life.began_at = self.clock()
        self._at_work_on(life, self._start_when_it_can)

    def _at_work_on(self, life: Life, work: Callable[[Life, Manners, Launch], Used | None]) -> None:
        """Let somebody do the work; what comes of it arrives in the inbox."""
        wanted = life.want

        def at_work(manners: Manners, launch: Launch) -> None:
            used, trouble, unharmed, called_off = None, "", False, False
            try:
                used = work(life, manners, launch)
            except Exception as error:
                trouble = str(error) or type(error).__name__
                unharmed = isinstance(error, ladder.NotNow)
                called_off = isinstance(error, CalledOff)
                if not isinstance(error, DovetailError | OSError):
                    log.error("the work on job %s failed", life.job_id, exc_info=error)
            self._post(Done(life.job_id, wanted, used, trouble, unharmed, called_off))

        life.busy = True
        try:
            order = self.order_for(life.job_id)
            manners = self.manners(life, order)
            given = (manners, self._launch(life, order, manners))
            name = f"job {life.job_id}"
            threading.Thread(target=at_work, args=given, name=name, daemon=True).start()
        except Exception as error:
            life.busy = False
            if not is_short(error):
                raise
            self.stalled = str(error)
            log.warning("job %s has to wait: %s", life.job_id, error)

    def _launch(self, life: Life, order: Order, manners: Manners) -> Launch:
        """The launch of the job with the variables that tell it where it is."""
        track, folder = self.view.tracks.get(life.job_id), self.folder(life.job_id)
        run = track.run if track is not None else 0
        env = {
            **order.launch.env,
            "CUDA_VISIBLE_DEVICES": ",".join(manners.gpus),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "DOVETAIL_JOB_ID": life.job_id,
            "DOVETAIL_ATTEMPT": str(track.attempts if track is not None else 0),
            "DOVETAIL_RESUMED": "1" if run > 1 else "0",
            "DOVETAIL_REPORT": str(manners.reports),
            "DOVETAIL_CHECKPOINT_DIR": str(manners.checkpoints),
            "DOVETAIL_STOP": str(folder / str(run) / "stop"),
            "DOVETAIL_GRACE_SECONDS": f"{order.grace_s:g}",
            **_given(life.booked),
            **(_for_slurm(life.booked, run) if "SLURM_JOB_ID" in order.launch.env else {}),
        }
        return replace(order.launch, env=env)

    def manners(self, life: Life, order: Order) -> Manners:
        parked = sum(
            track.parked_bytes
            for track in (self.view.tracks.get(job_id) for job_id in list(self.lives))
            if track is not None
        )
        return Manners(
            self.folder(life.job_id) / REPORTS,
            order.checkpoints,
            order.grace_s,
            order.preemptible,
            order.restartable,
            order.saves_itself,
            self.gpus_of(life.stands or life.booked),
            self._limit - parked,
            order.begins_from,
        )

    def _start(self, life: Life, manners: Manners, launch: Launch) -> Used | None:
        """Go on with parked processes, or launch new ones."""
        run = life.run
        assert run is not None
        if run.is_alive():
            return ladder.go_on(run, manners.gpus)
        if not run.begun():
            launch = launch.with_owner()
            if manners.begins_from is not None:
                begin_from(manners.begins_from, manners.checkpoints, owner_of(launch))
            live = self.live_folder()
            live.mkdir(parents=True, exist_ok=True)
            (live / life.job_id).write_text(run.folder.name)
            _launch(run, launch)
        return None

    def _start_when_it_can(self, life: Life, manners: Manners, launch: Launch) -> Used | None:
        """Where the system is short of something it is tried again, as long as it is wanted."""
        while True:
            try:
                return self._start(life, manners, launch)
            except (OSError, DovetailError) as error:
                if not is_short(error):
                    raise
                if life.want is not Want.RUN:
                    raise CalledOff(str(error)) from None
                log.warning("job %s waits to be started: %s", life.job_id, error)
            sleep(_TRY_SHORT_S)

    def _give_way(self, life: Life, manners: Manners, launch: Launch) -> Used | None:
        assert life.run is not None
        return ladder.give_way(life.run, manners)

    def _end(self, life: Life, manners: Manners, launch: Launch) -> Used | None:
        assert life.run is not None
        run = life.run
        patiently(lambda: ladder.end(run, manners.grace_s), f"the end of job {life.job_id}")
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
        log = order.launch.log if order.reads_output else None
        return Tells(self.folder(job_id) / REPORTS, log, order.metric_pattern, self._sought(job_id))

    def _sought(self, job_id: JobId) -> Sought | None:
        track = self.view.tracks.get(job_id)
        study = studies_of(self.view).open.get(track.job.group) if track is not None else None
        if study is None:
            return None
        return Sought(study.design.metric, study.design.steps, study.design.report_every)

    def folder(self, job_id: JobId) -> Path:
        return self.runs / job_id

    def live_folder(self) -> Path:
        return self.runs / LIVE

    def run_of(self, track: Track) -> Run:
        return Run(self.folder(track.job.id) / str(track.run))

    def gpus_of(self, placement: Placement | None) -> tuple[str, ...]:
        """The UUIDs of the GPUs of a placement; none where they are processor slots."""
        return () if placement is None else uuids_of(placement, self.view.room.nodes)


def _step(track: Track | None) -> float:
    """The last step that the job's processes know of: none, where they have to begin anew."""
    if track is None or track.step is None:
        return 0
    is_of_this_launch = track.reported_at >= track.started_at
    return track.step if is_of_this_launch or track.executed_s > _KEPT_S else 0


def _given(placement: Placement | None) -> dict[str, str]:
    """How many GPUs or slots a job has. If it is only a part of one: how much, and what JAX goes by."""
    if placement is None:
        return {}
    if placement.share == WHOLE_GPU:
        return {"DOVETAIL_GPUS": str(placement.gpus)}
    part = f"{placement.share / WHOLE_GPU:g}"
    return {
        "DOVETAIL_GPUS": "1",
        "DOVETAIL_GPU_SHARE": part,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": part,
    }


def _for_slurm(placement: Placement | None, run: int) -> dict[str, str]:
    """What a Slurm script may ask about the GPUs that it has."""
    found = {"SLURM_RESTART_COUNT": str(max(run - 1, 0))}
    if placement is None or not placement.gpus:
        return found
    indices = [str(gpu) for piece in placement.slices for gpu in _set_bits(piece.mask)]
    gpus = ",".join(indices)
    found |= {"SLURM_GPUS_ON_NODE": str(len(indices)), "SLURM_JOB_GPUS": gpus}
    return {**found, "SLURM_STEP_GPUS": gpus}


def _set_bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _launch(run: Run, launch: Launch) -> None:
    """Until it has begun. The keeper of a daemon since killed may be on its way: then ours gives up,
    and for a moment neither has begun."""
    until = monotonic() + _BEGIN_WITHIN_S
    run.launch(launch)
    while not run.wait_until_begun():
        trouble = run.trouble()
        if says_short(trouble):
            raise Short(trouble)
        if monotonic() > until:
            raise DovetailError(trouble or "the system did not let it begin")
        sleep(_TRY_AGAIN_S)
        run.launch(launch)
