"""This machine as an agent: it works on runs, in a short-lived thread for each errand, and reports
facts.

It knows neither the state nor the queue: an errand carries all that it needs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import sleep
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId, Node, Placement
from dovetail.worlds.agent import Done, Errand, FactLog, Run, RunId, Tells, Used, Work, WorkOutcome
from dovetail.worlds.local import machine
from dovetail.worlds.local.checkpoints import begin_from
from dovetail.worlds.local.containers.command import before_the_first, in_image, remove
from dovetail.worlds.local.containers.engine import find_engine
from dovetail.worlds.local.folders import Folders, LogFile
from dovetail.worlds.local.runs import ladder, processes
from dovetail.worlds.local.runs.ladder import JobSeat
from dovetail.worlds.local.runs.launching import as_user, launch, launch_of
from dovetail.worlds.local.runs.run import ProcessRun
from dovetail.worlds.local.watching.watcher import Watcher
from dovetail.worlds.shortage import Short, is_short, patiently
from dovetail.worlds.world import Ground, Order

_TRY_SHORT_S = 0.5

log = logging.getLogger("dovetail.local")


class LaunchCalledOff(DovetailError):
    """The job could not be started yet, and is not wanted any more."""


_SUCCESS: Final = {
    Work.BRING_UP: WorkOutcome.UP,
    Work.GIVE_WAY: WorkOutcome.GONE,
    Work.MOVE: WorkOutcome.GONE,
    Work.END: WorkOutcome.ENDED,
}
_FAILURE: Final = {
    Work.BRING_UP: WorkOutcome.NOT_STARTED,
    Work.GIVE_WAY: WorkOutcome.STAYED,
    Work.MOVE: WorkOutcome.STAYED,
    Work.END: WorkOutcome.ENDED,
}


class LocalAgent:
    """`probe` is called on the watcher's thread, now and then while jobs run, or always if there may
    be strangers on GPUs."""

    def __init__(
        self,
        nodes: Sequence[Node],
        folders: Folders,
        ground: Ground,
        probe: Callable[[], None],
    ) -> None:
        self._nodes: Final = nodes
        self.folders: Final = folders
        self._ground: Final = ground
        self._log: Final = FactLog(ground.ring)
        self.post: Final = self._log.post
        self.facts: Final = self._log.after
        self._at_work: Final[dict[RunId, Work]] = {}
        self._called_off: Final[set[RunId]] = set()
        self._lock: Final = threading.Lock()
        has_gpus = any(node.labels for node in nodes)
        self.watcher: Final = Watcher(self.post, probe, restless=has_gpus)

    def nodes(self) -> Sequence[Node]:
        return self._nodes

    def log(self, job_id: str) -> LogFile:
        return self.folders.log(job_id)

    def watch(self, run: Run, tells: Tells, upto: int, step: float) -> None:
        self.watcher.watch(run.id.job_id, run, tells, upto, step)

    def run(self, run: RunId) -> ProcessRun:
        return self.folders.run(run.job_id, run.number)

    def gpus_of(self, placement: Placement) -> tuple[str, ...]:
        return machine.uuids_of(placement, self._ground.view.room.nodes)

    def drop(self, job_id: JobId) -> None:
        self.folders.forget_live(job_id)

    def kill(self, run: RunId) -> None:
        ladder.end(self.run(run), 0.0)

    def clean_up_after(self, run: RunId) -> None:
        processes.kill_leftovers(run.job_id, self.folders.runs)
        with suppress(OSError, ValueError):
            remove(self.run(run).launched(), self._ground.account_of(run.job_id))

    def seat(self, order: Order, gpus: tuple[str, ...], room_bytes: int) -> JobSeat:
        if gpus:
            room_bytes = min(room_bytes, machine.host_memory_available_bytes())
        reports = self.folders.reports(order.job_id)
        return JobSeat(gpus, reports, self.folders.checkpoints(order), room_bytes)

    # ------------------------------------------------------------------------------------ the work

    def want(self, errand: Errand) -> None:
        with self._lock:
            if self._at_work.get(errand.run) is errand.work:
                return
            self._at_work[errand.run] = errand.work
            self._called_off.discard(errand.run)
        name = f"job {errand.run.job_id}"
        try:
            threading.Thread(target=self._work, args=(errand,), name=name, daemon=True).start()
        except Exception as error:
            self._forget(errand.run)
            if not is_short(error):
                raise
            raise Short(str(error)) from None

    def call_off(self, run: RunId) -> None:
        with self._lock:
            if self._at_work.get(run) is Work.BRING_UP:
                self._called_off.add(run)

    def _forget(self, run: RunId) -> None:
        with self._lock:
            self._at_work.pop(run, None)
            self._called_off.discard(run)

    def _work(self, errand: Errand) -> None:
        work, used, trouble = errand.work, None, ""
        try:
            used = self._done(errand)
            outcome = _SUCCESS[work]
            if work is Work.GIVE_WAY and used is not None and used.parked:
                outcome = WorkOutcome.PARKED
        except Exception as error:
            trouble = str(error) or type(error).__name__
            outcome = _failed(work, error)
            if not isinstance(error, DovetailError | OSError):
                log.error("the work on job %s failed", errand.run.job_id, exc_info=error)
        self._forget(errand.run)
        self.post(Done(errand.run.job_id, outcome, used, trouble))

    def _done(self, errand: Errand) -> Used | None:
        run, order = self.run(errand.run), errand.order
        seat = self.seat(order, errand.gpus, errand.room_bytes)
        if errand.work is Work.BRING_UP:
            return self._start_when_it_can(errand, run, seat)
        if errand.work is Work.GIVE_WAY:
            return ladder.give_way(run, order, seat)
        if errand.work is Work.MOVE:
            return ladder.save_itself(run, order, seat)
        patiently(lambda: ladder.end(run, order.grace_s), f"the end of job {order.job_id}")
        return None

    def _start_when_it_can(self, errand: Errand, run: ProcessRun, seat: JobSeat) -> Used | None:
        """Tried again while the system is short of something and the job is wanted."""
        while True:
            try:
                return self._start(errand, run, seat)
            except (OSError, DovetailError) as error:
                if not is_short(error):
                    raise
                if errand.run in self._called_off:
                    raise LaunchCalledOff(str(error)) from None
                log.warning("job %s waits to be started: %s", errand.run.job_id, error)
            sleep(_TRY_SHORT_S)

    def _start(self, errand: Errand, run: ProcessRun, seat: JobSeat) -> Used | None:
        """Go on with parked processes, or launch new ones."""
        if run.is_alive():
            return ladder.go_on(run, seat.gpus)
        if not run.begun():
            self._launch(errand, run, seat)
        return None

    def _launch(self, errand: Errand, run: ProcessRun, seat: JobSeat) -> None:
        order, ground = errand.order, self._ground
        what = launch_of(
            *(order, self.folders, ground.environment_of, errand.placement),
            *(seat.gpus, errand.run.number, errand.attempts, errand.rank),
        )
        account = ground.account_of(order.job_id)
        if order.begins_from is not None:
            source = self.folders.checkpoints(ground.order_for(order.begins_from))
            begin_from(source, seat.checkpoints, account)
        note = self.folders.note(order.job_id)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(run.folder.name)
        if order.image:
            folders = [self.folders.folder(own) for own in {order.job_id, order.kept_under}]
            envs, engine = ground.environment_of(order.kept_under), find_engine()
            before_the_first(engine, account)
            what = in_image(what, order.image, engine, folders, envs, seat.gpus, account)
        launch(run, as_user(what, account))


def _failed(work: Work, error: Exception) -> WorkOutcome:
    if isinstance(error, ladder.NotNow):
        return WorkOutcome.NO_ROOM
    return WorkOutcome.CALLED_OFF if isinstance(error, LaunchCalledOff) else _FAILURE[work]
