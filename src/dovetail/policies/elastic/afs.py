"""AFS (Hwang et al., NSDI 2021): each GPU goes to the job for which it shortens all ends together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
        among = shared(view, self.speeds, self.round_s)
        left_s = [
            self.left.left_s(claim.track, view) if self.lengths else 1.0 for claim in among.claims
        ]
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
    playing = [i for i in range(len(claims)) if at[i] >= 0]
    while playing:
        playing = [i for i in playing if 0 < _more(claims[i], at[i]) <= gpus]
        winner = _winner(playing, claims, at, left_s)
        if winner is None:
            break
        gpus -= _more(claims[winner], at[winner])
        at[winner] += 1
    return [claim.counts[k] if k >= 0 else None for claim, k in zip(claims, at, strict=True)]


def _more(claim: CountClaim, at: int) -> int:
    """GPUs up to its next number; 0: it has the most it may have."""
    return claim.counts[at + 1] - claim.counts[at] if at + 1 < len(claim.counts) else 0


def _winner(
    playing: Sequence[int],
    claims: Sequence[CountClaim],
    at: Sequence[int],
    left_s: Sequence[Seconds],
) -> int | None:
    """Who wins against all of them, of those that are faster with more at all."""
    best: int | None = None
    for i in playing:
        now, then = speeds_at(claims[i], at[i])
        if not then > now > 0.0:
            continue
        if best is None:
            best = i
            continue
        first, second = (
            (best, i)
            if _end(best, claims, at, left_s) <= _end(i, claims, at, left_s)
            else (i, best)
        )
        won = prefers_later(
            *speeds_at(claims[first], at[first]), *speeds_at(claims[second], at[second])
        )
        if won and is_linear(claims[first], at[first]) and is_linear(claims[second], at[second]):
            won = False
        best = second if won else first
    return best


def _end(
    i: int, claims: Sequence[CountClaim], at: Sequence[int], left_s: Sequence[Seconds]
) -> Seconds:
    """When it would be done with what it has."""
    return left_s[i] / speeds_at(claims[i], at[i])[0]


def speeds_at(claim: CountClaim, at: int) -> tuple[float, float]:
    """How fast it is with its present number of GPUs and with the next."""
    return claim.speed(claim.counts[at]), claim.speed(claim.counts[at + 1])


def prefers_later(first: float, first_more: float, later: float, later_more: float) -> bool:
    """Of two jobs, given the speeds of each without and with the GPU: are they done sooner, together,
    if the one that is to end later has it? The later one is taken to keep its number afterwards."""
    return (later_more - later) / later_more > (first_more - first) / first


def is_linear(claim: CountClaim, at: int) -> bool:
    """Is it faster in proportion to its GPUs? Where two jobs are, the first is best given all and the
    other all of it later: that the later one keeps its number would be wrong then (AFS is SRTF)."""
    now, then = speeds_at(claim, at)
    ratio = claim.counts[at + 1] / claim.counts[at]
    return abs(then / now - ratio) <= _ROUNDING * ratio
