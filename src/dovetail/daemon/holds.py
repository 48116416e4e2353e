"""Why jobs are kept out of the line, in the words of the journal."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from dovetail.text.times import clock
from dovetail.worlds.world import LIMITED as LIMITED  # which limit follows

PAUSED: Final = "paused by its user"
HELD_BACK: Final = "held by its user"  # from the beginning, by `submit --hold`
ARRAY_FULL: Final = "its array runs as many at once as it may"
STUDY_STOPPED: Final = "its study is stopped"
BEGINS: Final = "begins at"  # when follows, as ISO 8601 has it; people are told `held_text`
ASLEEP: Final = "its service does not need it now"
SERVICE_PAUSED: Final = "its service is paused"
AFTER: Final = "waits for job"
BENCHED: Final = "its study runs as many trials at once as it may"

# How reasons begin that say nothing of what a job does.
PUBLIC: Final = (
    *(PAUSED, HELD_BACK, "begins", ARRAY_FULL, STUDY_STOPPED),
    *(ASLEEP, SERVICE_PAUSED, AFTER, BENCHED, LIMITED),
)


def begin_in(reason: str) -> float | None:
    """The time, in seconds since 1970, before which such a job is not to start."""
    if not reason.startswith(BEGINS):
        return None
    return datetime.fromisoformat(reason.removeprefix(BEGINS).strip()).timestamp()


def held_text(reason: str, job_id: str, now: float) -> str:
    """As people are told: `begins 27 Nov 22:00`."""
    if reason == HELD_BACK:
        return f"{reason}; dovetail release {job_id}"
    at = begin_in(reason)
    return reason if at is None else f"begins {clock(at, now)}"
