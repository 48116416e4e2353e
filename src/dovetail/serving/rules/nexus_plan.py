"""Nexus: which services share which GPU, in which duty cycle (squishy bin packing)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from dovetail.sdk.batching.forming import SLACK_S, Durations
from dovetail.sdk.batching.nexus import batch_of_half

_HALVINGS = 30


class RateOfService(NamedTuple):
    """What is asked of a service, and how fast it is."""

    service: str
    rate: float
    seconds: Durations
    slo_s: float
    max_batch: int

    @property
    def batch(self) -> int:
        """On GPUs of its own."""
        return max(batch_of_half(self.seconds, self.slo_s, self.max_batch), 1)

    def at(self, rate: float) -> RateOfService:
        return self._replace(rate=rate)


@dataclass(frozen=True, slots=True)
class DutyCycle:
    """Of one GPU: in each cycle a batch of each service."""

    seconds: float
    batches: tuple[tuple[RateOfService, int], ...]

    @property
    def busy_s(self) -> float:
        return sum(own.seconds[size] for own, size in self.batches)

    @property
    def occupancy(self) -> float:
        return self.busy_s / self.seconds


def packed(services: Iterable[RateOfService]) -> list[DutyCycle]:
    """GPUs of its own for whatever fills them; the rest of each, the largest first, goes to the GPU that
    it fills best."""
    full: list[DutyCycle] = []
    rests: list[DutyCycle] = []
    for own in services:
        size = own.batch
        takes = own.seconds[size]
        count = int(own.rate * takes / size + SLACK_S)
        full += [DutyCycle(takes, ((own.at(size / takes), size),))] * count
        left = own.rate - count * size / takes
        if left > SLACK_S * own.rate:
            rests.append(alone(own.at(left)))
    shared: list[DutyCycle] = []
    for rest in sorted(rests, key=lambda cycle: -cycle.occupancy):
        _put(shared, rest)
    return [*full, *shared]


def alone(own: RateOfService) -> DutyCycle:
    """On a GPU that it does not fill: the largest batch that is gathered and done within the SLO."""
    size = 0
    while (
        size < own.max_batch
        and (size + 1) / own.rate + own.seconds[size + 1] <= own.slo_s + SLACK_S
    ):
        size += 1
    if size:
        return DutyCycle(size / own.rate, ((own, size),))
    return DutyCycle(max(own.slo_s - own.seconds[1], own.seconds[1]), ((own, 1),))


def _put(shared: list[DutyCycle], rest: DutyCycle) -> None:
    ways = [
        (both.occupancy, at, both) for at, one in enumerate(shared) if (both := joined(one, rest))
    ]
    if ways:
        _, at, both = max(ways, key=lambda way: way[:2])
        shared[at] = both
    else:
        shared.append(rest)


def joined(one: DutyCycle, other: DutyCycle) -> DutyCycle | None:
    """Both on one GPU, in the shorter cycle with batches to match; None if they do not fit."""
    seconds = min(one.seconds, other.seconds)
    batches = tuple(
        (own, max(ceil(own.rate * seconds - SLACK_S), 1))
        for own, _ in (*one.batches, *other.batches)
    )
    fits = all(
        size <= own.max_batch and seconds + own.seconds[size] <= own.slo_s + SLACK_S
        for own, size in batches
    )
    both = DutyCycle(seconds, batches)
    return both if fits and both.busy_s <= seconds + SLACK_S else None


def filled(services: Sequence[RateOfService], gpus: int) -> list[DutyCycle]:
    """The plan for the most traffic, in these proportions, that so many GPUs can take. GPUs that even
    that leaves over do what the others do."""
    low, high = 0.0, 1.0
    while high < 1e6 and len(_scaled(services, high)) <= gpus:
        low, high = high, high * 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if len(_scaled(services, middle)) <= gpus:
            low = middle
        else:
            high = middle
    plan = _scaled(services, low) if low else _everything_everywhere(services)
    return [plan[number % len(plan)] for number in range(gpus)]


def _scaled(services: Sequence[RateOfService], factor: float) -> list[DutyCycle]:
    return packed([own.at(own.rate * factor) for own in services])


def _everything_everywhere(services: Sequence[RateOfService]) -> list[DutyCycle]:
    """More services than fit: each GPU has all of them."""
    busy_s = sum(own.seconds[own.batch] for own in services)
    return [DutyCycle(busy_s, tuple((own, own.batch) for own in services))]
