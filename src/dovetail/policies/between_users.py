"""Who goes first where users take turns, and why, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from dovetail.core.model import Job
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.precedence import EARLIER, Ahead, Lineup

_LESS = "of users who have had less"
_PRIORITY = "of the same user with a higher priority, or submitted earlier"


def owner(job: Job) -> str:
    return job.user or job.tenant


def ahead(
    track: Track,
    waiting: Sequence[Track],
    place: Callable[[Job, int], tuple[float, float]],
    had: Callable[[str], float],
    told: Callable[[str, float], str],
) -> Sequence[Ahead]:
    """Users go in the order of what they have had; each one's jobs by their place among them."""
    mine = owner(track.job)
    own = had(mine)
    others = [t for t in waiting if owner(t.job) != mine and had(owner(t.job)) < own]
    others.sort(key=lambda t: (had(owner(t.job)), t.sequence))
    own_place = place(track.job, track.sequence)
    same = [t for t in waiting if owner(t.job) == mine and t is not track]
    before = [t for t in same if place(t.job, t.sequence) < own_place]
    before.sort(key=lambda t: place(t.job, t.sequence))
    found = []
    if others:
        first = owner(others[0].job)
        detail = f"{told(first or 'nobody', had(first))}, {told(mine or 'this user', own)}"
        found.append(Ahead(others, _LESS, detail))
    if before:
        higher = any(t.job.priority > track.job.priority for t in before)
        found.append(Ahead(before, _PRIORITY if higher else f"of the same user {EARLIER}"))
    return found


def holding(view: View) -> Callable[[str], float]:
    """How many GPUs a user has now."""
    in_use: dict[str, float] = {}
    for track in view.running.values():
        who = owner(track.job)
        in_use[who] = in_use.get(who, 0.0) + track.holds
    return lambda who: in_use.get(who, 0.0)


def lineup(view: View) -> Lineup:
    tracks = list(view.tracks.values())
    return Lineup(lambda: _by_turns(tracks), exact=False)


def _by_turns(line: Iterable[Track]) -> list[Track]:
    """The first of each user, then the second of each; a user's own by their priority."""
    number: dict[str, int] = {}
    rows = []
    for track in sorted(line, key=lambda own: (-own.job.priority, own.sequence)):
        if track.placement is None:
            who = owner(track.job)
            number[who] = number.get(who, 0) + 1
            rows.append((number[who], track.sequence, track))
    return [row[2] for row in sorted(rows, key=itemgetter(0, 1))]


def gpu_time(gpu_s: float) -> str:
    hours = gpu_s / 3600
    return f"{hours:.3g} GPU-h" if hours >= 0.1 else f"{gpu_s:.3g} GPU-s"
