"""The record of a finished run, ready to be summarised, written and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dovetail.core.model import Node, Placement, Seconds


class JobOutcome(NamedTuple):
    """One line of jobs.csv. A job that never started has no start and no waiting time."""

    job_id: str
    user: str
    tenant: str
    gpus: int
    submit_s: Seconds
    start_s: Seconds | None
    end_s: Seconds
    wait_s: Seconds | None
    jct_s: Seconds
    preemptions: int
    outcome: str  # finished, failed, cancelled or refused
    deadline_s: Seconds | None = None
    late_s: Seconds | None = None  # 0: in time; None: no deadline
    resizes: int = 0  # how often it went on with other GPUs
    gpu_seconds: float = 0.0  # that it held


class Stint(NamedTuple):
    """One uninterrupted stay of a job on its GPUs. `job` is its index in the rows of the run."""

    job: int
    placement: Placement
    start_s: Seconds
    end_s: Seconds


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One policy's run over one trace."""

    policy: str
    summary: Mapping[str, float | int | str]
    nodes: Sequence[Node]
    jobs: Sequence[JobOutcome]
    stints: Sequence[Stint]
    refusals: Sequence[str] = ()  # the first few, with their reasons
