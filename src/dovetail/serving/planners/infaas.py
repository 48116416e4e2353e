"""INFaaS (Romero et al., ATC 2021): users say how good and how fast; which variant answers is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Final, NamedTuple

from dovetail.core.model import Seconds

_ROUNDING: Final = 1e-9


class Variant(NamedTuple):
    """One way to answer: a model on hardware of a kind."""

    name: str
    accuracy: float
    latency_s: Seconds  # of one request
    capacity: float  # requests a second that one replica answers in time
    usd_per_s: float  # for one replica
    load_s: Seconds = 0.0


class AnswerNeeds(NamedTuple):
    """What a user asks for."""

    slo_s: Seconds
    accuracy: float = 0.0
    most: int | None = None  # replicas that there may be; None: as many as it takes


class Serving(NamedTuple):
    """Replicas of a variant that are loaded, and the requests a second that they have."""

    variant: Variant
    replicas: int
    rate: float = 0.0

    @property
    def is_full(self) -> bool:
        return self.rate >= self.variant.capacity * self.replicas * (1.0 - _ROUNDING)


def _meets(variant: Variant, needs: AnswerNeeds) -> bool:
    return variant.accuracy >= needs.accuracy and variant.latency_s <= needs.slo_s


def chosen(
    needs: AnswerNeeds, loaded: Sequence[Serving], variants: Iterable[Variant]
) -> Variant | None:
    """The cheapest that is loaded, will do and is not full; else the cheapest to load and run that is
    there in time; else, since an answer counts more than how good it is, any that is fast enough."""
    there = [one.variant for one in loaded if one.replicas and not one.is_full]
    able = [variant for variant in there if _meets(variant, needs)]
    if able:
        return min(able, key=_usd_per_request)
    variants = list(variants)
    able = [
        own for own in variants if _meets(own, needs) and own.load_s + own.latency_s <= needs.slo_s
    ] or [own for own in variants if _meets(own, needs)]
    if able:
        return min(able, key=lambda own: _usd_per_request(own) + own.usd_per_s * own.load_s)
    fast = [own for own in (*there, *variants) if own.latency_s <= needs.slo_s]
    return max(fast, key=lambda own: own.accuracy) if fast else None


def _usd_per_request(variant: Variant) -> float:
    return variant.usd_per_s / variant.capacity if variant.capacity > 0.0 else inf


def replicas_for(variant: Variant, rate: float) -> int:
    return max(ceil(rate / variant.capacity - _ROUNDING), 1)


def cheapest_for(
    variants: Iterable[Variant], needs: AnswerNeeds, rate: float
) -> tuple[Variant, int] | None:
    """Which variant answers so many requests a second at the least cost, and how many replicas."""
    able = [own for own in variants if _meets(own, needs) and own.capacity > 0.0]
    if not able:
        return None
    most = inf if needs.most is None else needs.most
    enough = [own for own in able if replicas_for(own, rate) <= most]
    if not enough:  # the one with which the most are answered
        best = max(able, key=lambda own: own.capacity)
        return best, int(most)
    best = min(enough, key=lambda own: (replicas_for(own, rate) * own.usd_per_s, own.name))
    return best, replicas_for(best, rate)


def next_step(
    now: Serving,
    variants: Iterable[Variant],
    needs: AnswerNeeds,
    calm_checks: int,
    slack: float = 1.1,
    patience: int = 10,
) -> Serving:
    """Too little for the load with some slack: more replicas or another variant, whichever is cheaper.
    Too much: fewer or another, but only when it has been too much so many checks in a row."""
    best = cheapest_for(variants, needs, now.rate * slack)
    if best is None:
        return now
    variant, replicas = best
    short = now.rate * slack > now.variant.capacity * now.replicas
    cheaper = replicas * variant.usd_per_s < now.replicas * now.variant.usd_per_s
    if short or (cheaper and calm_checks >= patience):
        return Serving(variant, replicas, now.rate)
    return now


@dataclass
class VariantChoice:
    """What is remembered of one service: what it has, and calm checks in a row. Upgraded at once,
    downgraded after `patience` of them."""

    standing: Serving
    slack: float
    patience: int
    calm: int = 0

    def check(self, variants: Sequence[Variant], needs: AnswerNeeds, rate: float) -> Serving:
        """`variants` as they are believed to be now."""
        known = {own.name: own for own in variants}
        variant = known.get(self.standing.variant.name, self.standing.variant)
        now = Serving(variant, self.standing.replicas, rate)
        best = cheapest_for(variants, needs, rate * self.slack)
        is_calm = best is not None and (
            best[0].usd_per_s * best[1] < now.variant.usd_per_s * now.replicas
        )
        self.calm = self.calm + 1 if is_calm else 0
        self.standing = next_step(now, variants, needs, self.calm, self.slack, self.patience)
        return self.standing
