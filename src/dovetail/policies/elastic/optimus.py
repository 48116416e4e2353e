"""Optimus (Peng et al., EuroSys 2018): one GPU more to the job whose end comes nearest by it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Final, Protocol, final

from dovetail.core.entries import Action
from dovetail.core.model import Seconds
from dovetail.core.plan import Place
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.elastic.claims import CountClaim, shared, why_no_more
from dovetail.policies.elastic.seating import seated
from dovetail.policies.placement import consolidated
from dovetail.policies.precedence import InOrderOfSubmission
from dovetail.policies.rounds import turn
from dovetail.predict.duration import HistoryMean
from dovetail.predict.left import LeftPredictor, LessDone
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

_DIGITS: Final = "%.12e"  # gains that differ by rounding alone are equal


@dataclass(frozen=True, kw_only=True)
class Optimus(InOrderOfSubmission):
    """Every `round_s`: each job has the fewest GPUs it can run on, in order of submission; then one
    more at a time to the job that is done sooner by the most, while any is."""

    place: Place = consolidated
    speeds: SpeedPredictor = SameEverywhere()
    left: LeftPredictor = LessDone(HistoryMean())
    round_s: float = 60.0

    def __post_init__(self) -> None:
        if not self.round_s > 0:
            raise ValueError(f"round_s={self.round_s:g}: give more than 0")

    def decide(self, view: View) -> Sequence[Action]:
        due, notes = turn(view, "optimus", self.round_s)
        if not due:
            return notes
        among = shared(view, self.speeds, self.round_s, None)
        left_s = _LeftWhenAsked(self.left, among.claims, view)
        given = share_out(among.gpus, among.claims, left_s)
        wanted = ((claim.track, n) for claim, n in zip(among.claims, given, strict=True))
        actions = seated(view, self.place, smallest_first(wanted))
        return [*actions, *notes]

    def why_no_more(self, view: View, track: Track) -> str:
        return why_no_more(view, track, self.speeds, self.left.left_s(track, view))


class LeftByNumber(Protocol):
    """What each of some jobs has left."""

    def __getitem__(self, number: int, /) -> Seconds: ...


@final
class _LeftWhenAsked:
    """Looked up when it is asked for: most jobs wait, and are given no GPUs."""

    def __init__(self, left: LeftPredictor, claims: Sequence[CountClaim], view: View) -> None:
        self._left: Final = left
        self._claims: Final = claims
        self._view: Final = view

    def __getitem__(self, number: int) -> Seconds:
        return self._left.left_s(self._claims[number].track, self._view)


def smallest_first(
    wanted: Iterable[tuple[Track, int | None]],
) -> Sequence[tuple[Track, int | None]]:
    """Those that have GPUs or are given some."""
    moving = [row for row in wanted if row[1] is not None or row[0].placement is not None]
    return sorted(moving, key=lambda row: row[1] or 0)


def share_out(gpus: int, claims: Sequence[CountClaim], left_s: LeftByNumber) -> list[int | None]:
    """How many GPUs each job has; None: not even the fewest it needs."""
    given: list[int | None] = [None] * len(claims)
    gains: list[tuple[float, int, int]] = []  # below 0, of whom, with how many
    for i, claim in enumerate(claims):
        if claim.counts[0] <= gpus:
            given[i] = claim.counts[0]
            gpus -= claim.counts[0]
            gains.append((-_gain(claim, 0, left_s[i]), i, 0))
    heapify(gains)
    while gains and gains[0][0] < 0.0:
        _, i, at = gains[0]
        counts = claims[i].counts
        more = counts[at + 1] - counts[at]
        if more > gpus:
            heappop(gains)  # what is left is not enough for its next number
            continue
        given[i] = counts[at + 1]
        gpus -= more
        heapreplace(gains, (-_gain(claims[i], at + 1, left_s[i]), i, at + 1))
    return given


def _gain(claim: CountClaim, at: int, left_s: Seconds) -> float:
    """By how much sooner it is done with the next number of GPUs, for each of them more."""
    counts = claim.counts
    if at + 1 >= len(counts):
        return 0.0
    now, then = claim.speed(counts[at]), claim.speed(counts[at + 1])
    if not now or not then:
        return 0.0
    gain = (1.0 / now - 1.0 / then) * left_s / (counts[at + 1] - counts[at])
    return float(_DIGITS % gain) if gain > 0.0 else 0.0
