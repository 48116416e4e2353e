"""A small world to simulate policies in: the completion time of every job under given beliefs."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dovetail.core.loop import run
from dovetail.core.model import JobId, Node, Seconds, Tenant
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.models.speed import by_kind_and_placement
from dovetail.models.workload import Arrival
from dovetail.policies.placement import consolidated
from dovetail.policies.registry import Knowledge, make
from dovetail.predict.duration import HistoryMean, Oracle
from dovetail.results.finished_jobs import FinishedJobs
from dovetail.worlds.simulated import SimulatedCluster

BELIEFS, HISTORY_MEAN = "beliefs", "history-mean"  # the predictors that a policy may name here
_SERVICES = 1000  # so many quantiles of service are as good as all values


@dataclass(frozen=True)
class Scene:
    """Jobs by time of submission, and the cluster they run on."""

    arrivals: Sequence[Arrival]
    nodes: Sequence[Node]
    tenants: Sequence[Tenant] = ()
    kind_speeds: Mapping[str, float] = field(default_factory=dict)

    def packed(self) -> bytes:
        """Pickled once, to be sent with many tasks and unpickled once per process."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=2)
def opened(packed: bytes) -> Scene:
    scene: Scene = pickle.loads(packed)
    return scene


def completion_times(
    scene: Scene, policy: str, beliefs: Sequence[Seconds] | np.ndarray | None = None
) -> np.ndarray:
    """Seconds from submission to end by job, NaN if it did not finish. The policy's predictor tells
    the beliefs, or the truth where none are given."""
    arrivals = scene.arrivals
    ids = [arrival.job.id for arrival in arrivals]
    believed = [a.work_s for a in arrivals] if beliefs is None else [float(b) for b in beliefs]
    services = sorted(a.work_s * a.job.gpus for a in arrivals)
    knowledge = Knowledge(
        {BELIEFS: Oracle(dict(zip(ids, believed, strict=True))), HISTORY_MEAN: HistoryMean()},
        BELIEFS,
        tuple(services[:: max(1, len(services) // _SERVICES)]),
    )
    speed = by_kind_and_placement(scene.kind_speeds) if scene.kind_speeds else None
    world = SimulatedCluster(scene.nodes, arrivals, tenants=scene.tenants, speed=speed)
    state, stayed_s = State(), dict[JobId, Seconds]()

    def note(track: Track) -> None:
        stayed_s[track.job.id] = track.ended_at - track.submitted_at

    state.index(FinishedJobs(note))
    run(world, [make(policy, consolidated, knowledge)], state)
    stayed: np.ndarray = np.array([stayed_s.get(job_id, np.nan) for job_id in ids], float)
    return stayed
