"""What the jobs of a view claim: rates by GPU kind, steps left, how long they are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

from dovetail.core.model import WHOLE_GPU, Seconds
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.models.cost import Costs
from dovetail.models.leases import lease_steps
from dovetail.policies.gavel.beliefs import PairRates, RoundBeliefs
from dovetail.policies.gavel.ledger import ShareAccount
from dovetail.policies.gavel.problem import RateClaim, SideBySide
from dovetail.predict.speed import beside

_LEAST_S: Final = 1.0  # that a job is believed to need yet, whatever was predicted


@final
class Claimants:
    """The GPU kinds there are, with their open GPUs, and the jobs that want some."""

    def __init__(self, view: View, beliefs: RoundBeliefs) -> None:
        self._view: Final = view
        self._beliefs: Final = beliefs
        room = view.room
        counts: dict[str, int] = {}
        self._width: Final[dict[str, int]] = {}
        self._up: Final[dict[int, int]] = {}  # open GPUs, by pool
        for pool in room.pools:
            up = sum([room.gpus_open(n) for n in pool.members])
            self._up[pool.index] = up
            counts[pool.kind] = counts.get(pool.kind, 0) + up
            self._width[pool.kind] = max(self._width.get(pool.kind, 1), pool.width)
        self._kinds_of: Final[dict[int, tuple[str, ...]]] = {}  # by lane
        self._rates: Final[dict[int, tuple[float, ...]]] = {}  # by sequence
        self.kinds: Final = tuple(counts)
        self.counts: Final = tuple(counts.values())
        self.tracks: Final = [
            track for track in view.tracks.values() if track.shape.gpus and not track.barred
        ]

    def gpus(self, track: Track) -> float:
        return track.shape.gpus * track.shape.share / WHOLE_GPU

    def rates(self, track: Track) -> tuple[float, ...]:
        """Steps a second on each kind, or seconds of its work where it has no steps; 0 where it may
        not be."""
        found = self._rates.get(track.sequence)
        if found is None:
            found = self._rates[track.sequence] = self._rates_of(track)
        return found

    def _rates_of(self, track: Track) -> tuple[float, ...]:
        allowed = self._allowed(track)
        if self._beliefs.steps is None:
            return tuple([self._rate(track, kind) if kind else 0.0 for kind in allowed])
        # Steps a second are of the model: what was found stays from round to round.
        key = track.job.model, track.shape.gpus, allowed
        found = self._beliefs.rates.get(key)
        if found is None:
            found = tuple([self._rate(track, kind) if kind else 0.0 for kind in allowed])
            self._beliefs.rates[key] = found
        return found

    def _allowed(self, track: Track) -> tuple[str, ...]:
        """The kinds, with "" for those where it may not be; the same for all jobs of a shape."""
        shape = track.shape
        found = self._kinds_of.get(shape.lane)
        if found is None:
            pools = self._view.room.eligible(shape)
            allowed = {pool.kind for pool in pools if self._up[pool.index] >= shape.gpus}
            found = tuple([kind if kind in allowed else "" for kind in self.kinds])
            self._kinds_of[shape.lane] = found
        return found

    def _rate(self, track: Track, kind: str) -> float:
        if self._beliefs.steps is not None:
            return self._beliefs.steps.steps_per_s(track.job, kind)
        gpus = track.shape.gpus
        nodes = track.shape.nodes or -(-gpus // self._width[kind])
        return self._beliefs.speeds.speed(track.job, kind, gpus, nodes)

    def rates_together(self, tracks: Sequence[Track]) -> Sequence[tuple[float, ...]]:
        """Of one job alone, or of two side by side."""
        if len(tracks) == 1:
            return [self.rates(tracks[0])]
        first, second = tracks
        return self._pair_rates((self.sort(first), self.sort(second), self.kinds), first, second)

    def sort(self, track: Track) -> str:
        """What tells how fast it is beside others; "": it can share its GPUs with nobody."""
        shape, job = track.shape, track.job
        if not shape.bare or track.pinned or not job.model or job.elastic or job.options:
            return ""
        return f"{shape.gpus} {job.model}"

    def side_by_side(self, sorts: Mapping[str, Track]) -> SideBySide:
        """Rates of all pairs of these that are known; as many GPUs each, on those of one."""
        found = {}
        for one, first in sorts.items():
            for other, second in sorts.items():
                if first.shape.gpus == second.shape.gpus:
                    rates = self._pair_rates((one, other, self.kinds), first, second)
                    if any(rates[0]):
                        found[one, other] = rates
        return found

    def _pair_rates(
        self, key: tuple[str, str, tuple[str, ...]], first: Track, second: Track
    ) -> PairRates:
        known = self._beliefs.sides
        if key not in known:
            both = [self._pair_rate(first, second, kind) for kind in self.kinds]
            known[key] = tuple([own for own, _ in both]), tuple([own for _, own in both])
        return known[key]

    def _pair_rate(self, first: Track, second: Track, kind: str) -> tuple[float, float]:
        if self._beliefs.steps is not None:
            return self._beliefs.steps.pair_steps_per_s(first.job, second.job, kind)
        parts = beside(self._beliefs.speeds, first.job, second.job, kind)
        return parts[0] * self._rate(first, kind), parts[1] * self._rate(second, kind)

    def left(self, track: Track) -> float:
        """In the same steps."""
        job = track.job
        if self._beliefs.whole_steps and job.amount is not None:
            return max(job.amount - (track.step or 0.0), 1.0)
        done_s = track.executed_by(self._view.now)
        left_s = self._beliefs.predictor.duration_s(job, self._view) - done_s
        return max(left_s if left_s > 0.0 else done_s, _LEAST_S)

    def lease_s(self, track: Track, rate: float) -> Seconds:
        """How long it has work in a round."""
        left, round_s = self.left(track), self._beliefs.round_s
        if self._beliefs.whole_steps:
            return lease_steps(rate, round_s, left) / rate
        cost_s = track.restore_s + track.save_s  # so that some of it is work
        return (min(left / rate, round_s) if rate > 0.0 else round_s) + cost_s

    def usual(self, track: Track) -> float:
        """Its rate on the kind on which durations are told."""
        job = track.job
        if self._beliefs.whole_steps and job.amount is not None:
            return job.amount / max(self._beliefs.predictor.duration_s(job, self._view), 1e-9)
        return 1.0

    def claim(self, track: Track, account: ShareAccount) -> RateClaim:
        job, now, left = track.job, self._view.now, self.left(track)
        isolated_s = account.isolated_s
        if account.alone:
            isolated_s += max(account.left - left, 0.0) / account.alone
        return RateClaim(
            job.id,
            self.gpus(track),
            self.rates(track),
            self.usual(track),
            job.weight,
            left,
            now - track.submitted_at,
            isolated_s,
            job.user,
            None if job.deadline is None else max(job.deadline - now, _LEAST_S),
            tuple(account.shares),
            self.sort(track),
        )


def prices(costs: Costs, kinds: Sequence[str]) -> tuple[float, ...]:
    """Of an hour of one GPU of each kind; none where not all are known."""
    found = tuple([costs.per_hour(kind, 1) for kind in kinds])
    return found if all(found) else ()
