"""The jobs ahead of a waiting job, and why, in the terms of the policy that decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.core.loop import Policy
from dovetail.core.model import JobId
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.daemon.active_policy import said
from dovetail.daemon.foresight.copy import Likeness
from dovetail.daemon.foresight.forecast import QueueForecast
from dovetail.policies.fairness import study_of
from dovetail.policies.precedence import Ahead
from dovetail.text.counting import counted

_EXPECTED = "that the policy is expected to start before"


@dataclass(frozen=True, slots=True)
class PlaceInLine:
    """`ahead`: those that go first, the next one first; `because`: why they do."""

    ahead: tuple[JobId, ...]
    because: str
    at_least: bool = False  # of thousands not all were looked at: more may go first
    blocks: bool = False  # does the first of them keep back all behind it if it does not fit?


def standing(
    likeness: Likeness, state: State, policy: Policy, track: Track, forecast: QueueForecast
) -> PlaceInLine:
    waiting = _entities(state, track)
    found: Sequence[Ahead] | None = said(policy, "ahead", state, track, waiting)
    if found is None:
        found = [_by_forecast(track, waiting, forecast)]
    groups = [group for group in found if group.tracks]
    ahead = tuple(t.job.id for group in groups for t in group.tracks)
    because = ", ".join(_told(group) for group in groups)
    if likeness.is_exact and track.job.id in likeness.line:  # all of them, where some were left out
        ahead = _as_entities(likeness.line[: likeness.line.index(track.job.id)], state)
        why = f", {groups[0].why}" if groups else ""
        because = f"{counted(len(ahead), 'job')}{why}" if ahead else ""
    at_least = likeness.left_out > 0 and not likeness.is_exact
    return PlaceInLine(ahead, because, at_least, bool(getattr(policy, "blocks", False)))


def _entities(state: State, track: Track) -> list[Track]:
    """Who stands in line: a study is one of them, and its first trial stands for it."""
    found: dict[object, Track] = {}
    own = study_of(track.job)
    for other in state.tracks.values():
        if other.placement is None and not other.barred:
            study = study_of(other.job)
            if not study:
                found[other.job.id] = other
            elif study != own:
                found.setdefault((study,), other)
    return [*found.values(), *([track] if own else [])]


def _as_entities(line: Sequence[JobId], state: State) -> tuple[JobId, ...]:
    found: dict[object, JobId] = {}
    for job_id in line:
        track = state.tracks.get(job_id)
        study = "" if track is None else study_of(track.job)
        found.setdefault((study,) if study else job_id, job_id)
    return tuple(found.values())


def _told(group: Ahead) -> str:
    detail = f" ({group.detail})" if group.detail else ""
    return f"{_counted(group.tracks)} {group.why}{detail}"


def _counted(tracks: Sequence[Track]) -> str:
    """3 jobs; 1 job and 1 study."""
    studies = sum(1 for track in tracks if study_of(track.job))
    jobs = len(tracks) - studies
    told = [counted(jobs, "job")] if jobs else []
    if studies:
        told.append("1 study" if studies == 1 else f"{studies:,} studies")
    return " and ".join(told)


def _by_forecast(track: Track, waiting: Sequence[Track], forecast: QueueForecast) -> Ahead:
    """A policy that does not say: those that it starts before this one, if left to itself."""
    own = forecast.start(track.job.id)
    rows = [(forecast.start(t.job.id), t) for t in waiting if t is not track]
    before = [
        (span.expected, t.sequence, t)
        for span, t in rows
        if span is not None and (own is None or span.expected < own.expected)
    ]
    return Ahead([t for _, _, t in sorted(before, key=lambda row: row[:2])], _EXPECTED)
