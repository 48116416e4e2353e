"""Newcomers of one instant are judged together as far as that goes: one by one takes a look at all
plans for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Newcomer = TypeVar("Newcomer")


def in_turn(newcomers: Sequence[Newcomer], promises: Callable[[Sequence[Newcomer]], bool]) -> None:
    """All first. While that fails half as many, and half of the rest after each half that went well:
    where room runs out they come down to one, and that one's answer is the last word for it. `promises`
    is asked for each group and keeps what it can promise."""
    at, room_until = 0, len(newcomers)  # up to there a group has failed, or nobody is left
    failed = False
    while at < len(newcomers):
        left = room_until - at
        size = max(left // 2, 1) if failed else left
        if promises(newcomers[at : at + size]):
            at += size
        elif size == 1:
            at += 1
        else:
            failed, room_until = True, at + size
            continue
        if at >= room_until:
            failed, room_until = False, len(newcomers)
