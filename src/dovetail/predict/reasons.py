"""Because of what a duration is predicted, to be read by people."""

from __future__ import annotations

from dovetail.core.model import Job
from dovetail.predict.chronicle import Known
from dovetail.predict.identity import described


def source(job: Job, known: Known, lessons: int) -> str:
    """What an answer rests on; `lessons` is how many jobs its trees were fitted to."""
    rests = _rests(job, known)
    return f"{rests}, and trees fitted to {lessons:,} jobs" if lessons else rests


def _rests(job: Job, known: Known) -> str:
    if known.fineness >= 0:
        return described(job, known.fineness, known.number)
    if job.estimate is not None:
        return "its user's estimate"
    return "a guess: no job like it has finished yet"
