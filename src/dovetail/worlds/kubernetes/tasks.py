"""Flows in progress, and the few workers that go on with those that have something new."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from time import monotonic
from typing import Final

from dovetail.worlds.agent import Done, RunId, Work, WorkOutcome

_TICK_S: Final = 0.25
_FAILED: Final = {
    Work.BRING_UP: WorkOutcome.NOT_STARTED,
    Work.GIVE_WAY: WorkOutcome.STAYED,
    Work.MOVE: WorkOutcome.STAYED,
    Work.END: WorkOutcome.ENDED,
}

log = logging.getLogger("dovetail.kubernetes")

Flow = Generator[float, None, Done | None] | Generator[float, None, None]


class _Task:
    """One worker at a time goes on with it."""

    def __init__(self, flow: Flow, work: Work | None) -> None:
        self.flow: Final = flow
        self.work: Final = work  # None: it cleans up
        self.due = 0.0
        self.is_queued = self.is_at_work = self.is_poked = False


class Tasks:
    """One for each launch. `finished` is called with what came of it, on the thread of a worker."""

    def __init__(self, workers: Executor, finished: Callable[[RunId, Done | None], None]) -> None:
        self._workers: Final = workers
        self._finished: Final = finished
        self._lock: Final = threading.Lock()
        self._tasks: dict[RunId, _Task] = {}
        self._over: Final = threading.Event()

    def begin(self, run: RunId, flow: Flow, work: Work | None) -> None:
        with self._lock:
            self._tasks[run] = _Task(flow, work)
        self.poke(run)

    def work(self, run: RunId) -> Work | None:
        with self._lock:
            task = self._tasks.get(run)
            return None if task is None else task.work

    def __contains__(self, run: RunId) -> bool:
        with self._lock:
            return run in self._tasks

    def poke(self, run: RunId) -> None:
        """There is something new for it."""
        with self._lock:
            task = self._tasks.get(run)
            if task is None or self._over.is_set():
                return
            task.is_poked = True
            if task.is_queued or task.is_at_work:
                return
            task.is_queued = True
        self._workers.submit(self._go_on_with, run, task)

    def _go_on_with(self, run: RunId, task: _Task) -> None:
        with self._lock:
            task.is_queued, task.is_at_work = False, True
        while True:
            with self._lock:
                task.is_poked = False
            try:
                task.due = next(task.flow)
            except StopIteration as stop:
                self._finish(run, task, stop.value)
                return
            except Exception as error:
                log.error("the work on job %s failed", run.job_id, exc_info=error)
                self._finish(run, task, _failure(run, task, error))
                return
            with self._lock:
                if not task.is_poked:
                    task.is_at_work = False
                    return

    def _finish(self, run: RunId, task: _Task, done: Done | None) -> None:
        with self._lock:
            if self._tasks.get(run) is task:
                del self._tasks[run]
        self._finished(run, done)

    def keep_time(self, now_and_then: Callable[[], None]) -> None:
        """Until `stop`: those whose time has come are looked at."""
        while not self._over.wait(_TICK_S):
            now = monotonic()
            with self._lock:
                due = [run for run, task in self._tasks.items() if task.due <= now]
            for run in due:
                self.poke(run)
            now_and_then()

    def stop(self) -> None:
        self._over.set()


def _failure(run: RunId, task: _Task, error: Exception) -> Done | None:
    if task.work is None:
        return None
    trouble = str(error) or type(error).__name__
    return Done(run.job_id, _FAILED[task.work], trouble=trouble)
