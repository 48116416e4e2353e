"""ElasticFlow (ASPLOS 2023): a deadline is promised if the fewest GPUs that keep it can be found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf

from dovetail.core.entries import Action, Note, Refuse, Wake
from dovetail.core.model import Seconds
from dovetail.core.plan import Place
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.deadline.believed import (
    Beliefs,
    Family,
    could_be_done_at,
    families,
    interruption_s,
    unpromised,
    word_of,
)
from dovetail.policies.deadline.gpus_ahead import GpusAhead, Slots, all_free
from dovetail.policies.deadline.newcomers import in_turn
from dovetail.policies.deadline.shares import (
    REPAIRS,
    DueWork,
    GpuShare,
    PromisedShares,
    left_by,
    promise,
    smallest_share,
    spread,
)
from dovetail.policies.placement import consolidated
from dovetail.policies.precedence import DeadlineWord
from dovetail.policies.reallocation import with_counts
from dovetail.predict.duration import Predictor
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

_KEY = "elasticflow"  # of a job: its plan, or nothing if it was promised none
_FIRST = "elasticflow first slot"  # when it began: slots are counted from there while jobs run
_ROUNDING = 1e-6  # s


@dataclass(frozen=True, kw_only=True)
class ElasticFlow:
    """Each job gets the fewest GPUs that keep its deadline, spare ones go where they save the most
    GPU-time, and a job whose deadline cannot be promised is refused, saying what could be.

    Decides every `slot_s` if anything has happened. `refuse=false`: a job without a promise runs as well
    as it can, with those that have no deadline, on what the promised ones leave.
    """

    place: Place = consolidated
    predictor: Predictor
    speeds: SpeedPredictor = SameEverywhere()
    slot_s: Seconds = 60.0
    refuse: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.slot_s < inf:
            raise ValueError(f"slot_s={self.slot_s:g}: give 0 or a positive number")

    def decide(self, view: View) -> Sequence[Action]:
        if not view.tracks:
            return ()
        first = view.notes.get(_FIRST) if view.running else None
        if first is None or not self.slot_s:
            return list(self._decided(view, anew=True))
        slots = (view.now - first) / self.slot_s
        if abs(slots - round(slots)) * self.slot_s > _ROUNDING:
            return [Wake(first + ceil(slots) * self.slot_s)]
        return list(self._decided(view, anew=False))

    def deadline_word(self, view: View, track: Track) -> DeadlineWord | None:
        plan = _read(track) if track.notes.get(_KEY) else None
        return word_of(view, track, plan, _KEY in track.notes)

    def _decided(self, view: View, anew: bool) -> Iterator[Action]:
        if self.slot_s and anew:
            yield Note(_FIRST, view.now)
        wanted: dict[Track, int] = {}
        for family in families(view):
            yield from _Round(view, self, family).decided(wanted)
        yield from with_counts(view, self.place, wanted)


class _Round:
    """One decision about jobs that compete. A promise is a plan, kept in a note: it holds as long as
    its job gets no less than the plan says, so it is made anew only for newcomers, or when what is
    believed or the cluster has changed."""

    def __init__(self, view: View, policy: ElasticFlow, family: Family) -> None:
        self.view, self.policy, self.family = view, policy, family
        self.beliefs = Beliefs(view, policy.predictor, policy.speeds)
        self.slots = Slots(policy.slot_s)
        self.plans = {t: _read(t).rest(view.now) for t in family.tracks if t.notes.get(_KEY)}
        self.works = {t: self.beliefs.due(t, _deadline(t)) for t in self.plans}
        self.others = [track for track in family.tracks if track not in self.plans]
        self.changed: dict[Track, GpuShare] = {}
        self.could: dict[Track, Seconds] = {}  # be done by then: those for whom there was no room

    def decided(self, wanted: dict[Track, int]) -> Iterator[Action]:
        """Notes, refusals and the next wake-up; who is to have what is added to `wanted`."""
        if not self._hold():
            self._keep(list(self.plans), self._fresh(list(self.plans)).shares)
        yield from self._judge()
        yield from [Note(_KEY, _written(plan), t.job.id) for t, plan in self.changed.items()]
        tracks = [*self.plans, *self.others]
        works = [*self.works.values(), *[self.beliefs.due(track) for track in self.others]]
        counts = [plan.now for plan in self.plans.values()] + [0] * len(self.others)
        spare = self.family.gpus - sum(counts)
        counts = self._worth_it(tracks, works, counts, spread(works, counts, max(spare, 0)))
        wanted |= zip(tracks, counts, strict=True)
        changes = [when for plan in self.plans.values() for when, _ in plan.steps]
        at = min([when for when in changes if when > self.view.now], default=inf)
        if at < inf:
            yield Wake(at)

    def _hold(self) -> bool:
        """Do the plans fit into the cluster, and is everybody on time with them?"""
        return min(self._ahead().free) >= 0 and all(
            plan.does(self.works[track]) for track, plan in self.plans.items()
        )

    def _fresh(self, tracks: Sequence[Track], repairs: int = REPAIRS) -> PromisedShares:
        works = [self.works[track] for track in tracks]
        return promise(works, self.view.now, self.family.common, self.slots, repairs)

    def _keep(self, tracks: Sequence[Track], plans: Sequence[GpuShare]) -> None:
        for track, plan in zip(tracks, plans, strict=True):
            self.plans[track] = self.changed[track] = plan

    def _judge(self) -> Iterator[Action]:
        """Those with a deadline that nobody has looked at yet, in order of submission."""
        new = [t for t in self.others if t.job.deadline is not None and _KEY not in t.notes]
        if not new:
            return
        self.works |= {track: self.beliefs.due(track, _deadline(track)) for track in new}
        in_turn([track for track in new if self._is_possible(track)], self._promise)
        left = {track: self.works.pop(track) for track in new if track not in self.plans}
        refused = {track for track in left if self.policy.refuse and not track.resumed}
        self.others = [t for t in self.others if t not in self.plans and t not in refused]
        ahead = self._ahead()
        for track, work in left.items():
            done_at = self.could.get(track) or self._could_be_done_at(work, ahead)
            if track in refused:
                yield Refuse(track.job.id, unpromised(track, self.view.now, done_at))
            else:
                yield Note(_KEY, "", track.job.id)
                yield from could_be_done_at(track, done_at)

    def _promise(self, group: Sequence[Track]) -> bool:
        """All anew, the newcomers among them; or a single one in what the plans of the others leave."""
        tracks = [*self.plans, *group]
        fresh = self._fresh(tracks, REPAIRS if len(group) == 1 else 0)
        if not fresh.late:
            self._keep(tracks, fresh.shares)
            return True
        if len(group) > 1:
            return False
        ahead, track = self._ahead(), group[0]
        alone = self._fits(track, ahead)
        if alone is not None:
            self._keep(group, [alone])
        else:
            self.could[track] = self._could_be_done_at(self.works[track], ahead)
        return alone is not None

    def _is_possible(self, track: Track) -> bool:
        """Is it on time if it has all GPUs for itself?"""
        return self._fits(track, all_free(self.view.now, self.family.common)) is not None

    def _ahead(self) -> GpusAhead:
        return left_by(list(self.plans.values()), self.view.now, self.family.common)

    def _fits(self, track: Track, ahead: GpusAhead) -> GpuShare | None:
        """Its share of these GPUs, if it is on time with that."""
        if min(ahead.free) < 0:
            return None
        work = self.works[track]
        share = smallest_share(work, ahead, self.family.common, self.slots)
        return share if share.does(work) else None

    def _could_be_done_at(self, work: DueWork, ahead: GpusAhead) -> Seconds:
        if min(ahead.free) >= 0:
            return smallest_share(work, ahead, self.family.common, self.slots).done_at
        works = [*[self.works[track] for track in self.plans], work]
        return promise(works, self.view.now, self.family.common, self.slots).shares[-1].done_at

    def _worth_it(
        self,
        tracks: Sequence[Track],
        works: Sequence[DueWork],
        least: Sequence[int],
        most: Sequence[int],
    ) -> list[int]:
        """A running job grows only if that saves more time than it costs."""
        counts = list(most)
        for i, track in enumerate(tracks):
            has = 0 if track.placement is None else track.placement.gpus
            if not least[i] <= has < counts[i] or has not in works[i].counts:
                continue
            saved = works[i].left / works[i].rate(has) - works[i].left / works[i].rate(counts[i])
            if saved <= interruption_s(track):
                counts[i] = has
        return counts


def _deadline(track: Track) -> Seconds:
    return inf if track.job.deadline is None else track.job.deadline


def _written(plan: GpuShare) -> list[object]:
    return [[list(step) for step in plan.steps], plan.until, plan.done_at]


def _read(track: Track) -> GpuShare:
    steps, until, done_at = track.notes[_KEY]
    return GpuShare(tuple([(when, gpus) for when, gpus in steps]), until, done_at)
