"""MArk (Zhang et al., ATC 2019): instances are bought for the load that is forecast, where a request is
cheapest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from dovetail.core.model import Seconds

NEAR: Final = 6  # steps whose peak is covered first: what launches now is there by then
_ENOUGH: Final = 1e-9


class InstanceKind(NamedTuple):
    """A kind of instance that can be had."""

    kind: str
    capacity: float  # requests a second that it answers in time
    usd_per_s: float
    launch_usd: float = 0.0  # paid until it is there


class Purchase(NamedTuple):
    """What runs from now on, by kind, and what of it is new and what no longer needed."""

    running: Mapping[str, int]
    launched: Mapping[str, int]
    released: Mapping[str, int]


@dataclass(slots=True)
class _Buying:
    left: list[float]  # of the forecast, step by step
    step_s: Seconds
    kinds: Sequence[InstanceKind]
    idle: dict[str, int]  # instances that run already and have nothing planned for them yet
    bought: dict[str, int] = field(default_factory=dict)
    launched: dict[str, int] = field(default_factory=dict)

    def peak(self) -> int:
        return max(range(min(NEAR, len(self.left))), key=lambda i: (self.left[i], -i))

    def span(self, peak: int) -> range:
        """The steps around the peak, one after the other, for which something is missing."""
        first = last = peak
        while first > 0 and self.left[first - 1] > _ENOUGH:
            first -= 1
        while last + 1 < len(self.left) and self.left[last + 1] > _ENOUGH:
            last += 1
        return range(first, last + 1)

    def usd_per_request(self, instance: InstanceKind, span: range) -> float:
        """Each answers what is missing, or all it can; what runs already need not be launched."""
        served = sum(min(self.left[i], instance.capacity) for i in span) * self.step_s
        launch = 0.0 if self.idle.get(instance.kind) else instance.launch_usd
        usd = instance.usd_per_s * len(span) * self.step_s + launch
        return usd / served if served > 0.0 else inf

    def buy(self, instance: InstanceKind) -> None:
        kind = instance.kind
        if self.idle.get(kind):
            self.idle[kind] -= 1
        else:
            self.launched[kind] = self.launched.get(kind, 0) + 1
        self.bought[kind] = self.bought.get(kind, 0) + 1
        self.left = [rate - instance.capacity for rate in self.left]


def planned(
    forecast: Sequence[float],
    kinds: Sequence[InstanceKind],
    running: Mapping[str, int] | None = None,
    step_s: Seconds = 60.0,
    most: int = 10_000,
) -> Purchase:
    """For the highest of the next steps, as long as something is missing there: the kind for which a
    request is cheapest over the whole time in which something is missing."""
    buying = _Buying(list(forecast), step_s, kinds, dict(running or {}))
    while forecast and sum(buying.bought.values()) < most:
        peak = buying.peak()
        if buying.left[peak] <= _ENOUGH:
            break
        span = buying.span(peak)
        buying.buy(min(kinds, key=lambda own: (buying.usd_per_request(own, span), own.kind)))
    released = {kind: count for kind, count in buying.idle.items() if count}
    return Purchase(buying.bought, buying.launched, released)


def batch_within(rate: float, slo_s: Seconds, latencies: Sequence[Seconds]) -> int:
    """The largest batch, of those whose latencies are given from 1 on, that fills up and is done in
    time; 0: not even one request is."""
    best = 0
    for batch, latency_s in enumerate(latencies, 1):
        waits_s = (batch - 1) / rate if rate > 0.0 else inf if batch > 1 else 0.0
        if waits_s + latency_s <= slo_s:
            best = batch
    return best
