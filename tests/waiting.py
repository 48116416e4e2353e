"""Waiting for what a test expects to happen, and not a moment longer."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(happened: Callable[[], object], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
