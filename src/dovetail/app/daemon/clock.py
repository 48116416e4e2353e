"""Time as the journal counts it: seconds since its beginning, never backwards."""

from __future__ import annotations

import time
from typing import Final

from dovetail.core.model import Seconds


class Clock:
    """Goes with the wall clock as it stood when the daemon started, and on through sleep of the
    machine; a wall clock that is set meanwhile does not disturb it."""

    def __init__(self, epoch: float, not_before: Seconds) -> None:
        self.epoch: Final = epoch
        self._offset: Final = max(time.time() - epoch, not_before) - _ticks()

    def __call__(self) -> Seconds:
        return _ticks() + self._offset

    def unix(self, at: Seconds) -> float:
        """That time as the world counts it."""
        return self.epoch + at


def _ticks() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
