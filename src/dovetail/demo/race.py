"""The demo's jobs under one policy: real ones by the daemon, and the same in the simulator."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.api.job_row import ENDED, JobDetails
from dovetail.core.loop import run
from dovetail.core.model import Estimate, Job, JobId, Node, Seconds
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.daemon.active_policy import make
from dovetail.daemon.main import Daemon
from dovetail.daemon.submissions import Submission
from dovetail.daemon.users.callers import caller_of
from dovetail.demo import training
from dovetail.jobfiles.job_model import read
from dovetail.models.workload import Arrival
from dovetail.results.finished_jobs import FinishedJobs
from dovetail.worlds.simulated import SimulatedCluster

APART_S = 0.25  # between two submissions
# The work of each job in seconds: the long ones come first, as bad luck will have it.
LENGTHS_S = (9.0, 7.0, 5.0, 0.6, 3.0, 0.8, 1.5, 4.0, 0.6, 2.0, 1.0, 0.8)


@dataclass(frozen=True)
class Finish:
    """How one job fared."""

    name: str
    submitted_at: float
    ended_at: float
    run_s: Seconds
    preemptions: int

    @property
    def completion_s(self) -> Seconds:
        return self.ended_at - self.submitted_at


def run_live(
    daemon: Daemon, steps_a_second: float, show: Callable[[Sequence[JobDetails]], None]
) -> list[Finish]:
    """Submit all jobs and wait until the last has ended."""
    me = caller_of(os.getuid(), os.getuid())
    ids: list[str] = []
    for number, length_s in enumerate(LENGTHS_S, 1):
        submission = _submission(number, max(int(length_s * steps_a_second), 1), daemon)
        ids += daemon.service.submit([submission], me)
        _show_for(daemon, ids, APART_S, show)
    while not all(row.phase in ENDED for row in _rows(daemon, ids)):
        _show_for(daemon, ids, 0.2, show)
    show(_rows(daemon, ids))
    return [_finish(row) for row in _rows(daemon, ids)]


def _submission(number: int, steps: int, daemon: Daemon) -> Submission:
    command = [sys.executable, str(Path(training.__file__)), str(steps), str(number)]
    # One thread each: two jobs on two slots do not get in each other's way.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    spec = read({"name": f"train-{number}", "command": command})
    return Submission(spec, environment, str(daemon.home.state))


def _show_for(
    daemon: Daemon,
    ids: Sequence[str],
    seconds: float,
    show: Callable[[Sequence[JobDetails]], None],
) -> None:
    show(_rows(daemon, ids))
    time.sleep(seconds)


def _rows(daemon: Daemon, ids: Sequence[str]) -> list[JobDetails]:
    return [daemon.service.job(job_id) for job_id in ids]


def _finish(row: JobDetails) -> Finish:
    ended_at = row.submitted_at if row.ended_at is None else row.ended_at
    return Finish(row.name, row.submitted_at, ended_at, row.run_s, row.preemptions)


def run_simulated(
    policy: str, measured: Sequence[Finish], lengths_s: Mapping[str, Seconds], slots: int
) -> dict[str, Seconds]:
    """The completion time of each job as the simulator has it, given when they were submitted and how
    long each one runs."""
    began = measured[0].submitted_at
    arrivals = [_arrival(one, one.submitted_at - began, lengths_s[one.name]) for one in measured]
    state, ended_at = State(), dict[str, Seconds]()

    def note(track: Track) -> None:
        ended_at[track.job.name] = track.ended_at

    state.index(FinishedJobs(note))
    world = SimulatedCluster([Node("here", slots, kind="cpu")], arrivals)
    run(world, [make(policy)], state)
    return {own.job.name: ended_at[own.job.name] - own.at for own in arrivals}


def _arrival(one: Finish, at: Seconds, length_s: Seconds) -> Arrival:
    job = Job(JobId(one.name), name=one.name, estimate=Estimate(length_s))
    return Arrival(at, job, length_s)
