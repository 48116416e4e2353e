"""What the end of a process means, in words and as an exit code."""

from __future__ import annotations

import signal

from dovetail.worlds.local.runs import Ending

REQUEUE_CODES = frozenset((75, 85))  # EX_TEMPFAIL, and HTCondor's "checkpointed, start me again"
KILLED = 137  # by SIGKILL, as a shell tells it


def exit_code(ending: Ending) -> int:
    """As a shell tells it."""
    return ending.code if ending.code is not None else 128 + (ending.signal or 0)


def told(ending: Ending) -> str:
    if ending.failure:
        return ending.failure
    if ending.signal:
        return f"killed by signal {ending.signal} ({_signal_name(ending.signal)})"
    return f"exit code {ending.code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
