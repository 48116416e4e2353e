"""Why a job waits, until when, and what would let it start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from dovetail.api.forecast_row import Change
from dovetail.api.why_row import JobsAhead, Preemption, WaitsFor, WhyWaiting
from dovetail.core.track import Phase, Track
from dovetail.daemon.foresight.case import Case
from dovetail.daemon.foresight.queue_order import PlaceInLine, standing
from dovetail.daemon.foresight.unblocking import ChangeTrial
from dovetail.daemon.foresight.wait_reason import (
    BEHIND,
    CLUSTER,
    HELD,
    HOST,
    QUOTA,
    ROOM,
    SOON,
    TURN,
    Reason,
    free_text,
    reason_to_wait,
)
from dovetail.daemon.foresight.wording import folded, labelled, screen, span_text
from dovetail.daemon.holds import ASLEEP, LIMITED, SERVICE_PAUSED, begin_in
from dovetail.daemon.users.limits import Allowed
from dovetail.policies.services_first import GAVE_WAY
from dovetail.text.durations import duration_text
from dovetail.text.promises import promise_text
from dovetail.text.times import clock, clock_near
from dovetail.workloads.study.kind import studies_of

_SHOWN = 3  # jobs ahead that are named
_BY_SERVICE = {
    ASLEEP: "as soon as its service needs it; see `dovetail services`",
    SERVICE_PAUSED: "not before its service goes on; see `dovetail services resume`",
}
_RUNGS = {
    "cuda-suspend": "its GPU memory was moved to host memory (cuda-suspend)",
    "freeze": "it was frozen where it stood (freeze)",
    "cooperative": "it saved its work and stopped (cooperative)",
    "kill": "it was ended, and will begin anew (kill)",
}


def why_waiting(case: Case, allowed: Allowed) -> WhyWaiting:
    track, state = case.track, case.state
    line = standing(case.likeness, state, case.policy, track, case.forecast)
    trial = ChangeTrial(case.likeness, state, track, allowed)
    about_to = studies_of(state).of(track) is None and not track.barred and trial.starts()
    reason = Reason(SOON, "it is about to be started") if about_to else reason_to_wait(case, line)
    found = WhyWaiting(
        **case.head(),
        reason=reason.tier,
        because=reason.text,
        since=case.unix(track.waiting_since),
        needs=str(track.shape),
        free=free_text(state.room, track.shape),
        in_use_by=_holders(case),
        gave_way=_preemption(case),
        ahead=JobsAhead(
            number=len(line.ahead),
            first=list(line.ahead[:_SHOWN]),
            why=line.because,
            at_least=line.at_least,
        ),
        would_start=_changes(track, trial, reason),
        start=case.forecast.start(track.job.id) if not track.held else None,
        waits_for=_waits_for(case),
    )
    found.text = screen(_lines(case, found, line))
    return found


def _changes(track: Track, trial: ChangeTrial, reason: Reason) -> list[Change]:
    if track.held in _BY_SERVICE:
        return []
    if reason.tier == HELD and not track.held.startswith(LIMITED):
        can = trial.starts(released=True)
        return [Change("if it were resumed", "resume", True)] if can else []
    return trial.found() if reason.tier in (QUOTA, CLUSTER, ROOM, HOST, BEHIND) else []


def _holders(case: Case) -> list[str]:
    """Jobs that have GPUs that it could use, the first to end first."""
    room = case.state.room
    pools = room.eligible(case.track.shape)
    rows = []
    for job_id, other in case.state.running.items():
        assert other.placement is not None
        if room.pool_of[other.placement.slices[0].node] in pools and other.holds:
            end = case.forecast.end(job_id)
            rows.append((inf if end is None else end.expected, other.sequence, job_id))
    return [job_id for _, _, job_id in sorted(rows)]


def _preemption(case: Case) -> Preemption | None:
    """For a job that has run: which job got its GPUs, and what that took."""
    track = case.track
    if not track.resumed:
        return None
    taker = next(_takers(case), None)
    return Preemption(
        to=None if taker is None else taker.job.id,
        rung=track.rung,
        save_s=track.saved_in_s if track.saved_in_s >= 0 else None,
        parked_bytes=track.parked_bytes,
        preemptions=track.preemptions,
        reason=track.reason,
    )


def _takers(case: Case) -> Iterator[Track]:
    """Jobs that were given GPUs at the very moment at which it lost its own."""
    at = case.track.waiting_since
    for track in (*case.state.running.values(), *case.state.past):
        if track.started_at == at and track is not case.track:
            yield track


def _waits_for(case: Case) -> WaitsFor | None:
    release = case.forecast.releases.get(case.track.job.id)
    if release is None:
        return None
    return WaitsFor(
        job=release.job_id,
        ends=release.ended,
        expected=case.forecast.end(release.job_id) if release.ended else None,
        rests_on=case.source(release.job_id),
    )


# ------------------------------------------------------------------------------------------- lines


def _lines(case: Case, found: WhyWaiting, line: PlaceInLine) -> Iterator[str]:
    track, now = case.track, case.now
    yield from folded(f"{case.name(track.job.id)} waits: {found.because}.")
    in_line = not track.barred and found.reason != TURN
    place = f", {_place(line)}" if in_line else ""
    since = f"{found.phase} since {clock_near(found.since, now)}"
    yield f"{since} ({duration_text(now - found.since)}){place}; policy {found.policy}"
    yield ""
    if found.gave_way:
        yield from labelled("gave way", _preemption_text(case, found.gave_way))
    yield from labelled("needs", found.needs)
    yield from labelled("free now", found.free)
    if found.in_use_by and not track.barred:
        yield from labelled("in use by", _holders_text(case, found.in_use_by))
    if line.ahead and in_line:
        named = ", ".join(case.name(job_id, "") for job_id in line.ahead[:_SHOWN])
        more = " …" if len(line.ahead) > _SHOWN else ""
        least = "at least " if line.at_least else ""
        yield from labelled("ahead", f"{least}{line.because}: {named}{more}")
    yield from _start_lines(case, found)
    if found.promise is not None:
        yield from labelled("deadline", promise_text(found.promise, now))
    for i, change in enumerate(found.would_start):
        yield from labelled("" if i else "at once", change.change)


def _place(line: PlaceInLine) -> str:
    return f"place {len(line.ahead) + 1:,}{' or later' * line.at_least} in line"


def _start_lines(case: Case, found: WhyWaiting) -> Iterator[str]:
    track, now, waits_for = case.track, case.now, found.waits_for
    label = "goes on" if track.resumed else "starts"
    if track.held:
        yield from labelled(label, _held_until(track, now))
        return
    if found.start is None:
        limited = f": {found.limited}" if found.limited else ""
        yield from labelled(label, f"unknown{limited}")
        return
    text = f"expected {span_text(found.start, now)}"
    if waits_for is not None:
        text += f", when {case.name(waits_for.job)} {'ends' if waits_for.ends else 'gives way'}"
    yield from labelled(label, text)
    if waits_for is not None and waits_for.ends:
        yield from labelled("", f"that rests on {waits_for.rests_on}")
    if found.end is not None:
        yield from labelled("ends", f"expected {span_text(found.end, now)}, from {found.rests_on}")
    if found.limited:
        yield from labelled("note", found.limited)


def _held_until(track: Track, now: float) -> str:
    if track.held.startswith(LIMITED):
        return "not before the limit allows; see `dovetail limit`"
    if track.held in _BY_SERVICE:
        return _BY_SERVICE[track.held]
    begin = begin_in(track.held)
    if begin is not None:
        return f"not before {clock(begin, now)}; at once with `dovetail resume {track.job.id}`"
    return "not before it is let go; see `dovetail resume`"


def _holders_text(case: Case, ids: Sequence[str]) -> str:
    parts = []
    for job_id in ids[:_SHOWN]:
        end = case.forecast.end(job_id)
        until = f" until about {clock_near(end.expected, case.now)}" if end else ""
        parts.append(f"{case.name(job_id, '')}{until}")
    more = f", and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return "; ".join(parts) + more


def _preemption_text(case: Case, preemption: Preemption) -> str:
    track = case.track
    is_suspended = preemption.to is not None and track.phase is Phase.SUSPENDED
    parts = [f"to {case.name(preemption.to or '')}"] if is_suspended else []
    if is_suspended and preemption.to is not None:
        parts += _least_loss(case, preemption.to)
    if track.rung in _RUNGS:
        parts.append(f"{_RUNGS[track.rung]}, which took {duration_text(track.saved_in_s)}")
    if track.parked_bytes:
        parts.append(f"{track.parked_bytes / 1e9:.3g} GB wait in host memory")
    if track.reason:
        parts.append(track.reason)
    if track.preemptions > 1:
        return "; ".join([*parts, f"{track.preemptions} times so far"])
    return "; ".join(parts) or "to others"


def _least_loss(case: Case, to: str) -> Iterator[str]:
    """Of one that gave way to a service: what it was expected to lose, and what the next one would."""
    told = case.track.notes.get(GAVE_WAY)
    if not told or told["to"] != to:
        return
    text = f"it was to lose {told['gpu_s']:.3g} GPU-seconds by it"
    if "other" in told:
        text += f", {case.name(told['other'])} {told['other_gpu_s']:.3g}"
    yield text
