"""The processes of all jobs on this machine: what is wanted of them, and the work towards it.

Each job is worked on by one short-lived thread at a time: to start, to give way, to end. A job is
started when everybody who has to leave its GPUs has left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from dovetail.backends.local import ladder
from dovetail.backends.local.checkpoints import begin_from, owner_of
from dovetail.backends.local.ladder import Manners, Used
from dovetail.backends.local.lives import REPORTS, Life, Order, Place, Want, overlap
from dovetail.backends.local.machine import uuids_of
from dovetail.backends.local.power import PowerLimits
from dovetail.backends.local.printed import Sought
from dovetail.backends.local.runs import Launch, Run
from dovetail.backends.local.watcher import Tells, Watcher
from dovetail.core.errors import DovetailError
from dovetail.core.model import WHOLE_GPU, JobId, Placement, Seconds
from dovetail.core.track import Track
from dovetail.core.view import View

_BEGIN_WITHIN_S = 30.0
_TRY_AGAIN_S = 0.05
_KEPT_S = 1e-3  # of progress: less is what rounding leaves of progress that was lost


@dataclass(frozen=True, slots=True)
class Done:
    """The work of somebody on the processes of a job is over."""

    job_id: JobId
    wanted: Want
    used: Used | None  # None: started afresh, or ended
    trouble: str = ""
    unharmed: bool = False  # in spite of the trouble: try again later


@dataclass(frozen=True, slots=True)
class Relimited:
    """A running job has another power limit. None: some GPUs would not have theirs."""

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

    def knows(self, job_id: JobId) -> bool:
        """Was it ever submitted, as far as the journal goes?"""
        try:
            self.order_for(job_id)
        except LookupError:
            return False
        return True

    # ----------------------------------------------------------------------------- what is wanted

    def want_run(self, job_id: JobId, placement: Placement) -> None:
        life = self.lives.get(job_id)
        if life is None:
            life = self.lives[job_id] = Life(job_id, Want.RUN)
        life.want = Want.RUN
        life.booked = placement

    def want_away(self, job_id: JobId) -> None:
        life = self.lives.get(job_id)
        if life is not None:
            life.want = Want.AWAY
            life.booked = None

    def want_share(self, job_id: JobId, placement: Placement) -> None:
        """Another share of the GPUs it has, a matter of the book alone, or another power limit."""
        life = self.lives.get(job_id)
        if life is not None:
            if life.booked is not None and life.booked.limit != placement.limit:
                self._post(Relimited(job_id))
            life.booked = placement
            if life.stands is not None:
                life.stands = placement

    def want_end(self, job_id: JobId) -> None:
        life = self.lives.get(job_id)
        if life is not None:
            life.want = Want.END
            life.booked = None
            self.step(life)

    # --------------------------------------------------------------------------- the work towards it

    def step_all(self) -> None:
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
                self._bring_up(life)
        elif life.place is Place.ABSENT:
            self._drop(life)
        elif life.want is Want.END:
            self._at_work_on(life, self._end)
        elif life.place is Place.AT_WORK:
            self._at_work_on(life, self._give_way)

    def _drop(self, life: Life) -> None:
        del self.lives[life.job_id]
        (self.live_folder() / life.job_id).unlink(missing_ok=True)

    def _is_clear(self, life: Life) -> bool:
        """Has everybody left the GPUs that the job was given?"""
        assert life.booked is not None
        return not any(
            other.is_leaving and other.stands is not None and overlap(other.stands, life.booked)
            for other in self.lives.values()
            if other is not life
        )

    def _bring_up(self, life: Life) -> None:
        track = self.view.tracks[life.job_id]
        if life.run is None or life.place is Place.ABSENT:
            life.run = self.run_of(track)
        life.stands = life.booked
        life.began_at = self.clock()
        self._at_work_on(life, self._start)

    def _at_work_on(self, life: Life, work: Callable[[Life, Manners, Launch], Used | None]) -> None:
        """Let somebody do the work; what comes of it arrives in the inbox."""
        life.busy = True
        wanted = life.want
        order = self.order_for(life.job_id)
        manners = self.manners(life, order)
        launch = self._launch(life, order, manners)

        def at_work() -> None:
            used, trouble, unharmed = None, "", False
            try:
                used = work(life, manners, launch)
            except (DovetailError, OSError) as error:
                trouble = str(error) or type(error).__name__
                unharmed = isinstance(error, ladder.NotNow)
            self._post(Done(life.job_id, wanted, used, trouble, unharmed))

        threading.Thread(target=at_work, name=f"job {life.job_id}", daemon=True).start()

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
            if manners.begins_from is not None:
                begin_from(manners.begins_from, manners.checkpoints, owner_of(launch))
            live = self.live_folder()
            live.mkdir(parents=True, exist_ok=True)
            (live / life.job_id).write_text(run.folder.name)
            _launch(run, launch)
        return None

    def _give_way(self, life: Life, manners: Manners, launch: Launch) -> Used | None:
        assert life.run is not None
        return ladder.give_way(life.run, manners)

    def _end(self, life: Life, manners: Manners, launch: Launch) -> Used | None:
        assert life.run is not None
        ladder.end(life.run, manners.grace_s)
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
        study = self.view.studies.open.get(track.job.group) if track is not None else None
        if study is None:
            return None
        return Sought(study.design.metric, study.design.steps, study.design.report_every)

    def folder(self, job_id: JobId) -> Path:
        return self.runs / job_id

    def live_folder(self) -> Path:
        return self.runs / "live"

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
        if monotonic() > until:
            raise DovetailError(run.trouble() or "the system did not let it begin")
        sleep(_TRY_AGAIN_S)
        run.launch(launch)
