"""The meaning of a process's end, in words and as an exit code."""

from __future__ import annotations

import signal
from dataclasses import dataclass

REQUEUE_CODES = frozenset((75, 85))  # EX_TEMPFAIL, and HTCondor's "checkpointed, start me again"
KILLED = 137  # by SIGKILL, as a shell tells it


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: with an exit code, or by a signal.

    `failure` says in one line why it could not run or what else went wrong; "" as a rule.
    `from_outside`: somebody took away the place where it ran; how it ended says nothing about it.
    """

    code: int | None
    signal: int | None
    failure: str
    ended_at: float
    cpu_s: float
    max_rss_bytes: int  # of the largest process
    from_outside: bool = False


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
