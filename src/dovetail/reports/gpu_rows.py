"""Where a placement lies in the chart: each GPU has a row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from dovetail.core.model import Node, Placement


@lru_cache(maxsize=4096)
def _stretches(mask: int) -> tuple[tuple[int, int], ...]:
    """The runs of neighbouring GPUs in a mask: first, count."""
    found: list[tuple[int, int]] = []
    first = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        count = (~mask & (mask + 1)).bit_length() - 1
        found.append((first + skip, count))
        first += skip + count
        mask >>= count
    return tuple(found)


def first_rows(nodes: Sequence[Node]) -> list[int]:
    """Each GPU has a row, node after node: the row of each node's GPU 0, and the number of rows."""
    return [0, *accumulate(node.gpus for node in nodes)]


def rectangles(placement: Placement, rows: Sequence[int]) -> list[tuple[int, int]]:
    """The rows a placement covers as (first, count), neighbours joined across nodes."""
    joined: list[tuple[int, int]] = []
    for node, mask in sorted(placement.slices):
        for first, count in _stretches(mask):
            top = rows[node] + first
            if joined and sum(joined[-1]) == top:
                joined[-1] = (joined[-1][0], joined[-1][1] + count)
            else:
                joined.append((top, count))
    return joined
