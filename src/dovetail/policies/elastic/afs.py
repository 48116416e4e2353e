"""AFS (Hwang et al., NSDI 2021): each GPU goes to the job for which it shortens all ends together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from dovetail.core.entries import Action
from dovetail.core.model import Seconds
from dovetail.core.plan import Place
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.elastic.claims import CountClaim, shared, why_no_more
from dovetail.policies.elastic.optimus import smallest_first
from dovetail.policies.elastic.seating import seated
from dovetail.policies.placement import consolidated
from dovetail.policies.rounds import turn
from dovetail.predict.duration import HistoryMean
from dovetail.predict.left import LeftPredictor, LessDone
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class Afs:
    """Every `round_s`: the fewest GPUs to each job, the shortest first; then each GPU that is left to
    the winner among all, two by two. `lengths=false`: all are taken for equally long (AFS-P)."""

    place: Place = consolidated
    speeds: SpeedPredictor = SameEverywhere()
    left: LeftPredictor = LessDone(HistoryMean())
    lengths: bool = True
    round_s: float = 60.0

    def __post_init__(self) -> None:
        if not self.round_s > 0:
            raise ValueError(f"round_s={self.round_s:g}: give more than 0")

    def decide(self, view: View) -> Sequence[Action]:
        due, notes = turn(view, "afs", self.round_s)
        if not due:
            return notes

        def left(track: Track) -> Seconds:
            return self.left.left_s(track, view) if self.lengths else 1.0

        among = shared(view, self.speeds, self.round_s, left)
        left_s = [left(claim.track) for claim in among.claims]
        given = share_by_tournament(among.gpus, among.claims, left_s)
        wanted = ((claim.track, n) for claim, n in zip(among.claims, given, strict=True))
        actions = seated(view, self.place, smallest_first(wanted))
        return [*actions, *notes]

    def why_no_more(self, view: View, track: Track) -> str:
        return why_no_more(view, track, self.speeds, self.left.left_s(track, view))


def share_by_tournament(
    gpus: int, claims: Sequence[CountClaim], left_s: Sequence[Seconds]
) -> list[int | None]:
    """How many GPUs each job has; None: not even the fewest it needs."""
    at = [-1] * len(claims)
    for i in sorted(range(len(claims)), key=left_s.__getitem__):
        if claims[i].counts[0] <= gpus:
            at[i] = 0
            gpus -= claims[i].counts[0]
    players = [i for i in range(len(claims)) if at[i] >= 0]
    offers = [_offer(i, claims[i], at[i], left_s[i]) for i in players]
    playing = [one for one in offers if one is not None]
    widest = max([b - a for i in players for a, b in pairwise(claims[i].counts)], default=0)
    while playing:
        if gpus < widest:
            playing = [one for one in playing if one.more <= gpus]
            if not playing:
                break
        place = _winner(playing)
        own = playing[place]
        gpus -= own.more
        at[own.job] += 1
        then = _offer(own.job, claims[own.job], at[own.job], left_s[own.job])
        playing[place : place + 1] = [] if then is None else [then]
    return [claim.counts[k] if k >= 0 else None for claim, k in zip(claims, at, strict=True)]


class _Offer(NamedTuple):
    """What its next GPUs would be to a job."""

    job: int
    more: int  # GPUs up to its next number
    ends_in: Seconds  # when it would be done with what it has
    as_first: float  # what it gains by them as the first of two to end, see `prefers_later`
    as_later: float
    linear: bool


def _offer(i: int, claim: CountClaim, at: int, left_s: Seconds) -> _Offer | None:
    """None: it has the most it may have, or is not faster with more."""
    if at + 1 >= len(claim.counts):
        return None
    has, next_ = claim.counts[at], claim.counts[at + 1]
    now, then = claim.speed(has), claim.speed(next_)
    if not then > now > 0.0:
        return None
    # Where two jobs are faster in proportion to their GPUs, the first is best given all and the
    # other all of it later: that the later one keeps its number would be wrong then (AFS is SRTF).
    ratio = next_ / has
    linear = abs(then / now - ratio) <= _ROUNDING * ratio
    return _Offer(i, next_ - has, left_s / now, *_gains(now, then), linear)


def _winner(playing: Sequence[_Offer]) -> int:
    """The place of who wins against all of them, one after the other."""
    best, place = playing[0], 0
    for k, one in enumerate(playing):
        both = best.linear and one.linear
        if best.ends_in <= one.ends_in:
            won = one.as_later > best.as_first and not both
        else:
            won = not best.as_later > one.as_first or both
        if won:
            best, place = one, k
    return place


def _gains(now: float, then: float) -> tuple[float, float]:
    return (then - now) / now, (then - now) / then


def prefers_later(first: float, first_more: float, later: float, later_more: float) -> bool:
    """Of two jobs, given the speeds of each without and with the GPU: are they done sooner, together,
    if the one that is to end later has it? The later one is taken to keep its number afterwards."""
    return _gains(later, later_more)[1] > _gains(first, first_more)[0]
