"""The first-principle methods that ANDREAS is compared with: a setting chosen once, never preempted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.core.entries import Action
from dovetail.core.plan import Plan
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.andreas.drafting import Books, ProblemDraft, actions_of
from dovetail.policies.andreas.filling import filled
from dovetail.policies.andreas.problem import Demand, NodePool, Problem
from dovetail.policies.andreas.searching import Replanning


@dataclass(frozen=True, kw_only=True)
class Baseline(Replanning):
    """What the three share. Of equal nodes the one that was used last is taken first, until a job on
    that kind of node ends: then again the first by its id, as the authors have it."""

    def key(self, demand: Demand, track: Track) -> float:
        raise NotImplementedError(f"{type(self).__name__} names no order")

    def decide(self, view: View) -> Sequence[Action]:
        books = self.books.of(view)
        notes = books.paces.notes()
        if not view.waiting_count:
            return notes
        draft = ProblemDraft(view, books, movable=False)
        problem = draft.problem
        pools = [
            in_order_of_use(view, books, number, pool) for number, pool in enumerate(problem.pools)
        ]
        keys = [self.key(d, t) for d, t in zip(problem.demands, draft.tracks, strict=True)]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        again = Problem(view.now, problem.demands, pools)
        return [*notes, *actions_of(draft, filled(again, order), Plan(view, self.place))]


def in_order_of_use(view: View, books: Books, number: int, pool: NodePool) -> NodePool:
    """The nodes of a pool in the order in which they are tried among equally full ones."""
    since = books.left_at.get(number, 0.0)
    last_use = {}
    for use, track in enumerate(view.running.values()):
        if track.placement is not None and track.started_at >= since:
            for piece in track.placement.slices:
                last_use[piece.node] = use
    rows = list(zip(pool.nodes, pool.free, pool.kept, strict=True))
    rows.sort(key=lambda row: -last_use.get(row[0], -1))
    nodes, free, kept = ([row[i] for row in rows] for i in range(3))
    return NodePool(pool.kind, nodes, free, kept, pool.per_hour, pool.factor)


@dataclass(frozen=True, kw_only=True)
class AndreasFifo(Baseline):
    """ANDREAS' first in, first out: the cheapest setting that meets the deadline, never changed."""

    def key(self, demand: Demand, track: Track) -> float:
        return track.submitted_at


@dataclass(frozen=True, kw_only=True)
class AndreasEdf(Baseline):
    """ANDREAS' earliest deadline first: the cheapest setting that meets it, never changed."""

    def key(self, demand: Demand, track: Track) -> float:
        return demand.deadline


@dataclass(frozen=True, kw_only=True)
class AndreasPriority(Baseline):
    """ANDREAS' priority scheduling: what is dearest when late goes first, never changed."""

    def key(self, demand: Demand, track: Track) -> float:
        return -demand.late_per_s
