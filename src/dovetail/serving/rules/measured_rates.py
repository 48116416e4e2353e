"""How many requests come to each service, measured for rules that plan again every epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dovetail.serving.site import ServingSite

FIRST_LOOK_S: Final = 1.0


class MeasuredRates:
    """Requests a second of the last period, by service. The first periods are short; `plan` is called
    after each."""

    def __init__(self, site: ServingSite, epoch_s: float, plan: Callable[[], None]) -> None:
        self._engine = site.engine
        self._epoch_s = epoch_s
        self._plan = plan
        self._came = dict.fromkeys(site.services, 0)
        self._period_s = 0.0
        self.latest: Final[dict[str, float]] = {}

    def count(self, service: str) -> None:
        """A request has come."""
        self._came[service] += 1
        if not self._period_s:
            self._look_later(FIRST_LOOK_S)

    def _look_later(self, period_s: float) -> None:
        self._period_s = period_s
        self._engine.at(self._engine.now + period_s, self._look)

    def _look(self, _: object) -> None:
        for service, count in self._came.items():
            self.latest[service] = max(count, 0.5) / self._period_s
            self._came[service] = 0
        self._plan()
        if self._engine.is_coming:
            self._look_later(min(self._period_s * 2, self._epoch_s))
