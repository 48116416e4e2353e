"""How many bytes users hand in: what they are told to keep for a day's work, and no disk full of it."""

from __future__ import annotations

import json
from math import inf
from typing import Final

from dovetail.core.model import Seconds
from dovetail.core.view import View
from dovetail.daemon.refusals import NotAllowed
from dovetail.daemon.submissions import Submission
from dovetail.daemon.users.limits import Limits
from dovetail.jobfiles.job_model import dump

DAY_S: Final = 86400.0
PER_JOB: Final = 2000  # bytes of entries, and of files that are there for every job
PER_CHANGE: Final = 500


class Intake:
    """Forgets evenly, all of what is allowed within a day. Kept in memory: a restart forgives."""

    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._used: Final[dict[str, tuple[float, Seconds]]] = {}  # bytes, as of when

    def charge(self, user: str, size: float, view: View, now: Seconds) -> None:
        """Before anything is written; refused whole if it is too much."""
        allowed = self._limits.of(user, view).megabytes * 1e6
        if allowed == inf:
            return
        used = self.used(user, view, now)
        if used + size > allowed:
            raise NotAllowed(
                f"{user} may hand in {allowed / 1e6:,.0f} MB a day; {used / 1e6:,.1f} MB are used and "
                f"this takes {size / 1e6:,.1f} MB: send less, wait, or {self._limits.ask}"
            )
        self._used[user] = (used + size, now)

    def used(self, user: str, view: View, now: Seconds) -> float:
        bytes_then, then = self._used.get(user, (0.0, now))
        allowed = self._limits.of(user, view).megabytes * 1e6
        return max(bytes_then - (now - then) / DAY_S * allowed, 0.0) if allowed < inf else 0.0


def size_of(submission: Submission, members: int) -> float:
    """Bytes that are written for it: the common part of an array once, its command for every member."""
    common = len(json.dumps(dump(submission.spec)))
    common += sum(len(name) + len(value) for name, value in submission.environment.items())
    command = sum(map(len, submission.spec.command or ()))
    return common + members * (PER_JOB + command)
