"""What came in lately, in brief: the daemon is told sums, never requests."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from dovetail.quantiles import quantile

_MOST = 2000  # latencies kept of one summary; of more a sample


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """Of the requests in `seconds`. Latencies count from the head of a request to the end of its
    answer; `service_s` is the part of them that the replica took."""

    seconds: float
    arrived: int
    answered: int
    failed: int  # answered by a replica with 5xx, or begun and not answered
    refused: int
    late: int  # answered after the SLO
    mean_s: float
    p50_s: float
    p99_s: float
    service_s: float
    most_at_once: int  # requests that were there at the same time, those that waited too
    in_flight: int
    queued: int
    tail_s: float = 0.0  # at the percentile of the SLO
    mean_in_flight: float = 0.0  # over these seconds; gateways of before do not say the last two


class LoadMeter:
    """Counts; `summary` starts anew."""

    def __init__(self, slo_s: float | None, now: float, percentile: float = 99.0) -> None:
        self._slo_s: Final = slo_s
        self._part: Final = percentile / 100
        self._chance: Final = Random(0)
        self._latencies: Final[list[float]] = []
        self.in_flight = 0
        self.queued = 0
        self._changed_at = now  # the number in flight
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._since = now
        self._arrived = self._answered = self._failed = self._refused = self._late = 0
        self._total_s = self._service_s = self._held_s = 0.0
        self._latencies.clear()
        self._most = self.in_flight + self.queued

    def work(self, change: int, now: float) -> None:
        """So many more, or fewer, are with replicas."""
        self._held_s += self.in_flight * (now - self._changed_at)
        self._changed_at = now
        self.in_flight += change

    def arrive(self) -> None:
        self._arrived += 1

    def now_there(self) -> None:
        self._most = max(self._most, self.in_flight + self.queued)

    def refuse(self) -> None:
        self._refused += 1

    def fail(self) -> None:
        self._failed += 1

    def answer(self, latency_s: float, service_s: float) -> None:
        self._answered += 1
        self._total_s += latency_s
        self._service_s += service_s
        self._late += self._slo_s is not None and latency_s > self._slo_s
        if len(self._latencies) < _MOST:
            self._latencies.append(latency_s)
        elif (place := self._chance.randrange(self._answered)) < _MOST:
            self._latencies[place] = latency_s

    @property
    def mean_service_s(self) -> float:
        return self._service_s / self._answered if self._answered else 0.0

    def summary(self, now: float) -> LoadSummary:
        ordered, answered = sorted(self._latencies), max(self._answered, 1)
        self.work(0, now)
        seconds = now - self._since
        found = LoadSummary(
            seconds=seconds,
            arrived=self._arrived,
            answered=self._answered,
            failed=self._failed,
            refused=self._refused,
            late=self._late,
            mean_s=self._total_s / answered,
            p50_s=quantile(ordered, 0.5),
            p99_s=quantile(ordered, 0.99),
            service_s=self._service_s / answered,
            most_at_once=self._most,
            in_flight=self.in_flight,
            queued=self.queued,
            tail_s=quantile(ordered, self._part),
            mean_in_flight=self._held_s / seconds if seconds > 0 else float(self.in_flight),
        )
        self._begin(now)
        return found
