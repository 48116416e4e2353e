"""The load of a service in the last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import monotonic
from typing import Any, Final

from dovetail.core.model import Seconds
from dovetail.workloads.service.scaling import SeenLoad

_WITHIN_S = 10.0
_SUMS: Final = ("seconds", "arrived", "answered", "failed", "refused", "late")
_NOTHING: Final[Mapping[str, Any]] = {
    **dict.fromkeys((*_SUMS, "in_flight", "queued"), 0),
    **dict.fromkeys(("mean_s", "p50_s", "p99_s", "service_s"), 0.0),
}


class RecentLoad:
    """Summaries of a gateway, each of a second or so."""

    def __init__(self, within_s: Seconds) -> None:
        self._within_s: Final = min(within_s, _WITHIN_S)
        self._rows: Final[deque[tuple[float, Mapping[str, Any]]]] = deque()
        self.total: Final[dict[str, int]] = dict.fromkeys(_SUMS[1:], 0)
        self._untold: dict[str, float] = {}
        self.last: Mapping[str, Any] = _NOTHING
        self.waiting = 0  # who were told of just now, before the next summary

    def add(self, row: Mapping[str, Any]) -> None:
        self.last, self.waiting = row, 0
        self._rows.append((monotonic(), row))
        for name in self.total:
            self.total[name] += row[name]
        for name in _SUMS:
            self._untold[name] = self._untold.get(name, 0) + row[name]
        while self._rows and self._rows[0][0] < monotonic() - self._within_s:
            self._rows.popleft()

    def seen(self, awake: int) -> SeenLoad:
        rows = [row for _, row in self._rows]
        answered = sum([row["answered"] for row in rows])
        service_s = sum([row["answered"] * row["service_s"] for row in rows])
        return SeenLoad(
            rate=self.rate,
            service_s=service_s / answered if answered else 0.0,
            in_flight=float(self.last["in_flight"]),
            queued=float(max(self.last["queued"], self.waiting)),
            tail_s=max([row["p99_s"] for row in rows[-3:]], default=0.0),
            awake=awake,
        )

    @property
    def rate(self) -> float:
        rows = [row for _, row in self._rows]
        seconds = sum([row["seconds"] for row in rows])
        return sum([row["arrived"] for row in rows]) / seconds if seconds else 0.0

    def untold(self) -> dict[str, float]:
        """The sums since the last time this was asked; nothing if nobody came."""
        found, self._untold = self._untold, {}
        if not found.get("arrived"):
            return {}
        return {**found, "p99_s": self.last["p99_s"], "service_s": self.last["service_s"]}
