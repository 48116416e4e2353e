"""Several models take turns on one GPU, or on one share of it: does a duty cycle keep all in time?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from dovetail.core.model import WHOLE_GPU, Seconds
from dovetail.serving.planners.demand import ShareDemand

_ROUNDING = 1e-9


def duty_cycle(demands: Sequence[ShareDemand], share: int = WHOLE_GPU) -> Seconds | None:
    """The longest cycle in which each runs one batch of what came in the cycle before; None: some
    would be late, or one cycle is not enough for all of them.

    Batches change only where a cycle times a rate is a whole number: these lengths are tried, the
    longest first, since long cycles have large batches, which are cheapest.
    """
    demands = [demand for demand in demands if demand.rate > 0.0]
    if not demands:
        return 0.0
    lengths = sorted({k / own.rate for own in demands for k in range(1, own.max_batch + 1)})
    for shorter, length in reversed([*pairwise([0.0, *lengths])]):
        found = _cycle_between(shorter, length, demands, share)
        if found is not None:
            return found
    return None


def _cycle_between(
    shorter: Seconds, length: Seconds, demands: Sequence[ShareDemand], share: int
) -> Seconds | None:
    batches = [ceil(own.rate * length - _ROUNDING) for own in demands]
    if any(batch > own.max_batch for batch, own in zip(batches, demands, strict=True)):
        return None
    takes = [own.latency(batch, share) for batch, own in zip(batches, demands, strict=True)]
    waits = min(own.slo_s - took for own, took in zip(demands, takes, strict=True))
    cycle = min(length, waits)
    return cycle if max(sum(takes) - _ROUNDING, shorter) <= cycle else None
