"""How many replicas a service needs awake: one rule, one question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final, Protocol

from dovetail.core.errors import BadInput
from dovetail.core.model import Seconds
from dovetail.workloads.service.design import ServiceDesign


@dataclass(frozen=True, slots=True)
class SeenLoad:
    """What a rule may look at: requests a second lately, and how they fared."""

    rate: float  # requests that came in a second
    service_s: Seconds  # what a replica takes for one
    in_flight: float
    queued: float
    tail_s: Seconds  # at the percentile that matters, lately; 0: nothing was answered
    awake: int


@dataclass(frozen=True, slots=True)
class Wish:
    """So many replicas should be awake, and why in words."""

    replicas: int
    reason: str


class ScalingRule(Protocol):
    def wanted(self, load: SeenLoad, design: ServiceDesign) -> Wish:
        """Before the bounds of the service are kept to."""


@dataclass(frozen=True, slots=True)
class Reactive:
    """Rate times latency is how many requests are in work at once (Little's law); a replica should
    have no more than `target` of what it takes. Who waits counts as if it came this second."""

    target: float = 0.7

    def wanted(self, load: SeenLoad, design: ServiceDesign) -> Wish:
        busy = max(load.rate * load.service_s, load.in_flight) + load.queued
        need = busy / (design.at_once * self.target)
        if not busy:
            return Wish(0, "nobody asks")
        told = (
            f"{load.rate:.3g} requests a second need {need:.1f} at {load.service_s * 1e3:.0f} ms "
            f"({design.at_once} at once, {self.target:.0%} busy)"
        )
        if design.slo_s is not None and load.tail_s > design.slo_s and load.awake >= need:
            late = f"{load.tail_s * 1e3:.0f} ms instead of {design.slo_s * 1e3:.0f} ms"
            told += f", and one more since {design.percentile:g} of 100 answers took {late}"
            need = max(need, load.awake) + 1
        return Wish(max(ceil(need - 1e-9), 1), told)


RULES: Final[Mapping[str, Callable[[], ScalingRule]]] = {"reactive": Reactive}


def make_rule(text: str) -> ScalingRule:
    """By name, with a target such as reactive:target=0.5."""
    name, _, options = text.partition(":")
    if name not in RULES:
        raise BadInput(f"scaling: there is no rule {name!r}; choose from {', '.join(RULES)}")
    if not options:
        return RULES[name]()
    key, _, value = options.partition("=")
    try:
        target = float(value)
    except ValueError:
        target = 0.0
    if key != "target" or not 0 < target <= 1:
        raise BadInput(f"scaling: {options!r} is not target=N with N above 0 and at most 1")
    return Reactive(target)
