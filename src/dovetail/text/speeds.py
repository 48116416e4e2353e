"""Steps a second, for people: `2.01 steps/s on 2 H100, 1.2 on 1 H100`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dovetail.text.counting import counted


class SpeedThere(Protocol):
    """With so many GPUs of a kind, on so many nodes."""

    @property
    def kind(self) -> str: ...
    @property
    def gpus(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def steps_per_s(self) -> float: ...


def speeds_text(speeds: Iterable[SpeedThere]) -> str:
    """In the order given; "": none was measured."""
    told = [f"{own.steps_per_s:.4g}{{}} on {_where(own)}" for own in speeds]
    return ", ".join([text.format("" if i else " steps/s") for i, text in enumerate(told)])


def _where(own: SpeedThere) -> str:
    what = counted(own.gpus, "slot") if own.kind == "cpu" else f"{own.gpus} {own.kind}"
    return f"{what} over {own.nodes} nodes" if own.nodes > 1 else what
