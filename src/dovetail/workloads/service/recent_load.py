"""The load of a service in the last seconds, of one that runs and of a simulated one."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Any, Final

from dovetail.core.model import Seconds
from dovetail.workloads.service.scaling import SeenLoad

_WITHIN_S = 10.0
_SETTLES_S = 2.5  # summaries come every second
_STEP_S = 10.0  # of history
_MOST_STEPS = 17_280  # two days: the same time yesterday is in it
_SUMS: Final = ("seconds", "arrived", "answered", "failed", "refused", "late")
_NOTHING: Final[Mapping[str, Any]] = {
    **dict.fromkeys((*_SUMS, "in_flight", "queued"), 0),
    **dict.fromkeys(("mean_s", "p50_s", "p99_s", "service_s"), 0.0),
}


class RecentLoad:
    """Summaries of a gateway, each of a second or so: the fields of `LoadSummary` by name."""

    def __init__(self, within_s: Seconds) -> None:
        self._within_s: Final = min(within_s, _WITHIN_S)
        self._rows: Final[deque[tuple[float, Mapping[str, Any]]]] = deque()
        self.total: Final[dict[str, int]] = dict.fromkeys(_SUMS[1:], 0)
        self._untold: dict[str, float] = {}
        self.last: Mapping[str, Any] = _NOTHING
        self._awake_since = -inf  # before, requests waited for the first replica, not for one more
        self._was_awake = False
        self.waiting = 0  # who were told of just now, before the next summary
        self.history: Final[list[float]] = []  # rates, each over _STEP_S
        self._bin = (0.0, 0.0)  # the one that is being filled: seconds, requests
        self.least_service_s = 0.0  # in any summary so far; 0: nothing was answered

    def add(self, row: Mapping[str, Any], now: Seconds) -> None:
        self.last, self.waiting = row, 0
        self._rows.append((now, row))
        for name in self.total:
            self.total[name] += row[name]
        for name in _SUMS:
            self._untold[name] = self._untold.get(name, 0) + row[name]
        self._note(row)
        while self._rows and self._rows[0][0] < now - self._within_s:
            self._rows.popleft()

    def _note(self, row: Mapping[str, Any]) -> None:
        seconds, arrived = self._bin[0] + row["seconds"], self._bin[1] + row["arrived"]
        self._bin = (seconds, arrived)
        if seconds >= _STEP_S:
            self.history.append(arrived / seconds)
            self._bin = (0.0, 0.0)
            if len(self.history) > _MOST_STEPS:
                del self.history[: _MOST_STEPS // 10]
        if row["answered"] and row["service_s"]:
            self.least_service_s = min(self.least_service_s or row["service_s"], row["service_s"])

    def seen(self, now: Seconds, awake: int, ready_in_s: Seconds, displaced: float) -> SeenLoad:
        self._note_awake(awake, now)
        rows = [row for _, row in self._rows]
        settled = [row for at, row in self._rows if at > self._awake_since + _SETTLES_S]
        tails = [row["tail_s"] if "tail_s" in row else row["p99_s"] for row in settled]
        answered = sum([row["answered"] for row in rows])
        service_s = sum([row["answered"] * row["service_s"] for row in rows])
        return SeenLoad(
            rate=self.rate,
            service_s=service_s / answered if answered else 0.0,
            in_flight=float(self.last.get("mean_in_flight", self.last["in_flight"])),
            queued=float(max(self.last["queued"], self.waiting)),
            tail_s=max(tails[-3:], default=0.0),
            awake=awake,
            history=self.history,
            step_s=_STEP_S,
            ready_in_s=ready_in_s,
            displaced=displaced,
        )

    @property
    def last_answers(self) -> Mapping[str, Any]:
        """The last summary in which somebody was answered, of these seconds."""
        return next((row for _, row in reversed(self._rows) if row["answered"]), _NOTHING)

    def _note_awake(self, awake: int, now: Seconds) -> None:
        if awake and not self._was_awake:
            self._awake_since = now
        self._was_awake = bool(awake)

    @property
    def rate(self) -> float:
        rows = [row for _, row in self._rows]
        seconds = sum([row["seconds"] for row in rows])
        return sum([row["arrived"] for row in rows]) / seconds if seconds else 0.0

    @property
    def untold_answers(self) -> float:
        """That the journal does not know of yet."""
        return self._untold.get("answered", 0)

    def untold(self) -> dict[str, float]:
        """The sums since the last time this was asked; nothing if nobody came."""
        found, self._untold = self._untold, {}
        if not found.get("arrived"):
            return {}
        return {**found, **{name: self.last_answers[name] for name in ("p99_s", "service_s")}}
