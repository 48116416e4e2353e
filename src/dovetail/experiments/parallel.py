"""Several policies at once, each in a process of its own, with one progress bar and the time left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify, heapreplace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from typing import Any, Generic, TypeVar

from dovetail.core.errors import DovetailError
from dovetail.experiments.experiment import Experiment, simulate, unfinished
from dovetail.experiments.files import JOURNAL
from dovetail.experiments.progress_bar import ProgressBar
from dovetail.experiments.workers import processors
from dovetail.results.record import RunRecord
from dovetail.text.durations import duration_text

T = TypeVar("T")

_LOOK_EVERY_S = 0.1
_STOPPED = "stopped before its end"


@dataclass(frozen=True, slots=True)
class Failure:
    """A piece of work without a result, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunOutcomes(Generic[T]):
    """A result or a failure for each piece of work, in order."""

    results: Sequence[T | Failure]
    stopped: int = 0  # the signal that ended it early

    @property
    def good(self) -> list[T]:
        return [one for one in self.results if not isinstance(one, Failure)]

    @property
    def failures(self) -> list[Failure]:
        return [one for one in self.results if isinstance(one, Failure)]

    @property
    def exit_code(self) -> int:
        return 128 + self.stopped if self.stopped else int(bool(self.failures))


def simulate_all(
    experiment: Experiment,
    policies: Sequence[str],
    folders: Sequence[Path | None],
    quiet: bool,
    rows: bool = False,
) -> RunOutcomes[RunRecord]:
    """One record per policy, in their order, or the reason why there is none. Its jobs are in it with
    `rows`, and where there is a folder for them."""

    def one(number: int, tell: Callable[[int], object]) -> RunRecord:
        return _one(experiment, policies[number], folders[number], rows, tell)

    def abandon(number: int) -> None:
        _remove_journal(folders[number])

    sizes = [len(experiment.arrivals)] * len(policies)
    return each(policies, sizes, one, "simulating", quiet, abandon)


def each(
    names: Sequence[str],
    sizes: Sequence[int],
    work: Callable[[int, Callable[[int], object]], T],
    doing: str,
    quiet: bool,
    abandon: Callable[[int], object] = lambda number: None,
) -> RunOutcomes[T]:
    """The result of `work(number, tell)` for each, in order; `tell` takes how much of its size is done.

    As many processes as there are processors. A failure does not affect the others, and pieces that a
    signal cuts short are passed to `abandon`; if there is only one, or none succeeds, the error is
    raised.
    """
    forks = len(names) > 1 and hasattr(os, "fork")
    pace = WorkPace(sizes, processors() if forks else 1)
    with _ending_when_told(), ProgressBar(quiet, doing) as bar:
        if forks:
            return _Side(names, work, pace, bar, abandon).by_side()
        return RunOutcomes([_alone(number, work, pace, bar) for number in range(len(names))])


def _alone(
    number: int, work: Callable[[int, Callable[[int], object]], T], pace: WorkPace, bar: ProgressBar
) -> T:
    pace.begin(number)

    def tell(done: int) -> None:
        pace.tell(number, done)
        bar.show(pace.part(), pace.left_text())

    result = work(number, tell)
    pace.end(number)
    return result


def _one(
    experiment: Experiment,
    policy: str,
    folder: Path | None,
    rows: bool,
    progress: Callable[[int], object],
) -> RunRecord:
    journal, rows = folder / JOURNAL if folder else None, rows or folder is not None
    return simulate(experiment, policy, rows=rows, journal=journal, progress=progress)


class _Told(BaseException):
    """A signal asks us to end: unwind, so that no child is left and finished work is kept."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def _ending_when_told() -> Iterator[None]:
    """SIGTERM unwinds this process, so that it ends its children and leaves no half-written file."""

    def end(number: int, _: object) -> None:
        raise _Told(number)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread, which alone may set signal handlers
        yield
        return
    try:
        yield
    except _Told as told:
        raise SystemExit(128 + told.number) from None
    finally:
        signal.signal(signal.SIGTERM, before)


class _Side(Generic[T]):
    """Pieces of work side by side, each in a process. Forked, so that a large trace is shared and
    not sent."""

    def __init__(
        self,
        names: Sequence[str],
        work: Callable[[int, Callable[[int], object]], T],
        pace: WorkPace,
        bar: ProgressBar,
        abandon: Callable[[int], object],
    ) -> None:
        self._names, self._work, self._pace, self._bar = names, work, pace, bar
        self._abandon = abandon
        self._context = multiprocessing.get_context("fork")
        self._done = self._context.Array("q", len(names), lock=False)
        self._running: dict[int, tuple[Any, Connection]] = {}
        self._results: dict[int, T | Failure] = {}
        self._errors: list[Exception] = []

    def by_side(self) -> RunOutcomes[T]:
        stopped = 0
        try:
            self._run_all()
        except _Told as told:
            stopped = told.number
        except KeyboardInterrupt:
            stopped = signal.SIGINT
        finally:
            self._take_last_results()
            self._end_all()
        if not any(not isinstance(one, Failure) for one in self._results.values()):
            if stopped == signal.SIGINT:
                raise KeyboardInterrupt
            if stopped:
                raise SystemExit(128 + stopped)
            raise self._errors[0]
        for number, name in enumerate(self._names):
            self._results.setdefault(number, Failure(name, _STOPPED))
        return RunOutcomes([self._results[number] for number in range(len(self._names))], stopped)

    def _run_all(self) -> None:
        waiting, most = list(range(len(self._names)))[::-1], processors()
        while waiting or self._running:
            while waiting and len(self._running) < most:
                self._begin(waiting.pop())
            self._collect()
            for number in self._running:
                self._pace.tell(number, self._done[number])
            self._bar.show(self._pace.part(), self._pace.left_text())

    def _begin(self, number: int) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        run = self._context.Process(
            target=self._in_a_process, args=(number, theirs, os.getpid()), daemon=True
        )
        run.start()
        theirs.close()
        self._running[number] = (run, ours)
        self._pace.begin(number)

    def _in_a_process(self, number: int, out: Connection, parent: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

        def tell(made: int) -> None:
            if os.getppid() != parent:
                raise SystemExit(1)  # killed outright, it could not end us
            self._done[number] = made

        try:
            out.send(self._work(number, tell))
        except (DovetailError, OSError) as error:
            out.send(error)
        except KeyboardInterrupt:
            pass

    def _collect(self) -> None:
        """Take the results of the pieces that are done."""
        outs = [out for _, out in self._running.values()]
        ready = multiprocessing.connection.wait(outs, _LOOK_EVERY_S)
        for number, (process, out) in list(self._running.items()):
            if out not in ready:
                continue
            result = self._received(number, process, out)
            process.join()
            del self._running[number]
            self._pace.end(number)
            if isinstance(result, Exception):
                self._errors.append(result)
                self._abandon(number)
                self._results[number] = Failure(self._names[number], str(result))
            else:
                self._results[number] = result

    def _received(self, number: int, process: Any, out: Connection) -> Any:
        try:
            return out.recv()
        except EOFError:
            process.join()
            return DovetailError(
                f"the process that ran {self._names[number]!r} died (exit code {process.exitcode}); "
                "if memory ran out, compare fewer policies at a time"
            )

    def _take_last_results(self) -> None:
        """We are stopped: a piece may be done and not yet collected. A piece stopped with us has
        not failed."""
        under_way = list(self._running)
        if under_way:
            self._collect()
        for number in under_way:
            if isinstance(self._results.get(number), Failure):
                self._results[number] = Failure(self._names[number], _STOPPED)

    def _end_all(self) -> None:
        for number, (process, _) in self._running.items():
            process.terminate()
            process.join()
            self._abandon(number)


def _remove_journal(folder: Path | None) -> None:
    """There will be no summary beside it."""
    if folder:
        for path in (folder / JOURNAL, unfinished(folder / JOURNAL)):
            path.unlink(missing_ok=True)


class WorkPace:
    """When each piece began and how much of it is done, and the remaining time that follows."""

    def __init__(
        self, sizes: Sequence[int], at_once: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sizes = [max(size, 1) for size in sizes]
        self._at_once = at_once
        self._clock = clock
        self._began: dict[int, float] = {}
        self._took: dict[int, float] = {}  # pieces that are done
        self._done: dict[int, int] = {}
        self._start = clock()

    def begin(self, number: int) -> None:
        self._began[number] = self._clock()

    def tell(self, number: int, done: int) -> None:
        self._done[number] = done

    def end(self, number: int) -> None:
        self._took[number] = self._clock() - self._began[number]

    def left_s(self) -> float | None:
        """The remaining seconds: running pieces at their speed so far, waiting ones as long as the
        others take on average, as many at once as allowed. None: no progress yet."""
        whole = {number: self._expected_s(number) for number in self._began}
        known = [seconds for seconds in whole.values() if seconds is not None]
        if not known:
            return None
        usual, now = fmean(known), self._clock()
        under_way = [
            max((seconds if seconds is not None else usual) - (now - self._began[number]), 0.0)
            for number, seconds in whole.items()
            if number not in self._took
        ]
        lanes = (under_way + [0.0] * self._at_once)[: max(self._at_once, len(under_way))]
        heapify(lanes)
        for _ in range(len(self._sizes) - len(self._began)):
            heapreplace(lanes, lanes[0] + usual)
        return max(lanes)

    def _expected_s(self, number: int) -> float | None:
        """The total seconds of a piece that has begun."""
        if number in self._took:
            return self._took[number]
        done = self._done.get(number, 0)
        if not done:
            return None
        so_far = self._clock() - self._began[number]
        return so_far * max(self._sizes[number] / done, 1.0)

    def part(self) -> float:
        """The part of the total time that has passed."""
        left = self.left_s()
        if left is None:
            return 0.0
        passed = self._clock() - self._start
        return passed / (passed + left) if passed + left > 0 else 1.0

    def left_text(self) -> str:
        """The text beside a progress bar; empty before any progress."""
        left = self.left_s()
        return "" if left is None else f"{duration_text(left)} left"
