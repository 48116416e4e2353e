"""How many replicas a service needs awake: one interface for services that run and simulated ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from dovetail.core.errors import BadInput
from dovetail.core.model import Seconds
from dovetail.workloads.service.design import ServiceDesign

_ROUNDING = 1e-9
_TENTH = 0.1


@dataclass(frozen=True, slots=True)
class SeenLoad:
    """What a rule may look at: requests a second lately, and how they fared; what one more replica
    takes. Rules do without what is not known."""

    rate: float  # requests that came in a second
    service_s: Seconds  # what a replica takes for one
    in_flight: float  # requests that replicas had, on average in the last second
    queued: float
    tail_s: Seconds  # at the percentile that matters, lately; 0: nothing was answered
    awake: int
    history: Sequence[float] = ()  # earlier rates, the latest last, each over `step_s`
    step_s: Seconds = 60.0
    ready_in_s: Seconds = 0.0  # measured: until one more replica answers, woken or started
    displaced: float = 0.0  # GPU-seconds that training would lose by it; 0: a GPU is idle

    def busy_at(self, rate: float) -> float:
        """Requests in work at once if so many come in a second (Little's law). Who waits counts as if it
        came this second; a second is enough to begin with all of them."""
        return max(rate * self.service_s, self.in_flight) + self.queued * self._begins_s

    @property
    def _begins_s(self) -> Seconds:
        return min(self.service_s, 1.0) if self.service_s else 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """So many replicas should be awake, and why in words."""

    replicas: int
    reason: str
    patience_s: Seconds | None = None  # before fewer; None: as the service has it
    variant: str = ""  # of which; empty: the service itself


class ScalingRule(Protocol):
    """A frozen dataclass whose fields are its parameters."""

    def wanted(self, load: SeenLoad, design: ServiceDesign) -> Wish:
        """Before the bounds of the service are kept to."""


@dataclass(frozen=True, slots=True)
class Reactive:
    """For the load of now: requests a second times seconds in a replica are the requests in work at once
    (Little's law); a replica should have no more than `target` of what it takes. One more while
    the SLO is missed."""

    target: float = 0.7

    def __post_init__(self) -> None:
        check_part(self.target, "target")

    def wanted(self, load: SeenLoad, design: ServiceDesign) -> Wish:
        return wish_for(load.rate, load, design, self.target)


def wish_for(rate: float, load: SeenLoad, design: ServiceDesign, target: float) -> Wish:
    busy = load.busy_at(rate)
    if not busy:
        return Wish(0, "nobody asks")
    need = busy / (design.at_once * target)
    told = _told(rate, load, need) + f" ({design.at_once} at once, {target:.0%} busy)"
    is_late = design.slo_s is not None and load.tail_s > design.slo_s >= load.service_s
    if is_late and load.awake >= need:  # more help only if one alone is not too slow
        assert design.slo_s is not None
        late = f"{load.tail_s * 1e3:.0f} ms instead of {design.slo_s * 1e3:.0f} ms"
        told += f", and one more since {design.percentile:g} of 100 answers took {late}"
        need = max(need, load.awake) + 1
    return Wish(max(ceil(need - _ROUNDING), 1), told)


def _told(rate: float, load: SeenLoad, need: float) -> str:
    """What the need rests on: who comes, or who is in work, and who waits."""
    at = f" at {load.service_s * 1e3:.0f} ms"
    comes = rate * load.service_s
    if not load.queued and comes >= load.in_flight:
        return f"{rate:.3g} requests a second need {_replicas(need)}{at}"
    if load.queued == 1 and not comes and not load.in_flight:
        return f"1 request waiting needs {_replicas(need)}"
    parts = []
    if comes and comes >= load.in_flight:
        parts = [f"{rate:.3g} requests a second{at}"]
    elif load.in_flight:
        parts = [f"{load.in_flight:.3g} requests in work"]
    if load.queued:
        parts.append(f"{load.queued:.3g}{'' if parts else ' requests'} waiting")
    return f"{' and '.join(parts)} need {_replicas(need)}"


def _replicas(need: float) -> str:
    """Never none, as long as somebody asks."""
    return f"{need:.1f}" if need >= _TENTH else f"{need:.1g}"


def check_part(value: float, name: str) -> None:
    if not 0 < value <= 1:
        raise BadInput(f"{name}={value:g} is not above 0 and at most 1")
