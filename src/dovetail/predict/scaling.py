"""How steps a second grow with the number of GPUs: a law through what was measured.

A step has a part that stays as it is and a part that is shared out over the GPUs (Amdahl).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Point: TypeAlias = tuple[int, float]  # GPUs, steps a second


class ScalingLaw(NamedTuple):
    """Seconds of a step on one GPU, by part."""

    fixed_s: float
    shared_s: float

    def steps_per_s(self, gpus: int) -> float:
        return 1.0 / (self.fixed_s + self.shared_s / max(gpus, 1))


def fitted(points: Sequence[Point]) -> ScalingLaw | None:
    """The law that is least off in proportion; None: fewer than two numbers of GPUs were measured."""
    times = [(max(gpus, 1), 1.0 / rate) for gpus, rate in points if rate > 0]
    return _least_off(times) if len({gpus for gpus, _ in times}) > 1 else None


def _least_off(times: Sequence[tuple[int, float]]) -> ScalingLaw:
    """Least squares of (fixed + shared / gpus) / seconds - 1; no part is below zero."""
    rows = [(1.0 / seconds, 1.0 / (gpus * seconds)) for gpus, seconds in times]
    aa, bb = sum(a * a for a, _ in rows), sum(b * b for _, b in rows)
    ab, a1, b1 = sum(a * b for a, b in rows), sum(a for a, _ in rows), sum(b for _, b in rows)
    whole = aa * bb - ab * ab
    fixed, shared = (a1 * bb - b1 * ab) / whole, (b1 * aa - a1 * ab) / whole
    if fixed < 0:
        return ScalingLaw(0.0, b1 / bb)
    return ScalingLaw(a1 / aa, 0.0) if shared < 0 else ScalingLaw(fixed, shared)
