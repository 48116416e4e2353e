"""When nodes fail and come back."""

from __future__ import annotations

from math import log
from random import Random
from typing import Final, final

from dovetail.core.model import Seconds


@final
class NodeFailures:
    """Each node fails after an exponential time and is repaired after another, for ever.

    Drawn from a seed for each node, so that one node's luck does not depend on the others.
    """

    def __init__(self, mtbf_s: Seconds, repair_s: Seconds, seed: int = 0) -> None:
        self._mtbf_s: Final = mtbf_s
        self._repair_s: Final = repair_s
        self._seed: Final = seed
        self._chances: Final[dict[str, Random]] = {}

    def of_seed(self, seed: int | None = None) -> NodeFailures:
        """As at the beginning, with its own luck or that of another seed."""
        return NodeFailures(self._mtbf_s, self._repair_s, self._seed if seed is None else seed)

    def next_failure(self, node_id: str, after: Seconds) -> Seconds:
        return after + self._draw(node_id, self._mtbf_s)

    def next_repair(self, node_id: str, after: Seconds) -> Seconds:
        return after + self._draw(node_id, self._repair_s)

    def _draw(self, node_id: str, mean: Seconds) -> Seconds:
        chance = self._chances.get(node_id)
        if chance is None:
            chance = self._chances[node_id] = Random(f"{self._seed}/{node_id}")
        return -mean * log(1.0 - chance.random())
