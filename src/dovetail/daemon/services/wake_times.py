"""How long replicas take until they answer, measured: woken ones, and ones that have to be started."""

from __future__ import annotations

from collections import deque
from statistics import median
from time import monotonic
from typing import Final

from dovetail.core.model import Seconds

WAKE_S: Final = 2.0  # as long as nobody has measured it
START_S: Final = 45.0
_LATEST = 5  # their median is believed


class WakeTimes:
    def __init__(self) -> None:
        self._begun: Final[dict[int, tuple[bool, float]]] = {}  # by number: woken? since when
        self._taken: Final = {
            True: deque[float](maxlen=_LATEST),
            False: deque[float](maxlen=_LATEST),
        }

    def begins(self, number: int, is_woken: bool) -> None:
        self._begun[number] = (is_woken, monotonic())

    def is_ready(self, number: int) -> None:
        if number in self._begun:
            is_woken, since = self._begun.pop(number)
            self._taken[is_woken].append(monotonic() - since)

    def forget_all_but(self, numbers: set[int]) -> None:
        """The others have ended before they were ready."""
        for gone in self._begun.keys() - numbers:
            del self._begun[gone]

    @property
    def wake_s(self) -> Seconds:
        return self._believed(True, WAKE_S)

    @property
    def start_s(self) -> Seconds:
        return self._believed(False, START_S)

    def _believed(self, is_woken: bool, before: Seconds) -> Seconds:
        taken = self._taken[is_woken]
        return median(taken) if taken else before

    @property
    def has_woken(self) -> bool:
        return bool(self._taken[True])
