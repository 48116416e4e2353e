"""Twenty real jobs under `frugal`: what they are predicted to cost, and what they did.

The trainings are profiled by the code of `dovetail profile`. Jobs come one after the other and have
deadlines; the same descriptions are simulated, and handed in to a real daemon at the same times. Both
are charged by the same books.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from dovetail.core.entries import Finished, JournalEntry
from dovetail.core.journal import decode
from dovetail.core.model import Node
from dovetail.core.room import Room
from dovetail.daemon.history.costs import charged
from dovetail.daemon.main import Daemon
from dovetail.daemon.settings import DaemonSettings
from dovetail.daemon.submissions import Submission, as_here
from dovetail.daemon.users.callers import caller_of
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.home import home_in
from dovetail.jobfiles.job_model import JobSpec, read
from dovetail.jobfiles.jobs import to_job
from dovetail.jobfiles.profile_table import ProfileTable
from dovetail.jobfiles.profiles import as_times
from dovetail.models.cost import Costs
from dovetail.models.workload import Arrival
from dovetail.profiling.calibrating import Subject, calibrate, ways
from dovetail.traces.clusters.cost_files import read_costs
from dovetail.worlds.local.making import local_world

POLICY = "frugal:margin=0.1"
ME = caller_of(os.getuid(), os.getuid())
JOBS = 20


@dataclass(frozen=True, slots=True)
class Training:
    """A command that takes the number of its steps as its last word, and how fast it is."""

    name: str
    command: tuple[str, ...]
    table: ProfileTable = ProfileTable(())


@dataclass(frozen=True, slots=True)
class Planned:
    """One of the jobs: which training, how many steps, when it comes."""

    training: Training
    steps: int
    at: float
    spec: JobSpec


def profiled(
    training: Training, nodes: Sequence[Node], folder: Path, seconds: float, most_steps: int
) -> Training:
    """By the code of `dovetail profile`, on a machine as full as it will be."""
    command = (*training.command, str(most_steps))
    subject = Subject(command, str(folder), dict(os.environ))
    timings = [
        calibrate(subject, way, folder / training.name, seconds)
        for node in nodes
        for way in ways(node)
    ]
    return replace(training, table=ProfileTable(tuple(timings)))


def planned(
    trainings: Sequence[Training],
    lengths_s: tuple[float, float],
    gap_s: float,
    slots: int,
    late_cost: str,
    seed: int,
) -> list[Planned]:
    """Their lengths beyond the start lie evenly in the range, in the way with the fewest GPUs. They
    come at random, and are due when the work before them is done and after that three to five times
    what they take."""
    chance, at, done_at, found = Random(seed), 0.0, 0.0, []
    for number in range(JOBS):
        training = trainings[number % len(trainings)]
        first = training.table.timings[0]
        steps = max(round(chance.uniform(*lengths_s) * first.steps_per_s), 1)
        length = first.seconds(steps)
        done_at = max(at, done_at) + length / slots
        due_s = done_at - length / slots - at + chance.uniform(3.0, 5.0) * length
        spec = read(
            {
                "name": f"{training.name}-{number}",
                "command": [*training.command, str(steps)],
                "options": as_times(training.table.options(steps)),
                "deadline": f"+{due_s:.2f}",
                "late_cost": late_cost,
            }
        )
        found.append(Planned(training, steps, at, spec))
        at += chance.expovariate(1.0 / gap_s)
    return found


def predicted(plan: Sequence[Planned], nodes: Sequence[Node], costs: Costs) -> dict[str, Any]:
    """The summary of the simulated run."""
    arrivals = []
    room = Room()
    for node in nodes:
        room.add(node)
    for number, own in enumerate(plan, 1):
        job = as_here(to_job(own.spec, str(number), ME.name, own.at), room)
        arrivals.append(Arrival(own.at, job, job.options[0].seconds))
    return dict(simulate(Experiment(arrivals, nodes, costs=costs), POLICY).summary)


@dataclass(frozen=True, slots=True)
class Lived:
    """What became of the jobs: the figures of the books, and when each was done."""

    figures: Mapping[str, Any]
    seconds: float  # from the first submission to the last end
    took: Mapping[str, tuple[float, float]]  # by name: seconds it had its GPUs, and its lateness


def lived(
    plan: Sequence[Planned],
    folder: Path,
    costs_file: Path,
    slots: int | None,
    tell: Callable[[str], object] = lambda _: None,
) -> Lived:
    """The same jobs, handed in to a daemon of their own at their times."""
    folder.mkdir(parents=True)
    with daemon(folder, costs_file, slots) as made:
        began = time.monotonic()
        ids = []
        for own in plan:
            time.sleep(max(began + own.at - time.monotonic(), 0.0))
            submission = Submission(own.spec, dict(os.environ), str(folder))
            ids += made.service.submit([submission], ME)
        while left := sum(made.service.job(job_id).ended_at is None for job_id in ids):
            tell(f"{left} jobs left")
            time.sleep(0.5)
        seconds = time.monotonic() - began
        rows = [made.service.job(job_id) for job_id in ids]
        bad = [(row.name, row.reason) for row in rows if row.phase != "finished"]
        if bad:
            raise SystemExit(f"jobs failed: {bad}")
        entries = entries_of(made)
        figures = charged(entries, made.costs, last_end(entries))
        took = {
            row.name: (row.run_s, max((row.ended_at or 0.0) - (row.deadline or 0.0), 0.0))
            for row in rows
        }
    return Lived(figures, seconds, took)


def entries_of(made: Daemon) -> list[JournalEntry]:
    return [decode(line) for _, line in made.reader.lines_after(0)]


def last_end(entries: Sequence[JournalEntry]) -> float:
    return max(entry.at for entry in entries if isinstance(entry, Finished))


@contextmanager
def daemon(folder: Path, costs_file: Path, slots: int | None) -> Iterator[Daemon]:
    made = Daemon(
        DaemonSettings(home_in(folder), policy=POLICY, slots=slots, costs=str(costs_file)),
        local_world,
    )
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        made.stop_and_end_jobs()
        thread.join(60)
        made.reader.close()


def costs_in(
    path: Path, nodes: Sequence[Node], price: float, watts: Mapping[str, Sequence[float]]
) -> Costs:
    """Written for the daemon, and as the simulation has them."""
    rows = "\n".join(f'"{kind}" = {[round(w, 2) for w in row]}' for kind, row in watts.items())
    path.write_text(f"price = {price}\n[watts]\n{rows}\n")
    return read_costs(str(path)).costs(nodes)
