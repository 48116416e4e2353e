"""The base of policies that are a key for a list scheduler; it explains who goes first and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from typing import ClassVar

from dovetail.core.entries import Action
from dovetail.core.orders import WaitingRow
from dovetail.core.plan import Place
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.listing import LineScheduler, ListScheduler
from dovetail.policies.placement import consolidated
from dovetail.policies.precedence import Ahead, Lineup
from dovetail.text.durations import duration_text


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A policy that is a key: a list scheduler, made once, and words for who goes first in it."""

    better: ClassVar[str] = "that the policy puts first"  # said of jobs whose key is smaller
    level: ClassVar[str] = "as good that came earlier"  # of those with the same key
    in_seconds: ClassVar[bool] = False  # is the key a number of seconds that people understand?
    place: Place = consolidated

    @cached_property
    def scheduler(self) -> ListScheduler | LineScheduler:
        raise NotImplementedError(f"{type(self).__name__} names no scheduler")

    @cached_property
    def decide(self) -> Callable[[View], Iterable[Action]]:
        return self.scheduler.decide  # without a detour, since it is called at every event

    @property
    def blocks(self) -> bool:
        return self.scheduler.strict

    def ahead(self, view: View, track: Track, waiting: Sequence[Track]) -> Sequence[Ahead]:
        key = self.scheduler.key
        own, tie = key.waiting(track, view)
        rows = [(*key.waiting(t, view), t) for t in waiting if t is not track]
        before = sorted([row for row in rows if row[:2] < (own, tie)], key=itemgetter(0, 1))
        if self.better == self.level:
            return [Ahead([t for _, _, t in before], self.better)]
        better = [t for smaller, _, t in before if smaller < own]
        level = [t for equal, _, t in before if equal == own]
        detail = ""
        if better and self.in_seconds:
            detail = (
                f"{duration_text(before[0][0])} against {duration_text(own)}, by {self._basis()}"
            )
        return [Ahead(better, self.better, detail), Ahead(level, self.level)]

    def _basis(self) -> str:
        """On what the durations rest that it is told."""
        source = getattr(getattr(self, "predictor", None), "source", None)
        return source() if source is not None else "what is known of them"

    def lineup(self, view: View) -> Lineup:
        return Lineup(partial(_in_order, self.scheduler.line(view)))


def _in_order(rows: Iterable[WaitingRow]) -> list[Track]:
    """Rows that are not stale, sorted."""
    return [row[3] for row in sorted([r for r in rows if r[3].turn == r[2]], key=itemgetter(0, 1))]
