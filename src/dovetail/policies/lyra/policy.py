"""Lyra (Li et al., EuroSys 2023): training has what services leave, and gives it back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, ClassVar

from dovetail.core.entries import Action, Note, Wake
from dovetail.core.loop import Policy
from dovetail.core.model import Seconds
from dovetail.core.plan import Place
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.elastic.claims import why_no_more
from dovetail.policies.lyra.extras import with_extras
from dovetail.policies.lyra.followed import FollowedBy, FollowedJobs
from dovetail.policies.lyra.reclaiming import Reclaiming
from dovetail.policies.placement import consolidated
from dovetail.policies.queueing import SjfSkip
from dovetail.policies.rounds import turn
from dovetail.predict.duration import HistoryMean
from dovetail.predict.left import LeftPredictor, LessDone
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Lyra:
    """Idle GPUs of services are lent to training and taken back where fewest jobs stop; elastic jobs
    shrink first, and grow on what nobody else can use.

    Replicas are jobs of `priority` or more that are not preemptible. They start at once where there is
    room; what is lent is taken back every `round_s`. `policy` decides among the training jobs.
    """

    usual_policy: ClassVar[str] = "sjf-skip"
    policy: Policy = SjfSkip(predictor=HistoryMean())
    place: Place = consolidated
    speeds: SpeedPredictor = SameEverywhere()
    left: LeftPredictor = LessDone(HistoryMean())
    priority: float = 1.0
    round_s: float = 300.0
    elastic: bool = True

    def __post_init__(self) -> None:
        if not self.round_s > 0:
            raise ValueError(f"round_s={self.round_s:g}: give more than 0")

    def __getattr__(self, name: str) -> Any:
        """How it explains itself: training jobs go in the order of their policy."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.policy, name)

    @cached_property
    def _followed(self) -> FollowedBy:
        return FollowedBy(self.is_replica)

    def _followed_in(self, view: View) -> FollowedJobs:
        followed = view.index(self._followed)
        assert isinstance(followed, FollowedJobs)
        return followed

    def is_replica(self, track: Track) -> bool:
        return not track.job.preemptible and track.job.priority >= self.priority

    def decide(self, view: View) -> Sequence[Action]:
        served, wakes = self._serve(view)
        if served:
            return [*served, Wake(view.now)]  # then training decides, on what is left
        trained = list(self.policy.decide(view))
        if any(not isinstance(action, Wake | Note) for action in trained):
            return [*trained, *wakes, *self._again(view)]
        view.settle()
        return [*trained, *wakes, *self._grow(view)]

    def _serve(self, view: View) -> tuple[Sequence[Action], Sequence[Wake]]:
        """Start the replicas that wait, and when to take GPUs back for those that cannot yet."""
        followed = self._followed_in(view)
        if not followed.replicas:
            return (), ()
        training = [
            track
            for track in view.running.values()
            if not track.pinned and not self.is_replica(track)
        ]
        reclaiming = Reclaiming(view, self.place, training)
        later = []
        for track in followed.in_order():
            due = self._round_after(track.waiting_since)
            reclaiming.start(track, view.now >= due)
            if view.now < due:
                later.append(Wake(due))
        view_actions = reclaiming.actions
        if not view_actions:
            view.settle()
        return view_actions, later

    def _round_after(self, at: Seconds) -> Seconds:
        return ceil(at / self.round_s - _ROUNDING) * self.round_s

    def _again(self, view: View) -> Iterable[Wake]:
        """Those who grow decide when those who wait have been started."""
        return (Wake(view.now),) if self._may_grow() else ()

    def _may_grow(self) -> bool:
        return self.elastic and not hasattr(self.policy, "why_no_more")

    def _grow(self, view: View) -> Sequence[Action]:
        if not self._may_grow() or not self._followed_in(view).elastic:
            return ()
        running = [t for t in view.running.values() if not self.is_replica(t) and t.job.elastic]
        due, notes = turn(view, "lyra", self.round_s)
        if not due:
            return notes
        waiting = [t for t in view.tracks.values() if t.placement is None and not t.barred]
        changed = with_extras(view, self.place, self.speeds, self.left, running, waiting)
        return [*changed, *notes, *([Wake(view.now)] if changed else [])]

    def why_no_more(self, view: View, track: Track) -> str:
        if hasattr(self.policy, "why_no_more"):
            told: str = self.policy.why_no_more(view, track)
            return told
        return why_no_more(view, track, self.speeds, self.left.left_s(track, view))
