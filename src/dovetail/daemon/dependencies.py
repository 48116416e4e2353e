"""The jobs that a new one comes after: which still matter, and which have not ended as it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dovetail.core.model import Job, JobId
from dovetail.daemon.refusals import Conflict, NotFound

PhaseOf = Callable[[str], str | None]
_BADLY = ("failed", "cancelled")


def with_known_others(job: Job, phase_of: PhaseOf) -> Job:
    """Those that have ended as it needs no longer matter; the others must be known."""
    well = [other for other in job.after if not _is_met(other, phase_of, ("finished",))]
    anyhow = [one for one in job.after_any if not _is_met(one, phase_of, ("finished", *_BADLY))]
    badly = [other for other in job.after_failed if not _is_met(other, phase_of, _BADLY)]
    return replace(job, after=tuple(well), after_any=tuple(anyhow), after_failed=tuple(badly))


def _is_met(other: JobId, phase_of: PhaseOf, wanted: tuple[str, ...]) -> bool:
    phase = phase_of(other)
    if phase is None:
        raise NotFound(f"there is no job {other}, after which this one is to come")
    if phase == "waiting" or phase in wanted:
        return phase in wanted
    needs = "after whose failure" if "failed" in wanted else "after which"
    raise Conflict(f"job {other}, {needs} this one is to come, {over(phase)}")


def over(phase: str) -> str:
    return "was cancelled" if phase == "cancelled" else f"has {phase}"
