"""Why jobs are kept out of the line, in the words of the journal."""

from __future__ import annotations

from typing import Final

from dovetail.worlds.world import LIMITED as LIMITED  # which limit follows

PAUSED: Final = "paused by its user"
ARRAY_FULL: Final = "its array runs as many at once as it may"
STUDY_STOPPED: Final = "its study is stopped"
BEGINS: Final = "begins at"  # when follows, as ISO 8601 has it
ASLEEP: Final = "its service does not need it now"
SERVICE_PAUSED: Final = "its service is paused"
AFTER: Final = "waits for job"
BENCHED: Final = "its study runs as many trials at once as it may"

# How reasons begin that say nothing of what a job does.
PUBLIC: Final = (
    *(PAUSED, BEGINS, ARRAY_FULL, STUDY_STOPPED, ASLEEP, SERVICE_PAUSED, AFTER, BENCHED, LIMITED),
)
