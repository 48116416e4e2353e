"""Why a job is where it is, until when, and what would change it. In one screen."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.api.job_row import JobRow
from dovetail.api.why_row import WhyEnded, WhyRunning, WhyWaiting
from dovetail.core.model import JobId
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight.case import Case
from dovetail.daemon.foresight.copy import Asked
from dovetail.daemon.foresight.forecast import forecast_with
from dovetail.daemon.foresight.why_running import why_running
from dovetail.daemon.foresight.why_waiting import why_waiting
from dovetail.daemon.foresight.wording import folded, labelled, screen, shortened
from dovetail.daemon.refusals import NotFound
from dovetail.daemon.users.limits import ALL, Allowed
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.times import clock_near


def why(service: Asked, job_id: str, allowed: Allowed = ALL) -> WhyWaiting | WhyRunning | WhyEnded:
    likeness = likenesses.take(service, JobId(job_id))
    state = likeness.state()
    track = state.tracks.get(JobId(job_id))
    if track is None:
        row = service.job(job_id)
        if row.ended_at is None:
            raise NotFound(f"job {job_id} has only just been submitted; ask again")
        return _why_ended(row, max(service.clock.unix(likeness.now), row.ended_at))
    case = Case(service, likeness, state, track, forecast_with(service, likeness, job_id))
    return why_waiting(case, allowed) if track.placement is None else why_running(case)


def _why_ended(row: JobRow, now: float) -> WhyEnded:
    return WhyEnded(
        id=row.id,
        phase=row.phase,
        reason="ended",
        because=row.reason or row.phase,
        exit_code=row.exit_code,
        ended_at=row.ended_at,
        text=screen(_lines(row, now)),
    )


def _lines(row: JobRow, now: float) -> Iterator[str]:
    names = ", ".join(shortened(name, 24) for name in (row.name, row.user) if name)
    job = f"job {row.id}" + (f" ({names})" if names else "")
    yield from folded(f"{job} has {'been ' if row.phase == 'cancelled' else ''}{row.phase}.")
    yield ""
    if row.reason:
        yield from labelled("why", row.reason)
    if row.exit_code is not None and row.reason != f"exit code {row.exit_code}":
        yield from labelled("exit code", str(row.exit_code))
    if row.phase == "failed":
        yield from labelled("last words", f"dovetail logs {row.id}")
    if row.ended_at is not None:
        yield from labelled("ended", clock_near(row.ended_at, now))
    if row.started_at is None:
        yield from labelled("ran", "never")
        return
    begun = clock_near(row.started_at, now)
    yield from labelled("ran", f"{duration_text(row.run_s)}, begun at {begun}")
    if row.preemptions:
        yield from labelled("gave way", counted(row.preemptions, "time"))
    if row.attempts > 1:
        yield from labelled("attempts", str(row.attempts))
