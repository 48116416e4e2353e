"""A live state without a daemon: built entry by entry, and asked as a service is."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from time import thread_time
from typing import Any

from dovetail.api.job_row import JobDetails
from dovetail.core.entries import NodeJoined, Start, Started, Submitted
from dovetail.core.model import Estimate, Job, JobId, Node, Seconds
from dovetail.core.state import State
from dovetail.daemon.active_policy import Chosen
from dovetail.daemon.history.job_rows import row_of
from dovetail.daemon.refusals import NotFound
from dovetail.testing import job, placement

EPOCH = 1_000_000.0
PAST = 100


class FixedClock:
    epoch = EPOCH

    def __init__(self, state: State) -> None:
        self._state = state

    def __call__(self) -> Seconds:
        return self._state.now

    def unix(self, at: Seconds) -> float:
        return EPOCH + at


class FakeService:
    """A state, a policy, and nothing behind them. `looks`: the processor time that each look took."""

    def __init__(self, state: State, policy: str, now: Seconds | None = None) -> None:
        self.state = state
        self.clock: Any = FixedClock(state)
        self.looks: list[float] = []
        self.chosen = Chosen(policy, state, lambda seconds: None)
        self.now = state.now if now is None else now

    def look(self, look: Any) -> Any:
        gc.disable()  # what else this process has piled up is not what is measured
        begin = thread_time()
        found = look(self.state, self.now)
        self.looks.append(thread_time() - begin)
        gc.enable()
        return found

    def job(self, job_id: str) -> JobDetails:
        for track in self.state.past:
            if track.job.id == job_id:
                return JobDetails(
                    **vars(row_of(track, self.clock, self.state.room.nodes)),
                    spec=None,
                    workdir=None,
                    log=None,
                )
        raise NotFound(f"there is no job {job_id}")


def live(*jobs: Any, cluster: Sequence[Node] = (Node("box", 2),)) -> State:
    """A live state in which these jobs were submitted, one a second."""
    state = State(PAST)
    for node in cluster:
        state.record(NodeJoined(0.0, node))
    for at, one in enumerate(jobs):
        state.record(Submitted(float(at), one))
    return state


def start(state: State, job_id: str, mask: int, node: int = 0, share: int = 1000) -> None:
    state.record(Start(JobId(job_id), placement((node, mask), share=share)))
    state.record(Started(state.now, JobId(job_id)))


def lasting(job_id: str, seconds: float, gpus: int = 1, **rest: Any) -> Job:
    """A job whose duration its user knows to the second."""
    return job(job_id, gpus, estimate=Estimate(seconds, seconds, seconds), **rest)
