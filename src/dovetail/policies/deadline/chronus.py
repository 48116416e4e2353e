"""Chronus (SoCC 2021): deadlines are promised in leases; what they leave goes to the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from dovetail.core.entries import Action, Note, Refuse, Wake
from dovetail.core.model import Seconds
from dovetail.core.plan import Place
from dovetail.core.track import Phase, Track
from dovetail.core.view import View
from dovetail.policies.deadline.believed import Beliefs, Family, families, interruption_s
from dovetail.policies.deadline.leases import (
    Claim,
    claim_of,
    first_lease,
    latest,
    lease_at,
    packed,
    soonest,
)
from dovetail.policies.deadline.newcomers import in_turn
from dovetail.policies.placement import consolidated
from dovetail.policies.precedence import DeadlineWord
from dovetail.policies.reallocation import is_fixed, with_counts
from dovetail.predict.duration import Predictor
from dovetail.predict.speed import SameEverywhere, SpeedPredictor
from dovetail.text.durations import duration_text

_KEY = "chronus"
_SECOND: list[int] = []  # leases of a job that was promised none


@dataclass(frozen=True, kw_only=True)
class Chronus:
    """A job with a deadline is promised leases (of `lease_s`) before it, the latest there are, or is
    refused; at the start of a lease its owners run, then the jobs with the least predicted GPU-time
    left, and nobody is preempted before it ends. Who outlives its prediction loses its promise.

    `refuse=false`: a job that is promised none runs like one without a deadline.
    """

    place: Place = consolidated
    predictor: Predictor
    speeds: SpeedPredictor = SameEverywhere()
    lease_s: Seconds = 3600.0
    refuse: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.lease_s < inf:
            raise ValueError(f"lease_s={self.lease_s:g}: give a positive number")

    def decide(self, view: View) -> Sequence[Action]:
        return list(self._decided(view)) if view.tracks else ()

    def deadline_word(self, view: View, track: Track) -> DeadlineWord | None:
        if track.job.deadline is None:
            return None
        leases = track.notes.get(_KEY)
        if leases:
            gpus = track.shape.gpus if track.placement is None else track.placement.gpus
            return DeadlineWord(True, (max(leases) + 1) * self.lease_s, gpus)
        if track.phase is Phase.REFUSED:
            return DeadlineWord(False, why=track.reason)
        if leases is None:
            return DeadlineWord(None)
        return DeadlineWord(False, why="it owns no lease before its deadline; give a later one")

    def _decided(self, view: View) -> Iterator[Action]:
        wanted: dict[Track, int] = {}
        for family in families(view):
            yield from _Turn(view, self, family).decided(wanted)
        yield from with_counts(view, self.place, wanted)
        yield Wake((lease_at(view.now, self.lease_s) + 1) * self.lease_s)


class _Turn:
    """One decision about jobs that compete."""

    def __init__(self, view: View, policy: Chronus, family: Family) -> None:
        self.view, self.policy, self.family = view, policy, family
        self.beliefs = Beliefs(view, policy.predictor, policy.speeds)
        self.tracks = family.tracks
        self.leases = {t: tuple(t.notes[_KEY]) for t in self.tracks if _KEY in t.notes}
        self.now_lease = lease_at(view.now, policy.lease_s)
        self.first = first_lease(view.now, policy.lease_s)
        self.notes: dict[Track, tuple[int, ...]] = {}  # that changed
        self.claims: dict[Track, Claim] = {}
        self.reasons: dict[Track, str] = {}  # of those for whom there was no room

    def decided(self, wanted: dict[Track, int]) -> Iterator[Action]:
        """Notes and refusals; who is to have what is added to `wanted`."""
        self._drop_what_is_not_needed()
        yield from self._judge()
        yield from [Note(_KEY, list(own), t.job.id) for t, own in self.notes.items()]
        refused = {t for t in self.tracks if t not in self.leases and t.job.deadline is not None}
        wanted |= self._wanted([t for t in self.tracks if t not in refused])

    # ------------------------------------------------------------------------------- who is promised

    def _keep(self, track: Track, leases: tuple[int, ...]) -> None:
        if list(leases) != track.notes.get(_KEY):
            self.notes[track] = leases
        self.leases[track] = leases

    def _drop_what_is_not_needed(self) -> None:
        """Leases that are over, those of work that was done before its time, and those of a job that
        has outlived its prediction."""
        for track, own in list(self.leases.items()):
            ahead = tuple([lease for lease in own if lease >= self.now_lease])
            if ahead and self.beliefs.has_outlived(track):
                self._keep(track, tuple(_SECOND))
            elif ahead:
                running = self.now_lease in ahead and self.first > self.now_lease
                needed = self._claim(track).leases + running
                self._keep(track, ahead[-needed:] if needed < len(ahead) else ahead)

    def _claim(self, track: Track) -> Claim:
        """Of what will be left at the next start of a lease."""
        found = self.claims.get(track)
        if found is None:
            found = self.claims[track] = self._new_claim(track)
        return found

    def _new_claim(self, track: Track) -> Claim:
        policy, job = self.policy, track.job
        speed = self.beliefs.speed(track, self._gpus(track)) or 1.0
        left = self.beliefs.left_s(track) / speed
        if track.placement is not None and self.first > self.now_lease:
            left = max(left - (self.first * policy.lease_s - self.view.now), 0.0)
        useful = max(policy.lease_s - interruption_s(track), policy.lease_s / 2)
        deadline = inf if job.deadline is None else job.deadline
        claim = claim_of(left, deadline, self._gpus(track), useful)
        before = lease_at(deadline, policy.lease_s) if deadline < inf else -1
        return Claim(claim.leases, claim.gpus, before)

    def _gpus(self, track: Track) -> int:
        return track.shape.gpus if track.placement is None else track.placement.gpus

    def _judge(self) -> Iterator[Action]:
        """New jobs with a deadline, in order of submission."""
        total = self.family.common - sum(
            self._gpus(t) for t in self.tracks if is_fixed(t) and not self.leases.get(t)
        )
        new = [t for t in self.tracks if t.job.deadline is not None and t not in self.leases]
        able = [track for track in new if self._is_possible(track, total)]
        in_turn(able, lambda group: self._promise(group, total))
        used = self._used()
        for track in [track for track in new if track not in self.leases]:
            if self.policy.refuse and not track.resumed:
                reason = self.reasons.get(track) or self._reason(track, total, used)
                yield Refuse(track.job.id, reason)
            else:
                self._keep(track, tuple(_SECOND))

    def _is_possible(self, track: Track, total: int) -> bool:
        """Is it on time if nobody else has a lease?"""
        return latest(self._claim(track), self.first, total, {}) is not None

    def _promise(self, group: Sequence[Track], total: int) -> bool:
        """All anew, the new ones among them; or a single one in what the others leave."""
        owners = [t for t, own in self.leases.items() if any(x >= self.first for x in own)]
        tracks = [*owners, *group]
        found = packed([self._claim(t) for t in tracks], self.first, total)
        if found is not None:
            for owner, leases in zip(tracks, found, strict=True):
                held = self.now_lease in self.leases.get(owner, ()) and self.first > self.now_lease
                self._keep(owner, (self.now_lease, *leases) if held else leases)
            return True
        if len(group) > 1:
            return False
        track, used = group[0], self._used()
        alone = latest(self._claim(track), self.first, total, used)
        if alone is not None:
            self._keep(track, alone)
        else:
            self.reasons[track] = self._reason(track, total, used)
        return alone is not None

    def _used(self) -> Counter[int]:
        used: Counter[int] = Counter()
        for track, own in self.leases.items():
            for lease in own:
                used[lease] += self._gpus(track)
        return used

    def _reason(self, track: Track, total: int, used: Mapping[int, int]) -> str:
        now, deadline = self.view.now, track.job.deadline
        assert deadline is not None
        claim = self._claim(track)
        if claim.gpus > total:
            return f"no {claim.gpus} GPUs can be promised to it; ask for {total} or fewer"
        by = soonest(claim, self.first, total, used) * self.policy.lease_s
        return (
            f"its deadline in {duration_text(max(deadline - now, 0.0))} cannot be promised: leases of "
            f"{claim.gpus} GPUs are free to have it done in {duration_text(by - now)}; give a deadline "
            "no earlier than that, or none"
        )

    # ----------------------------------------------------------------------------------- who runs now

    def _wanted(self, tracks: Sequence[Track]) -> dict[Track, int]:
        """Owners of this lease, then the others; whoever runs goes on until the lease is over."""
        order = sorted(tracks, key=self._order)
        free, wanted = self.family.gpus, dict[Track, int]()
        for track in order:
            gpus = self._gpus(track)
            if gpus <= free:
                free -= gpus
                wanted[track] = gpus
        return wanted

    def _order(self, track: Track) -> tuple[int, float, int]:
        owns = self.now_lease in self.leases.get(track, ())
        begins = self.first == self.now_lease
        if is_fixed(track) or (track.placement is not None and not begins):
            return 0, 0.0, track.sequence
        left = self.beliefs.left_s(track) * self._gpus(track)
        early = bool(self.leases.get(track))
        return 1 if owns else 3 if early else 2, left, track.sequence
