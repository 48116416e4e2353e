"""Sia's configurations (SOSP 2023): the counts of GPUs that a job may be given of one kind.

Powers of two within a node, then whole nodes: then jobs placed from the largest to the smallest
leave no node split between two that span nodes.
"""

from __future__ import annotations

from typing import NamedTuple


class Configuration(NamedTuple):
    """So many GPUs of a kind, on so many nodes."""

    kind: int  # its number
    nodes: int
    gpus: int


def configurations(kind: int, whole_nodes: int, gpus_each: int) -> list[Configuration]:
    """All of a kind that has so many nodes of so many GPUs."""
    if not gpus_each:
        return []
    within = [2**power for power in range(gpus_each.bit_length()) if 2**power < gpus_each]
    found = [Configuration(kind, 1, gpus) for gpus in (*within, gpus_each)]
    return found + [Configuration(kind, n, n * gpus_each) for n in range(2, whole_nodes + 1)]
