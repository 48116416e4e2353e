"""Ending all that a job has left behind: orphans come to its keeper, and then to its guard."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from .proc import Stat, send_if_allowed, stop_descendants

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_ROUND_S = 1.0


def end_descendants(reap: Callable[[], bool], wake: int) -> list[Stat]:
    """Every process left behind is our descendant (orphans come to us): end them all. Those that are
    not ours to end; as a rule none.

    First all are stopped, so that nobody makes new ones or notices that others die.
    """
    patience_s = 0.01
    while reap():
        _hurry()
        left = stop_descendants(os.getpid())
        allowed = [send_if_allowed(stat, signal.SIGKILL) for stat in left]
        if left and not any(allowed):
            return left
        select.select([wake], [], [], patience_s)
        patience_s = min(2 * patience_s, _LONGEST_ROUND_S)
    return []


def _hurry() -> None:
    """Ahead of all that we are about to end, where we may (as root): else a fork bomb outruns us."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def wake_up_on_children() -> int:
    """A descriptor that can be read when a child has ended."""
    wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    return wake


def forget_wake_ups(wake: int) -> None:
    with suppress(BlockingIOError):
        while os.read(wake, 4096):
            pass
