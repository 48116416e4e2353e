"""What another policy would change: the same queue run ahead under both."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from dovetail.api.page_row import JobUnderPolicies, PolicyPreview
from dovetail.core.state import State
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight.forecast import QueueForecast, made_of
from dovetail.daemon.service import Service

_NOTICED_S = 1.0
_MOST_ROWS = 50


def preview(service: Service, policy: str) -> PolicyPreview:
    """Both forecasts are made of the same copy of the state and the same beliefs."""
    likeness = likenesses.take(service)
    other = likenesses.under(likeness, policy, service.chosen)
    now = made_of(likeness, service.clock.unix, scenarios=0)
    then = made_of(other, service.clock.unix, now.beliefs, scenarios=0)
    rows = _rows(likeness.state(), now, then)
    both = [(row.end.expected, row.end_then.expected) for row in rows if row.end and row.end_then]
    return PolicyPreview(
        policy=policy,
        instead_of=likeness.policy,
        jobs=len(rows),
        sooner=sum(after < before - _NOTICED_S for before, after in both),
        later=sum(after > before + _NOTICED_S for before, after in both),
        mean_end_s=_mean([before - now.made_at for before, _ in both]),
        mean_end_then_s=_mean([after - now.made_at for _, after in both]),
        rows=sorted(rows, key=_change, reverse=True)[:_MOST_ROWS],
        limited="; ".join(dict.fromkeys(filter(None, (now.limited, then.limited)))),
    )


def _rows(state: State, now: QueueForecast, then: QueueForecast) -> list[JobUnderPolicies]:
    return [
        JobUnderPolicies(
            id=job_id,
            name=track.job.name,
            user=track.job.user,
            start=now.start(job_id),
            end=now.end(job_id),
            start_then=then.start(job_id),
            end_then=then.end(job_id),
        )
        for job_id, track in state.tracks.items()
    ]


def _change(row: JobUnderPolicies) -> float:
    if row.end is None or row.end_then is None:
        return 0.0
    return abs(row.end_then.expected - row.end.expected)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
