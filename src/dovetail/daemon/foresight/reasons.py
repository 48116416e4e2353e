"""Why jobs wait, in one line each, with one forecast for all: for those who show many at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from math import inf
from typing import Final

from dovetail.core.model import JobId
from dovetail.core.state import State
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight.case import Case
from dovetail.daemon.foresight.copy import Asked
from dovetail.daemon.foresight.forecast import QueueForecast, forecast_with
from dovetail.daemon.foresight.queue_order import standing
from dovetail.daemon.foresight.wait_reason import reason_to_wait
from dovetail.text.counting import counted

_MOST_EXPLAINED: Final = 30  # the next to start; of the others only their place is told


@dataclass(frozen=True, slots=True)
class Reasons:
    """`why` by job; a job that runs or was left out has none."""

    forecast: QueueForecast
    why: dict[JobId, str] = field(default_factory=dict)


def reasons(service: Asked, ids: Collection[JobId]) -> Reasons:
    likeness = likenesses.take(service)
    state = likeness.state()
    first = next((own for own in ids if own in state.tracks), JobId(""))
    found = Reasons(forecast_with(service, likeness, first))
    waiting = _in_turn(state, found.forecast, ids)
    for job_id in waiting[:_MOST_EXPLAINED]:
        case = Case(service, likeness, state, state.tracks[job_id], found.forecast)
        line = standing(likeness, state, case.policy, case.track, found.forecast)
        found.why[job_id] = reason_to_wait(case, line).text
    in_line = state.waiting_count + likeness.left_out
    for job_id in waiting[_MOST_EXPLAINED:]:
        found.why[job_id] = f"it waits with {counted(in_line - 1, 'other')}"
    return found


def _in_turn(state: State, forecast: QueueForecast, ids: Collection[JobId]) -> list[JobId]:
    def turn(job_id: JobId) -> tuple[float, int]:
        start = forecast.start(job_id)
        return inf if start is None else start.expected, state.tracks[job_id].sequence

    waiting = [own for own in ids if own in state.tracks and state.tracks[own].waiting]
    return sorted(waiting, key=turn)
