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
from typing import Any

import click

from dovetail.app.experiment import Experiment, simulate, unfinished
from dovetail.app.outputs import JOURNAL
from dovetail.core.errors import DovetailError
from dovetail.traces.record import RunRecord

_LOOK_EVERY_S = 0.1


def simulate_all(
    experiment: Experiment, policies: Sequence[str], folders: Sequence[Path | None], quiet: bool
) -> list[RunRecord]:
    """One record per policy, in their order. The first failure ends them all."""
    total = len(policies) * len(experiment.arrivals)
    with _ending_when_told(), _bar(total, "simulating", quiet) as bar:
        if len(policies) == 1 or not hasattr(os, "fork"):
            records: list[RunRecord] = []
            for policy, folder in zip(policies, folders, strict=True):
                before = len(records) * len(experiment.arrivals)

                def tell(jobs: int, before: int = before) -> None:
                    bar(before + jobs)

                records.append(_one(experiment, policy, folder, tell))
            bar(total)
            return records
        return _in_processes(experiment, policies, folders, bar)


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
    experiment: Experiment,
    policies: Sequence[str],
    folders: Sequence[Path | None],
    bar: Callable[[int], object],
) -> list[RunRecord]:
    # Forked, so that a large trace is shared and not sent.
    context = multiprocessing.get_context("fork")
    done = context.Array("q", len(policies), lock=False)
    waiting = list(range(len(policies)))[::-1]
    running: dict[int, tuple[Any, Connection]] = {}
    records: dict[int, RunRecord] = {}
    most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parent = os.getpid()

    def work(number: int, out: Connection) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

        def tell(jobs: int) -> None:
            if os.getppid() != parent:
                raise SystemExit(1)  # killed outright, it could not end us
            done[number] = jobs

        try:
            out.send(_one(experiment, policies[number], folders[number], tell))
        except (DovetailError, OSError) as error:
            out.send(error)
        except KeyboardInterrupt:
            pass

    try:
        while waiting or running:
            while waiting and len(running) < most:
                number = waiting.pop()
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=work, args=(number, theirs), daemon=True)
                process.start()
                theirs.close()
                running[number] = (process, ours)
            _collect(running, records, policies)
            for number in records:
                done[number] = len(experiment.arrivals)
            bar(sum(done))
    finally:
        for number, (process, _) in running.items():
            process.terminate()
            process.join()
            _remove_unfinished(folders[number])
    return [records[number] for number in range(len(policies))]


def _remove_unfinished(folder: Path | None) -> None:
    if folder:
        unfinished(folder / JOURNAL).unlink(missing_ok=True)


def _collect(
    running: dict[int, tuple[Any, Connection]],
    records: dict[int, RunRecord],
    policies: Sequence[str],
) -> None:
    """Take in the records of those that are done."""
    ready = multiprocessing.connection.wait([out for _, out in running.values()], _LOOK_EVERY_S)
    for number, (process, out) in list(running.items()):
        if out not in ready:
            continue
        try:
            result = out.recv()
        except EOFError:
            process.join()
            raise DovetailError(
                f"the process that ran {policies[number]!r} died (exit code {process.exitcode}); "
                "if memory ran out, compare fewer policies at a time"
            ) from None
        if isinstance(result, Exception):
            raise result
        records[number] = result
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
