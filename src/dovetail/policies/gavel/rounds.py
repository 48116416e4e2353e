"""Gavel's rounds on a view: who has leases now, and what that changes of what runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, final

from dovetail.core.entries import Action, Note, Wake
from dovetail.core.model import Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.gavel.beliefs import RoundBeliefs
from dovetail.policies.gavel.claiming import Claimants
from dovetail.policies.gavel.dealing import Choose, Dealing
from dovetail.policies.gavel.ledger import Lease, ledger_of, running_until
from dovetail.policies.gavel.problem import Allocation, AllocationProblem, members


def under_way(view: View, note: str) -> Seconds | None:
    """Until when the round goes on: until its slowest job has done its part, or none runs any more."""
    noted, running = view.notes.get(note), view.running
    if noted is None or view.now >= noted["until"]:
        return None
    at_work = any([job_id in running for name in noted["leases"] for job_id in members(name)])
    return noted["until"] if at_work else None


def started_without_gpus(view: View, plan: Plan) -> None:
    """Who needs no GPU waits for no round."""
    if view.waiting_count:
        for track in view.tracks.values():
            if track.placement is None and not track.barred and not track.shape.gpus:
                plan.start(track)


@final
class RoundTurn:
    """Between two rounds: the ledger as noted, brought up to now."""

    def __init__(self, view: View, beliefs: RoundBeliefs, note: str) -> None:
        self.view: Final = view
        self.claimants: Final = Claimants(view, beliefs)
        self._beliefs: Final = beliefs
        self._note: Final = note
        self.ledger: Final = ledger_of(view.notes.get(note), self.claimants.kinds, beliefs.round_s)
        self.ledger.book(view.now)
        self.ledger.meet([track.job.id for track in self.claimants.tracks])

    def is_due(self, least_s: float) -> bool:
        """Are shares to be worked out anew? Where nobody runs, nobody is to wait for that."""
        if not self.claimants.tracks or not any(self.claimants.counts):
            return False
        held = any(track.placement is not None for track in self.claimants.tracks)
        return self.ledger.is_due(self.view.now, least_s) or (self.ledger.changed and not held)

    def problem(self, prices: tuple[float, ...], packs: bool = False) -> AllocationProblem:
        accounts, claimants = self.ledger.accounts, self.claimants
        claims = [claimants.claim(track, accounts[track.job.id]) for track in claimants.tracks]
        counts = tuple(map(float, claimants.counts))
        problem = AllocationProblem(claimants.kinds, counts, tuple(claims), prices, self.view.now)
        if not packs:
            return problem
        sorts = {own.sort: t for own, t in zip(claims, claimants.tracks, strict=True) if own.sort}
        side_by_side = claimants.side_by_side(sorts)
        return replace(problem, side_by_side=side_by_side, paired=tuple(self.ledger.pairs))

    def take(self, found: Allocation) -> None:
        """New shares hold from now on."""
        for job_id, standing in found.standings.items():
            account = self.ledger.accounts.get(job_id)
            if account is not None:
                account.left, account.alone, account.isolated_s = standing
        self.ledger.reset(self.view.now, found.shares)

    def actions(self, choose: Choose, place: Place) -> list[Action]:
        """The next round."""
        plan = Plan(self.view, place)
        started_without_gpus(self.view, plan)
        if not self.claimants.tracks and self.view.notes.get(self._note) is None:
            return plan.actions
        renewed = Dealing(self, plan, place).deal(choose)
        self.ledger.until = running_until(self.ledger.leases.values(), self.view.now)
        note = Note(self._note, self.ledger.note())
        wake = [Wake(self.ledger.until)] if self.ledger.leases else []
        return [note, *plan.actions, *renewed, *wake]

    def lease(self, name: str, tracks: Sequence[Track], kind: int) -> None:
        """A pair's is over when both have done their part."""
        rates = self.claimants.rates_together(tracks)
        spans_s = [
            self.claimants.lease_s(t, own[kind]) for t, own in zip(tracks, rates, strict=True)
        ]
        self.ledger.leases[name] = Lease(kind, self.view.now + max(spans_s))

    @property
    def renews(self) -> bool:
        """Does who keeps its GPUs have to be told that it may go on?"""
        return self._beliefs.whole_steps
