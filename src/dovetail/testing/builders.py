"""Jobs, nodes, arrivals and placements in one short call each."""

from __future__ import annotations

from typing import Any

from dovetail.core.model import (
    WHOLE_GPU,
    Job,
    JobId,
    Node,
    Placement,
    Seconds,
    Slice,
)
from dovetail.models.workload import Arrival


def job(job_id: str = "j", gpus: int = 1, **rest: Any) -> Job:
    return Job(JobId(job_id), gpus, **rest)


def arrival(
    job_id: str,
    at: Seconds = 0.0,
    work_s: Seconds = 10.0,
    gpus: int = 1,
    *,
    failures: tuple[Seconds, ...] = (),
    cancel_at: Seconds | None = None,
    cancel_after_s: Seconds | None = None,
    **rest: Any,
) -> Arrival:
    """A job and its truth; everything else is a field of the job."""
    own = job(job_id, gpus, **rest)
    return Arrival(at, own, work_s, failures, cancel_at, cancel_after_s)


def nodes(number: int, gpus: int, **rest: Any) -> tuple[Node, ...]:
    """Equal nodes n0, n1, …"""
    return tuple(Node(f"n{i}", gpus, **rest) for i in range(number))


def placement(*pieces: tuple[int, int], share: int = WHOLE_GPU) -> Placement:
    """From pairs of a node's number and a mask of its GPUs."""
    return Placement(tuple(Slice(node, mask) for node, mask in pieces), share)
