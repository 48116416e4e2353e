"""This machine as an agent: it does work on runs, one short-lived thread for each, and tells facts.

It knows nothing of the state or of a queue: what it must know comes with the errand.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import sleep
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId, Node
from dovetail.worlds.agent import Errand, FactLog, RunId, Work, WorkOutcome
from dovetail.worlds.local import ladder
from dovetail.worlds.local.checkpoints import begin_from
from dovetail.worlds.local.folders import Folders, LogFile
from dovetail.worlds.local.ladder import JobSeat, Used
from dovetail.worlds.local.launching import as_user, launch, launch_of
from dovetail.worlds.local.runs import ProcessRun
from dovetail.worlds.local.watcher import Tells, Watcher
from dovetail.worlds.shortage import Short, is_short, patiently
from dovetail.worlds.world import Ground, Order

_TRY_SHORT_S = 0.5

log = logging.getLogger("dovetail.local")


class CalledOff(DovetailError):
    """It could not be started yet, and need not be any more."""


@dataclass(frozen=True, slots=True)
class Done:
    """The work of somebody on the processes of a job is over."""

    job_id: JobId
    outcome: WorkOutcome
    used: Used | None = None  # None: started afresh, or ended
    trouble: str = ""


_SUCCESS: Final = {
    Work.BRING_UP: WorkOutcome.UP,
    Work.GIVE_WAY: WorkOutcome.GONE,
    Work.END: WorkOutcome.ENDED,
}
_FAILURE: Final = {
    Work.BRING_UP: WorkOutcome.NOT_STARTED,
    Work.GIVE_WAY: WorkOutcome.STAYED,
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

    def inventory(self) -> Sequence[Node]:
        return self._nodes

    def log(self, job_id: str) -> LogFile:
        return self.folders.log(job_id)

    def watch(self, run: RunId, tells: Tells, upto: int, step: float) -> None:
        self.watcher.watch(run.job_id, self._run(run), tells, upto, step)

    def _run(self, run: RunId) -> ProcessRun:
        return self.folders.run(run.job_id, run.number)

    def seat(self, order: Order, gpus: tuple[str, ...], room_bytes: int) -> JobSeat:
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
        run, order = self._run(errand.run), errand.order
        seat = self.seat(order, errand.gpus, errand.room_bytes)
        if errand.work is Work.BRING_UP:
            return self._start_when_it_can(errand, run, seat)
        if errand.work is Work.GIVE_WAY:
            return ladder.give_way(run, order, seat)
        patiently(lambda: ladder.end(run, order.grace_s), f"the end of job {order.job_id}")
        return None

    def _start_when_it_can(self, errand: Errand, run: ProcessRun, seat: JobSeat) -> Used | None:
        """Where the system is short of something it is tried again, as long as it is wanted."""
        while True:
            try:
                return self._start(errand, run, seat)
            except (OSError, DovetailError) as error:
                if not is_short(error):
                    raise
                if errand.run in self._called_off:
                    raise CalledOff(str(error)) from None
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
        launch(run, as_user(what, account))


def _failed(work: Work, error: Exception) -> WorkOutcome:
    if isinstance(error, ladder.NotNow):
        return WorkOutcome.NO_ROOM
    return WorkOutcome.CALLED_OFF if isinstance(error, CalledOff) else _FAILURE[work]
