"""What a scaling rule wants, with patience: less is wanted only once it has been so for a while."""

from __future__ import annotations

from collections import deque
from typing import Final

from dovetail.core.model import Seconds
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.scaling import ScalingRule, SeenLoad, Wish


class SteadyWish:
    """Of one service."""

    def __init__(
        self, rule: ScalingRule, patience_s: Seconds, first: Wish, now: Seconds = 0.0
    ) -> None:
        self._rule: Final = rule
        self._patience_s: Final = patience_s
        self._wishes: Final[deque[tuple[float, Wish]]] = deque([(now, first)])

    def at(
        self, now: Seconds, load: SeenLoad, design: ServiceDesign, least: int, most: int
    ) -> Wish:
        raw = self._rule.wanted(load, design)
        patience_s = self._patience_s if raw.patience_s is None else raw.patience_s
        wishes = self._wishes
        while wishes and wishes[0][0] < now - patience_s:
            wishes.popleft()
        while wishes and wishes[-1][1].replicas < raw.replicas:  # never the highest any more
            wishes.pop()
        wishes.append((now, raw))
        highest = wishes[0][1].replicas
        # Of those that want as many the last: it says what is so now.
        found = next(own for _, own in reversed(wishes) if own.replicas == highest)
        return _within(found, least, most)


def _within(found: Wish, least: int, most: int) -> Wish:
    if found.replicas < least:
        return Wish(least, f"the least it may have is {least}; {found.reason}")
    if found.replicas > most:
        return Wish(most, f"the most it may have is {most}; {found.reason}")
    return found
