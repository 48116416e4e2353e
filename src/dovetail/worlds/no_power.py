"""For worlds that set no power limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dovetail.core.model import Node, Placement


class NoPower:
    failed: Final = False

    def __init__(self) -> None:
        self.notices: Final[list[str]] = []

    def notice(self, line: str) -> None:
        self.notices.append(line)

    def try_out(self, nodes: Iterable[Node]) -> dict[str, tuple[float, float]]:
        return {}

    def hold(self, wanted: Mapping[str, int]) -> bool:
        return not wanted

    def is_held(self, placement: Placement, nodes: Sequence[Node]) -> bool:
        return False
