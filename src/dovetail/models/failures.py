"""When nodes fail and come back."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from random import Random

from dovetail.core.entries import NodeDown, NodeUp
from dovetail.core.model import Node, Seconds


def node_failures(
    nodes: Sequence[Node],
    mtbf_s: Seconds,
    repair_s: Seconds,
    start: Seconds,
    until: Seconds,
    seed: int,
) -> list[NodeDown | NodeUp]:
    """Each node fails after an exponential time and is repaired after another, up to `until`."""
    events: list[NodeDown | NodeUp] = []
    for node in nodes:
        chance = Random(f"{seed}/{node.id}")
        at = start
        while True:
            at -= mtbf_s * log(1.0 - chance.random())
            if at >= until:
                break
            events.append(NodeDown(at, node.id))
            at -= repair_s * log(1.0 - chance.random())
            events.append(NodeUp(at, node.id))
    return sorted(events, key=lambda event: event.at)
