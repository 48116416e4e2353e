"""From what the daemon knows of jobs, studies and services to what a declared one is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from dovetail.api.job_row import ENDED, JobRow
from dovetail.api.service_row import ServiceRow
from dovetail.api.study_row import StudyRow
from dovetail.core.model import JobId
from dovetail.daemon.foresight.reasons import Reasons
from dovetail.worlds.declared import Cost, DeclaredStatus, TrialsTold

# Of an array: the first of these that a member is in.
_FIRST_TOLD: Final = ("running", "starting", "suspended", "queued", "failed", "cancelled")
_WHY_STUDY: Final = {"open": "", "stopped": "it was stopped; dovetail study resume lets it go on"}


def status_of_job(
    row: JobRow, nodes: Sequence[str], known: Reasons | None, revision: int
) -> DeclaredStatus:
    start, end = _expected(row, known)
    why = row.reason
    if not why and row.phase in ("queued", "suspended") and known is not None:
        why = known.why.get(JobId(row.id), "")
    return DeclaredStatus(
        phase=row.phase,
        why=why,
        id=row.id,
        revision=revision,
        placement=_placement(row, nodes),
        cost=_cost(row),
        submitted_at=row.submitted_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        expected_start=start if row.phase in ("queued", "suspended") else None,
        expected_end=None if row.phase in ENDED else end,
        exit_code=row.exit_code if row.phase in ENDED else None,
    )


def _expected(row: JobRow, known: Reasons | None) -> tuple[float | None, float | None]:
    if known is None:
        return None, None
    start, end = known.forecast.start(row.id), known.forecast.end(row.id)
    return (
        None if start is None else start.expected,
        None if end is None else end.expected,
    )


def _placement(row: JobRow, nodes: Sequence[str]) -> str:
    pieces = []
    for piece in row.placement:
        gpus = ",".join(map(str, piece.gpus))
        pieces.append(nodes[piece.node] + (f":{gpus}" if gpus else ""))
    return " ".join(pieces)


def _cost(row: JobRow) -> Cost:
    last = row.preemption
    if last is None:
        return Cost(row.preemptions, row.lost_gpu_s)
    return Cost(
        *(row.preemptions, row.lost_gpu_s, last.rung, last.save_s, last.restore_s),
        last.parked_bytes,
    )


def status_of_array(
    array: str, rows: Sequence[JobRow], phases: Mapping[str, str], revision: int
) -> DeclaredStatus:
    """`rows` are of those that have not ended, `phases` of all."""
    count = Counter(phases.values())
    phase = next((own for own in _FIRST_TOLD if count[own]), "finished")
    starts = [row.started_at for row in rows if row.started_at is not None]
    return DeclaredStatus(
        phase=phase,
        why=next((row.reason for row in rows if row.phase == phase and row.reason), ""),
        id=array,
        revision=revision,
        members=dict(count),
        cost=Cost(sum(row.preemptions for row in rows), sum(row.lost_gpu_s for row in rows)),
        submitted_at=min((row.submitted_at for row in rows), default=None),
        started_at=min(starts, default=None),
    )


def status_of_study(row: StudyRow, revision: int) -> DeclaredStatus:
    states = ("done", "running", "paused", "failed", "stopped")
    return DeclaredStatus(
        phase=row.state,
        why=row.reason or _WHY_STUDY.get(row.state, ""),
        id=row.id,
        revision=revision,
        trials=TrialsTold(
            row.trials,
            {name: int(getattr(row, name)) for name in states},
            None if row.best is None else asdict(row.best),
            round(row.gpu_hours, 4),
            row.switches,
        ),
    )


def status_of_service(row: ServiceRow, revision: int) -> DeclaredStatus:
    """Not why it has so many replicas: that changes with every request."""
    return DeclaredStatus(
        phase=row.state,
        why=row.trouble,
        id=row.id,
        revision=revision,
        members=dict(Counter(own.state for own in row.replicas)),
        address=row.address,
    )
