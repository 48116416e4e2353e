"""The forecast as many pages look at it: made for all of them at once, and not more often than what it
takes is a small part of the time."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Final, final

from dovetail.api.forecast_row import Span
from dovetail.api.page_row import FutureStint, HourAhead
from dovetail.core.model import WHOLE_GPU
from dovetail.core.view import View
from dovetail.daemon.gpus_told import held
from dovetail.daemon.service import Service

if TYPE_CHECKING:
    from dovetail.daemon.foresight.forecast import QueueForecast

_HOUR_S = 3600.0
_AT_LEAST_S, _TIMES_AS_LONG = 3.0, 30.0
_STILL_S = 30.0  # with nothing new


@final
class Foreseen:
    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._lock: Final = Lock()
        self._made: HourAhead | None = None
        self._found: QueueForecast | None = None
        self._at = 0.0
        self._seq = -1
        self._fresh_s = _AT_LEAST_S

    def told(self, ids: Sequence[str], seq: int) -> HourAhead:
        """`seq`: of the last entry there is. Who finds that another makes one takes the last."""
        if not self._will_do(seq) and self._lock.acquire(blocking=self._made is None):
            try:
                if not self._will_do(seq):
                    self._renew(seq)
            finally:
                self._lock.release()
        made, found = self._made, self._found
        assert made is not None
        assert found is not None
        return HourAhead(
            made_at=made.made_at,
            limited=made.limited,
            stints=made.stints,
            starts={job_id: found.start(job_id) for job_id in ids},
        )

    def expected(self, job_id: str, seq: int) -> tuple[Span | None, Span | None]:
        """Of one job: its start and its end."""
        self.told((), seq)
        assert self._found is not None
        return self._found.start(job_id), self._found.end(job_id)

    def _will_do(self, seq: int) -> bool:
        age = monotonic() - self._at
        fresh_s = self._fresh_s if seq != self._seq else max(self._fresh_s, _STILL_S)
        return self._made is not None and age < fresh_s

    def _renew(self, seq: int) -> None:
        from dovetail.daemon.foresight.forecast import forecast  # the daemon starts without it

        began = thread_time()
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
                share=stay.on.share / WHOLE_GPU,
                on=held(stay.on, nodes),
            )
            for stay in found.stays
            if stay.since < found.made_at + _HOUR_S and stay.job_id in texts
        ]
        self._made = HourAhead(
            made_at=found.made_at, limited=found.limited, stints=stints, starts={}
        )
        self._found, self._seq, self._at = found, seq, monotonic()
        self._fresh_s = max(_AT_LEAST_S, _TIMES_AS_LONG * (thread_time() - began))


def _names(view: View, found: QueueForecast) -> dict[str, tuple[str, str]]:
    """Name and user, of those that are still there."""
    tracks = {stay.job_id: view.tracks.get(stay.job_id) for stay in found.stays}
    return {own: (track.job.name, track.job.user) for own, track in tracks.items() if track}
