"""Several policies at once, each in a process of its own, with one progress bar for all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import click

from dovetail.app.experiment import Experiment, simulate, unfinished
from dovetail.app.outputs import JOURNAL
from dovetail.core.errors import DovetailError
from dovetail.traces.record import RunRecord

T = TypeVar("T")

_LOOK_EVERY_S = 0.1


def simulate_all(
    experiment: Experiment, policies: Sequence[str], folders: Sequence[Path | None], quiet: bool
) -> list[RunRecord]:
    """One record per policy, in their order. The first failure ends them all."""

    def one(number: int, tell: Callable[[int], object]) -> RunRecord:
        return _one(experiment, policies[number], folders[number], tell)

    def abandon(number: int) -> None:
        _remove_unfinished(folders[number])

    sizes = [len(experiment.arrivals)] * len(policies)
    return each(policies, sizes, one, "simulating", quiet, abandon)


def each(
    names: Sequence[str],
    sizes: Sequence[int],
    work: Callable[[int, Callable[[int], object]], T],
    doing: str,
    quiet: bool,
    abandon: Callable[[int], object] = lambda number: None,
) -> list[T]:
    """What `work(number, tell)` gives for each, in order; `tell` hears how much of its size is done.

    As many processes as there are processors; the first failure ends them all, and those cut short
    are told to `abandon`.
    """
    with _ending_when_told(), _bar(sum(sizes), doing, quiet) as bar:
        if len(names) == 1 or not hasattr(os, "fork"):
            results: list[T] = []
            for number in range(len(names)):
                before = sum(sizes[:number])

                def tell(done: int, before: int = before) -> None:
                    bar(before + done)

                results.append(work(number, tell))
            bar(sum(sizes))
            return results
        return _in_processes(names, sizes, work, bar, abandon)


def _one(
    experiment: Experiment, policy: str, folder: Path | None, progress: Callable[[int], object]
) -> RunRecord:
    journal = folder / JOURNAL if folder else None
    return simulate(experiment, policy, rows=folder is not None, journal=journal, progress=progress)


@contextmanager
def _ending_when_told() -> Iterator[None]:
    """SIGTERM unwinds this process, so that it ends its children and leaves no half-written file."""

    def end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread, which alone may say what signals do
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _in_processes(
    names: Sequence[str],
    sizes: Sequence[int],
    work: Callable[[int, Callable[[int], object]], T],
    bar: Callable[[int], object],
    abandon: Callable[[int], object],
) -> list[T]:
    # Forked, so that a large trace is shared and not sent.
    context = multiprocessing.get_context("fork")
    done = context.Array("q", len(names), lock=False)
    waiting = list(range(len(names)))[::-1]
    running: dict[int, tuple[Any, Connection]] = {}
    results: dict[int, T] = {}
    most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parent = os.getpid()

    def run(number: int, out: Connection) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

        def tell(made: int) -> None:
            if os.getppid() != parent:
                raise SystemExit(1)  # killed outright, it could not end us
            done[number] = made

        try:
            out.send(work(number, tell))
        except (DovetailError, OSError) as error:
            out.send(error)
        except KeyboardInterrupt:
            pass

    try:
        while waiting or running:
            while waiting and len(running) < most:
                number = waiting.pop()
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=run, args=(number, theirs), daemon=True)
                process.start()
                theirs.close()
                running[number] = (process, ours)
            _collect(running, results, names)
            for number in results:
                done[number] = sizes[number]
            bar(sum(done))
    finally:
        for number, (process, _) in running.items():
            process.terminate()
            process.join()
            abandon(number)
    return [results[number] for number in range(len(names))]


def _remove_unfinished(folder: Path | None) -> None:
    if folder:
        unfinished(folder / JOURNAL).unlink(missing_ok=True)


def _collect(
    running: dict[int, tuple[Any, Connection]],
    results: dict[int, T],
    names: Sequence[str],
) -> None:
    """Take in the results of those that are done."""
    ready = multiprocessing.connection.wait([out for _, out in running.values()], _LOOK_EVERY_S)
    for number, (process, out) in list(running.items()):
        if out not in ready:
            continue
        try:
            result = out.recv()
        except EOFError:
            process.join()
            raise DovetailError(
                f"the process that ran {names[number]!r} died (exit code {process.exitcode}); "
                "if memory ran out, compare fewer policies at a time"
            ) from None
        if isinstance(result, Exception):
            raise result
        results[number] = result
        process.join()
        del running[number]


class _bar:  # noqa: N801 - used like a function
    """A progress bar on the terminal's error output; silent where nobody watches."""

    def __init__(self, total: int, label: str, quiet: bool) -> None:
        self._shown = 0
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            self._bar = click.progressbar(
                length=total, label=label, file=sys.stderr, show_eta=True, width=40
            )

    def __enter__(self) -> Callable[[int], object]:
        if self._bar is not None:
            self._bar.__enter__()
        return self._move_to

    def _move_to(self, done: int) -> None:
        if self._bar is not None and done > self._shown:
            self._bar.update(done - self._shown)
            self._shown = done

    def __exit__(self, *problem: Any) -> None:
        if self._bar is not None:
            self._bar.__exit__(*problem)
