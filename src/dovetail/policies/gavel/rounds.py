"""Gavel's rounds on a view: who has leases now, and what that changes of what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, final

from dovetail.core.entries import Action, Note, Resize, Wake
from dovetail.core.model import Placement, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.gavel.choosing import RoundChoice, RoundContender
from dovetail.policies.gavel.claiming import Claimants, RoundBeliefs
from dovetail.policies.gavel.ledger import Lease, RoundLedger, ledger_of, running_until
from dovetail.policies.gavel.problem import Allocation, AllocationProblem
from dovetail.policies.outlook import pool_of

# Who is chosen of the contenders, with so many GPUs of each kind to be given out.
Choose: TypeAlias = Callable[
    [RoundLedger, Sequence[RoundContender], Sequence[float]], list[RoundChoice]
]


def under_way(view: View, note: str) -> Seconds | None:
    """Until when the round goes on: until its slowest job has done its part, or none runs any more."""
    noted, running = view.notes.get(note), view.running
    if noted is None or view.now >= noted["until"]:
        return None
    return noted["until"] if any(job_id in running for job_id in noted["leases"]) else None


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

    def problem(self, prices: tuple[float, ...]) -> AllocationProblem:
        accounts, claimants = self.ledger.accounts, self.claimants
        claims = [claimants.claim(track, accounts[track.job.id]) for track in claimants.tracks]
        counts = tuple(map(float, claimants.counts))
        return AllocationProblem(claimants.kinds, counts, tuple(claims), prices, self.view.now)

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
        renewed = _Dealing(self, plan, place).deal(choose)
        self.ledger.until = running_until(self.ledger.leases.values(), self.view.now)
        note = Note(self._note, self.ledger.note())
        wake = [Wake(self.ledger.until)] if self.ledger.leases else []
        return [note, *plan.actions, *renewed, *wake]

    def lease(self, track: Track, kind: int) -> None:
        rate = self.claimants.rates(track)[kind]
        until = self.view.now + self.claimants.lease_s(track, rate)
        self.ledger.leases[track.job.id] = Lease(kind, until)

    @property
    def renews(self) -> bool:
        """Does who keeps its GPUs have to be told that it may go on?"""
        return self._beliefs.whole_steps


@final
class _Dealing:
    """Who was chosen gets GPUs; large jobs first, and nobody who can stay is moved."""

    def __init__(self, turn: RoundTurn, plan: Plan, place: Place) -> None:
        self._turn: Final = turn
        self._plan: Final = plan
        self._place: Final = place
        self._tracks: Final[dict[str, Track]] = {
            track.job.id: track for track in turn.claimants.tracks
        }
        self._free: Final = list(map(float, turn.claimants.counts))

    def deal(self, choose: Choose) -> list[Action]:
        """What tells those that stay that they may go on."""
        ledger, claimants = self._turn.ledger, self._turn.claimants
        contenders = []
        for track in claimants.tracks:
            if track.placement is not None and track.pinned:
                self._stay(track)
            else:
                able = [rate > 0.0 for rate in claimants.rates(track)]
                gpus, user = claimants.gpus(track), track.job.user
                contenders.append(RoundContender(track.job.id, gpus, able, user))
        choices = [choice for choice in choose(ledger, contenders, self._free) if choice.runs]
        ledger.choices += 1
        return self._carry_out(choices)

    def _stay(self, track: Track) -> None:
        """It cannot be made to give way."""
        assert track.placement is not None
        kind = self._kind_of(track.placement)
        self._free[kind] -= track.placement.holds
        self._turn.lease(track, kind)

    def _kind_of(self, placement: Placement) -> int:
        pool = pool_of(self._turn.view.room, placement)
        return self._turn.claimants.kinds.index(pool.kind)

    def _carry_out(self, choices: Sequence[RoundChoice]) -> list[Action]:
        wanted = {choice.job_id: choice.kind for choice in choices}
        staying: list[Action] = []
        for track in list(self._turn.view.running.values()):
            own = track.placement
            if own is None or track.job.id not in self._tracks or track.pinned:
                continue
            kind = self._kind_of(own)
            if wanted.get(track.job.id) == kind:
                del wanted[track.job.id]
                self._turn.lease(track, kind)
                staying.append(Resize(track.job.id, own))
            else:
                self._plan.stop(track)
        self._start([self._tracks[job_id] for job_id in wanted], wanted)
        if not self._turn.ledger.leases:
            self._start_any()
        return staying if self._turn.renews else []

    def _start_any(self) -> None:
        """By count there was room for those chosen, and yet there is none, or they wait no longer (a
        study has put others in their places): whoever can runs."""
        for track in self._tracks.values():
            placement = self._place(self._turn.view.room, track.shape)
            if placement is not None:
                self._plan.start_at(track, placement)
                self._turn.lease(track, self._kind_of(placement))

    def _start(self, tracks: Iterable[Track], kinds: dict[str, int]) -> None:
        for track in sorted(tracks, key=lambda track: -track.shape.gpus):
            kind, room = kinds[track.job.id], self._turn.view.room
            name = self._turn.claimants.kinds[kind]
            placement = self._place(room, track.shape.sized(track.shape.gpus, name))
            if placement is not None and pool_of(room, placement).kind == name:
                self._plan.start_at(track, placement)
                self._turn.lease(track, kind)
