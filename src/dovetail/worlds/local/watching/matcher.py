"""Looks for metrics in lines of output by a regular expression that a user wrote.

Python cannot be made to give up a match on another thread, and holds everybody else up meanwhile;
some expressions take years on a short line. So it is done in a process of its own, where an alarm
ends what takes too long: `python -I -S matcher.py`, one request and one answer a line.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

LONGEST_S = 0.1  # on one line of output; a sound expression takes microseconds
LONGEST_IN_ALL_S = 0.25  # of a processor, on all lines of a request: the other jobs wait meanwhile
MOST_VALUE_CHARACTERS = 40  # of a number as text
_MOST_BYTES = 1 << 29  # of memory, for an expression that is a bomb by its size


class TooSlow(Exception):
    """The alarm has rung."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The values of the named groups in each line; or why they cannot be told."""
    try:
        with_alarm(LONGEST_S)
        pattern = re.compile(request["pattern"])
        return {"found": list(_all_found(pattern, request["lines"]))}
    except TooSlow:
        return {
            "trouble": f"it takes more than {LONGEST_S:g} s on a line of the output, or much on many"
        }
    except (re.error, RecursionError, OverflowError, MemoryError) as problem:
        return {"trouble": str(problem) or type(problem).__name__}
    finally:
        with_alarm(0.0)


def _all_found(pattern: re.Pattern[str], lines: list[str]) -> Iterator[dict[str, str]]:
    until = time.process_time() + LONGEST_IN_ALL_S
    for line in lines:
        if time.process_time() > until:
            raise TooSlow
        yield _found(pattern, line)


def _found(pattern: re.Pattern[str], line: str) -> dict[str, str]:
    """All matches of a line together: one may name the loss and the next one the accuracy."""
    with_alarm(LONGEST_S)
    found: dict[str, str] = {}
    for match in pattern.finditer(line):
        for name, value in match.groupdict().items():
            if value is not None:
                found[name] = value[: MOST_VALUE_CHARACTERS + 1]
    return found


def with_alarm(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _ring(signum: int, frame: FrameType | None) -> None:
    raise TooSlow


def main() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    signal.signal(signal.SIGALRM, _ring)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
