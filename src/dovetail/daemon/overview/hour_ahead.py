"""The forecast as many pages look at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, final

from dovetail.api.forecast_row import Span
from dovetail.api.page_row import FutureStint, HourAhead
from dovetail.core.model import WHOLE_GPU
from dovetail.core.view import View
from dovetail.daemon.gpus_told import held
from dovetail.daemon.overview.shared_answer import SharedAnswer
from dovetail.daemon.service import Service

if TYPE_CHECKING:
    from dovetail.daemon.foresight.forecast import QueueForecast

_HOUR_S = 3600.0
_AT_LEAST_S = 3.0
_STILL_S = 30.0  # with nothing new


@dataclass(frozen=True, slots=True)
class _Ahead:
    hour: HourAhead
    found: QueueForecast


@final
class Foreseen:
    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._shared: Final = SharedAnswer[_Ahead](_AT_LEAST_S, _STILL_S)

    def told(self, ids: Sequence[str], seq: int) -> HourAhead:
        """`seq`: of the last entry there is."""
        ahead = self._shared.told(self._made, seq)
        return replace(ahead.hour, starts={job_id: ahead.found.start(job_id) for job_id in ids})

    def expected(self, job_id: str, seq: int) -> tuple[Span | None, Span | None]:
        """Of one job: its start and its end."""
        found = self._shared.told(self._made, seq).found
        return found.start(job_id), found.end(job_id)

    def _made(self) -> _Ahead:
        from dovetail.daemon.foresight.forecast import forecast  # the daemon starts without it

        found = forecast(self._service)
        texts, nodes = self._service.look(
            lambda view, now: (_names(view, found), tuple(view.room.nodes))
        )
        stints = [
            FutureStint(
                id=stay.job_id,
                name=texts[stay.job_id][0],
                user=texts[stay.job_id][1],
                since=stay.since,
                until=stay.until,
                guess=_is_guess(found.end(stay.job_id)),
                share=stay.on.share / WHOLE_GPU,
                on=held(stay.on, nodes),
            )
            for stay in found.stays
            if stay.since < found.made_at + _HOUR_S and stay.job_id in texts
        ]
        hour = HourAhead(made_at=found.made_at, limited=found.limited, stints=stints, starts={})
        return _Ahead(hour, found)


def _is_guess(end: Span | None) -> bool:
    return end is not None and end.guess


def _names(view: View, found: QueueForecast) -> dict[str, tuple[str, str]]:
    """Name and user, of those that are still there."""
    tracks = {stay.job_id: view.tracks.get(stay.job_id) for stay in found.stays}
    return {own: (track.job.name, track.job.user) for own, track in tracks.items() if track}
