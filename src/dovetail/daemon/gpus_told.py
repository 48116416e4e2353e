"""GPUs as people know them: by the numbers of nvidia-smi. Where Dovetail may not use all GPUs of a node,
those are not their places in it, by which the state counts."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.api.job_row import GpusHeld
from dovetail.core.closings import bits
from dovetail.core.model import Node, Placement


def gpu_number(node: Node, place: int) -> int:
    label = node.labels[place][0] if place < len(node.labels) else ""
    number = label.removeprefix("gpu")
    return int(number) if number.isdecimal() else place


def numbers_in(node: Node, mask: int) -> list[int]:
    return [gpu_number(node, place) for place in bits(mask)]


def held(placement: Placement, nodes: Sequence[Node]) -> list[GpusHeld]:
    return [
        GpusHeld(
            node=piece.node,
            gpus=numbers_in(nodes[piece.node], piece.mask),
            power_limit_watts=placement.limit or None,
        )
        for piece in placement.slices
    ]
