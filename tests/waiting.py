"""Waiting for what a test expects to happen, and not a moment longer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
LONG_S = 120.0  # what takes a moment takes a minute on a machine that is busy with something else


def until(found: Callable[[], Found], within_s: float = LONG_S) -> Found:
    """The first answer that is true; looked for often at first, then every twentieth of a second."""
    deadline, pause_s = time.monotonic() + within_s, 0.002
    while not (answer := found()):
        assert time.monotonic() < deadline, f"it did not happen in {within_s:g} s"
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.05)
    return answer


def stays(holds: Callable[[], object], seconds: float) -> None:
    """It is so, and so it remains."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert holds()
        time.sleep(0.05)
