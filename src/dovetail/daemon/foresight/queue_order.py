"""Who is ahead of a waiting job, and why, in the terms of the policy that decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.core.loop import Policy
from dovetail.core.model import JobId, Seconds
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.daemon.foresight.copy import Likeness, scheduler_of
from dovetail.daemon.foresight.forecast import Forecast
from dovetail.policies.fairness import Drf, FairShare, owner, study_of
from dovetail.policies.listing import LineScheduler, ListScheduler
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text

_EARLIER = "submitted earlier"
_AS_SHORT = "as short that came earlier"

# By policy: what is said of jobs that stand before another, and of those that are level with it.
_SAID: dict[str, tuple[str, str]] = {
    "fifo": (_EARLIER, _EARLIER),
    "fifo-skip": (_EARLIER, _EARLIER),
    "easy": (_EARLIER, _EARLIER),
    "conservative": (_EARLIER, _EARLIER),
    "gandiva": (_EARLIER, _EARLIER),
    "sjf": ("expected to be shorter", _AS_SHORT),
    "sjf-skip": ("expected to be shorter", _AS_SHORT),
    "psjf": ("expected to be shorter", _AS_SHORT),
    "qssf": ("expected to need fewer GPU-seconds", "that need as few and came earlier"),
    "srtf": ("with less time left", "with as little time left that came earlier"),
    "srsf": ("with fewer GPU-seconds left", "with as few GPU-seconds left that came earlier"),
    "priority": ("with a higher priority", "with the same priority that came earlier"),
    "edf": ("with an earlier deadline", "with no earlier a deadline that came earlier"),
    "least-laxity": ("with less slack before their deadline", "with as little slack"),
    "las": ("that have had fewer GPU-seconds", "that have had no more and came earlier"),
    "tiresias": ("in a higher queue", "before it in the same queue"),
    "gittins": ("more likely to finish soon", "as likely to finish soon that came earlier"),
    "round-robin": ("whose turn is before", "that have waited longer for their turn"),
    "multilevel-feedback": ("in a higher queue", "that have waited longer for their turn"),
}
_TIMES = ("sjf", "sjf-skip", "psjf", "srtf")  # policies whose key is a number of seconds


@dataclass(frozen=True, slots=True)
class Standing:
    """`ahead`: those that go first, the next one first; `because`: why they do."""

    ahead: tuple[JobId, ...]
    because: str
    blocks: bool = False  # does the first of them keep back all behind it if it does not fit?


def standing(
    likeness: Likeness, state: State, policy: Policy, track: Track, forecast: Forecast
) -> Standing:
    name = likeness.policy.partition(":")[0]
    waiting = _entities(state, track)
    scheduler = scheduler_of(policy)
    if scheduler is not None and name in _SAID:
        return _by_key(likeness, state, scheduler, track, waiting, name)
    if isinstance(policy, FairShare | Drf):
        return _by_user(state, policy, track, waiting)
    if name in _SAID:
        ahead = [t for t in waiting if t.sequence < track.sequence]
        return Standing(tuple(t.job.id for t in ahead), _many(ahead, _EARLIER), name == "easy")
    return _by_forecast(track, waiting, forecast)


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


def _by_key(
    likeness: Likeness,
    state: State,
    scheduler: ListScheduler | LineScheduler,
    track: Track,
    waiting: Sequence[Track],
    name: str,
) -> Standing:
    own, tie = scheduler.key.waiting(track, state)
    rows = [(*scheduler.key.waiting(t, state), t) for t in waiting if t is not track]
    before = sorted([row for row in rows if row[:2] < (own, tie)], key=lambda row: row[:2])
    better = [t for key, _, t in before if key < own]
    level = [t for key, _, t in before if key == own]
    said, said_level = _SAID[name]
    if said == said_level:
        better, level = [*better, *level], []
    parts = [_many(better, said)] if better else []
    parts += [_many(level, said_level)] if level else []
    if better and name in _TIMES:
        parts[0] += (
            f" ({duration_text(before[0][0])} against {duration_text(own)}, by {_estimates(scheduler)})"
        )
    ahead = tuple(t.job.id for _, _, t in before)
    if track.job.id in likeness.line:
        ahead = _as_entities(likeness.line[: likeness.line.index(track.job.id)], state)
        parts = [f"{counted(len(ahead), 'job')}, {said}"] if ahead else []
    return Standing(ahead, ", ".join(parts), scheduler.strict)


def _as_entities(line: Sequence[JobId], state: State) -> tuple[JobId, ...]:
    found: dict[object, JobId] = {}
    for job_id in line:
        track = state.tracks.get(job_id)
        study = "" if track is None else study_of(track.job)
        found.setdefault((study,) if study else job_id, job_id)
    return tuple(found.values())


def _estimates(scheduler: ListScheduler | LineScheduler) -> str:
    predictor = type(getattr(scheduler.key, "_predictor", None)).__name__
    return "their users' estimates" if predictor == "UserEstimate" else "what is known of them"


def _many(tracks: Sequence[Track], what: str) -> str:
    return f"{_counted(tracks)} {what}" if tracks else ""


def _counted(tracks: Sequence[Track]) -> str:
    """3 jobs; 1 job and 1 study."""
    studies = sum(1 for track in tracks if study_of(track.job))
    jobs = len(tracks) - studies
    told = [counted(jobs, "job")] if jobs else []
    if studies:
        told.append("1 study" if studies == 1 else f"{studies:,} studies")
    return " and ".join(told)


# ------------------------------------------------------------------------------------ between users


def _by_user(
    state: State, policy: FairShare | Drf, track: Track, waiting: Sequence[Track]
) -> Standing:
    """Users go in the order of what they have had; each one's jobs by priority, then in order of
    submission."""
    had = _had(state, policy)
    mine = owner(track.job)
    own = had(mine)
    rows = [(had(owner(t.job)), t.sequence, t) for t in waiting if t is not track]
    others = sorted(
        [row for row in rows if owner(row[2].job) != mine and row[0] < own], key=lambda r: r[:2]
    )
    account = policy.account(state, track.job)
    place = account.place(track.job, track.sequence)
    same = [(account.place(t.job, t.sequence), t) for _, _, t in rows if owner(t.job) == mine]
    before = [t for key, t in sorted(same, key=lambda row: row[0]) if key < place]
    ahead = tuple(t.job.id for t in [*[t for _, _, t in others], *before])
    parts = []
    if others:
        who = owner(others[0][2].job) or "nobody"
        parts.append(
            f"{_counted([row[2] for row in others])} of users who have had less: "
            f"{_amount(policy, who, others[0][0])}, {_amount(policy, mine, own)}"
        )
    if before:
        higher = any(t.job.priority > track.job.priority for t in before)
        said = "with a higher priority, or submitted earlier" if higher else _EARLIER
        parts.append(f"{_many(before, 'of the same user')} {said}")
    return Standing(ahead, ", and ".join(parts))


def _had(state: State, policy: FairShare | Drf) -> Callable[[str], float]:
    if isinstance(policy, FairShare):
        usage = policy.usage(state)
        return lambda who: usage[who].gpu_s / usage[who].weight if who in usage else 0.0
    held: dict[str, float] = {}
    for track in state.running.values():
        who = owner(track.job)
        held[who] = held.get(who, 0.0) + track.holds
    return lambda who: held.get(who, 0.0)


def _amount(policy: FairShare | Drf, who: str, amount: float) -> str:
    if isinstance(policy, FairShare):
        return f"{who or 'this user'} has used {_gpu_hours(amount)} lately"
    return f"{who or 'this user'} holds {amount:g} GPUs"


def _gpu_hours(gpu_s: Seconds) -> str:
    hours = gpu_s / 3600
    return f"{hours:.3g} GPU-h" if hours >= 0.1 else f"{gpu_s:.3g} GPU-s"


def _by_forecast(track: Track, waiting: Sequence[Track], forecast: Forecast) -> Standing:
    """A policy that we do not know: those that it starts before this one, if left to itself."""
    own = forecast.start(track.job.id)
    rows = [(forecast.start(t.job.id), t) for t in waiting if t is not track]
    before = [
        (span.expected, t.sequence, t)
        for span, t in rows
        if span is not None and (own is None or span.expected < own.expected)
    ]
    tracks = [t for _, _, t in sorted(before, key=lambda row: row[:2])]
    ahead = tuple(t.job.id for t in tracks)
    return Standing(ahead, _many(tracks, "that the policy is expected to start before"))
