"""Scaling rules that look ahead: by a forecast of the rate, and by what a replica really costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf, sqrt
from statistics import fmean
from typing import Final

from dovetail.core.errors import BadInput
from dovetail.core.model import Seconds
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.scaling import SeenLoad, Wish, check_part, wish_for

DAY_S: Final = 86_400.0
_ROUNDING = 1e-9
_LEVEL, _TREND = 0.5, 0.2  # Holt's weights of the latest value
_LATELY = 30  # steps that a trend is taken from
_LIKENESS = 6  # steps by which today is compared with yesterday


def rate_ahead(
    history: Sequence[float], step_s: Seconds, ahead_s: Seconds, day_s: Seconds
) -> float:
    """The rate expected then: as yesterday at that time, in proportion to how today has been beside it;
    without a yesterday, along the trend. Never below 0."""
    steps, day = max(ceil(ahead_s / step_s), 1), round(day_s / step_s)
    if len(history) >= day + _LIKENESS:
        lately, then = history[-_LIKENESS:], history[-day - _LIKENESS : len(history) - day]
        before = history[min(len(history) - day + steps - 1, len(history) - 1)]
        likeness = fmean(lately) / fmean(then) if any(then) else 1.0
        return before * min(max(likeness, 0.2), 5.0)
    return max(_trend(history[-_LATELY:], steps), 0.0)


def _trend(rates: Sequence[float], steps: int) -> float:
    """Holt's linear smoothing."""
    if len(rates) < 2:
        return rates[0] if rates else 0.0
    level, slope = rates[1], rates[1] - rates[0]
    for rate in rates[2:]:
        before, level = level, _LEVEL * rate + (1 - _LEVEL) * (level + slope)
        slope = _TREND * (level - before) + (1 - _TREND) * slope
    return level + slope * steps


@dataclass(frozen=True, slots=True)
class ByForecast:
    """For the load that is expected when one more replica could answer: as yesterday at that time, in
    proportion to today so far, or along the trend; for the load of now, if that is higher."""

    target: float = 0.7
    day_s: float = DAY_S

    def __post_init__(self) -> None:
        check_part(self.target, "target")
        if not self.day_s > 0:
            raise BadInput(f"day_s={self.day_s:g} is not above 0")

    def wanted(self, load: SeenLoad, design: ServiceDesign) -> Wish:
        expected = rate_ahead(load.history, load.step_s, load.ready_in_s, self.day_s)
        if expected <= load.rate:
            return wish_for(load.rate, load, design, self.target)
        found = wish_for(expected, load, design, self.target)
        return Wish(found.replicas, f"{found.reason}, expected in {load.ready_in_s:.3g} s")


@dataclass(frozen=True, slots=True)
class WakeAhead:
    """As many replicas as keep the SLO until one more could answer, by its measured time to wake or
    start, and by what training would lose. Beside the `a` replicas that the load keeps busy there are
    `spare` times the root of `a` for chance, `tight` times where another one would displace training.
    One that is not needed is kept as long as giving its GPU away and taking it back would cost."""

    spare: float = 0.5
    tight: float = 0.3
    sigmas: float = 1.0
    day_s: float = DAY_S

    def __post_init__(self) -> None:
        for name in ("spare", "tight", "sigmas"):
            if not 0 <= getattr(self, name) < inf:
                raise BadInput(f"{name}={getattr(self, name):g} is not at least 0")

    def wanted(self, load: SeenLoad, design: ServiceDesign) -> Wish:
        expected = rate_ahead(load.history, load.step_s, load.ready_in_s, self.day_s)
        rate = max(load.rate, expected, self._while_one_wakes(load))
        busy = load.busy_at(rate) / design.at_once
        if not busy:
            return Wish(0, "nobody asks", _patience_s(load))
        lost = load.displaced
        need = busy + (self.tight if lost else self.spare) * sqrt(busy)
        told = (
            f"{rate:.3g} requests a second keep {busy:.2g} busy, with {need - busy:.2g} for chance"
        )
        if design.slo_s is not None and load.tail_s > design.slo_s:
            need, told = ceil(need) + 1, f"{told} and one more since answers are late"
        told += f"; one more answers in {load.ready_in_s:.3g} s"
        if lost:
            told += f" and costs training {lost:.3g} GPU-seconds"
        return Wish(max(ceil(need - _ROUNDING), 1), told, _patience_s(load))

    def _while_one_wakes(self, load: SeenLoad) -> float:
        """The rate of now and the swings between steps, as far as they happen while a replica wakes: a
        random walk."""
        lately = load.history[-_LATELY:]
        if len(lately) < 2:
            return load.rate
        swings = [after - before for before, after in pairwise(lately)]
        swing = sqrt(fmean(own * own for own in swings))
        steps = min(load.ready_in_s / load.step_s, 1.0)
        return load.rate + self.sigmas * swing * sqrt(steps)


def _patience_s(load: SeenLoad) -> Seconds | None:
    """What giving a GPU away and taking it back costs; as the service has it, where that is unknown."""
    return load.ready_in_s + load.displaced if load.ready_in_s else None
