"""Who was chosen for a round gets GPUs; large jobs first, and nobody who can stay is moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, final

from dovetail.core.entries import Action, Resize
from dovetail.core.model import WHOLE_GPU, Placement, Slice
from dovetail.core.plan import Place, Plan
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.gavel.choosing import RoundChoice, RoundContender, Together
from dovetail.policies.gavel.claiming import Claimants
from dovetail.policies.gavel.ledger import RoundLedger
from dovetail.policies.gavel.problem import members
from dovetail.policies.outlook import pool_of

# Who is chosen of the contenders, with so many GPUs of each kind to be given out.
Choose: TypeAlias = Callable[
    [RoundLedger, Sequence[RoundContender], Sequence[float], Together], list[RoundChoice]
]
Homes: TypeAlias = dict[str, tuple[Slice, ...]]  # by job or pair: the GPUs that it keeps
_HALF: Final = WHOLE_GPU // 2  # of a GPU, for each of a pair


class DealtRound(Protocol):
    """What is dealt out, and for whom."""

    @property
    def view(self) -> View: ...

    @property
    def ledger(self) -> RoundLedger: ...

    @property
    def claimants(self) -> Claimants: ...

    @property
    def renews(self) -> bool:
        """Does who keeps its GPUs have to be told that it may go on?"""

    def lease(self, name: str, tracks: Sequence[Track], kind: int) -> None: ...


@final
class Dealing:
    """One round's GPUs."""

    def __init__(self, turn: DealtRound, plan: Plan, place: Place) -> None:
        self._turn: Final = turn
        self._plan: Final = plan
        self._place: Final = place
        self._tracks: Final[dict[str, Track]] = {
            track.job.id: track for track in turn.claimants.tracks
        }
        self._free: Final = list(map(float, turn.claimants.counts))

    def deal(self, choose: Choose) -> list[Action]:
        """What tells those that stay that they may go on."""
        contenders: dict[str, RoundContender] = {}
        claimants, younger = self._turn.claimants, self._pairs()
        for track in claimants.tracks:
            job_id = track.job.id
            if track.placement is not None and track.pinned:
                self._stay(track)
                continue
            able = [rate > 0.0 for rate in claimants.rates(track)]
            own = RoundContender(job_id, claimants.gpus(track), able, track.job.user)
            contenders[job_id] = own
            for name in younger.get(job_id, ()):
                if both := self._pair(name, contenders):
                    contenders[name] = both
        ledger = self._turn.ledger
        chosen = choose(ledger, list(contenders.values()), self._free, self._together)
        ledger.choices += 1
        return self._carry_out([choice for choice in chosen if choice.runs])

    def _pairs(self) -> Mapping[str, list[str]]:
        """By their second job, which came later."""
        found: dict[str, list[str]] = {}
        if pairs := self._turn.ledger.pairs:
            order = {job_id: number for number, job_id in enumerate(self._tracks)}
            for name in sorted(pairs, key=lambda name: order[members(name)[0]]):
                found.setdefault(members(name)[1], []).append(name)
        return found

    def _pair(self, name: str, contenders: Mapping[str, RoundContender]) -> RoundContender | None:
        """None: one of them stays where it is, or is alone from now on."""
        first, second = members(name)
        if first not in contenders:
            return None
        able = [both > 0.0 for both in self._together(first, second)]
        return contenders[first]._replace(name=name, able=able, jobs=(first, second))

    def _together(self, first: str, second: str) -> Sequence[float]:
        tracks = [self._tracks[first], self._tracks[second]]
        claimants = self._turn.claimants
        if not all([claimants.sort(track) for track in tracks]):
            return [0.0] * len(claimants.kinds)
        found: list[float] = []
        alone = [claimants.rates(track) for track in tracks]
        for kind, (one, other) in enumerate(zip(*claimants.rates_together(tracks), strict=True)):
            can = one > 0.0 and other > 0.0 and alone[0][kind] > 0.0 and alone[1][kind] > 0.0
            found.append(one / alone[0][kind] + other / alone[1][kind] if can else 0.0)
        return found

    def _stay(self, track: Track) -> None:
        """It cannot be made to give way."""
        assert track.placement is not None
        kind = self._kind_of(track.placement)
        self._free[kind] -= track.placement.holds
        self._turn.lease(track.job.id, [track], kind)

    def _kind_of(self, placement: Placement) -> int:
        pool = pool_of(self._turn.view.room, placement)
        return self._turn.claimants.kinds.index(pool.kind)

    def _carry_out(self, choices: Sequence[RoundChoice]) -> list[Action]:
        wanted = {job_id: choice for choice in choices for job_id in members(choice.name)}
        renewed: list[Action] = []
        homes: Homes = {}
        for track, own in self._who_stays(wanted, homes):
            choice = wanted.pop(track.job.id)
            share = self._share(track, choice.name)
            if share == own.share:
                renewed.append(Resize(track.job.id, own))
            else:
                self._plan.resize(track, Placement(own.slices, share, own.limit))
            self._lease(choice)
        starting: dict[RoundChoice, list[Track]] = {}
        for job_id, choice in wanted.items():
            starting.setdefault(choice, []).append(self._tracks[job_id])
        for choice in sorted(starting, key=lambda choice: -starting[choice][0].shape.gpus):
            self._start(choice, starting[choice], homes.get(choice.name))
        if not self._turn.ledger.leases:
            self._start_any()
        return renewed if self._turn.renews else []

    def _who_stays(
        self, wanted: Mapping[str, RoundChoice], homes: Homes
    ) -> list[tuple[Track, Placement]]:
        """On the GPUs it has, perhaps with another beside it or with none any more; the others are
        stopped. A pair has one home, and GPUs that two had together stay with one of them."""
        staying: list[tuple[Track, Placement]] = []
        owners: dict[object, str] = {}
        for track in list(self._turn.view.running.values()):
            own, choice = track.placement, wanted.get(track.job.id)
            if own is None or track.job.id not in self._tracks or track.pinned:
                continue
            stays = choice is not None and choice.kind == self._kind_of(own)
            if stays and choice is not None:
                spot = own.slices if track.job.share == WHOLE_GPU else track.job.id
                stays = homes.get(choice.name, own.slices) == own.slices
                stays = stays and owners.setdefault(spot, choice.name) == choice.name
            if stays and choice is not None:
                homes[choice.name] = own.slices
                staying.append((track, own))
            else:
                self._plan.stop(track)
        return staying

    def _share(self, track: Track, name: str) -> int:
        return _HALF if len(members(name)) > 1 else track.shape.share

    def _lease(self, choice: RoundChoice) -> None:
        if choice.name not in self._turn.ledger.leases:
            tracks = [self._tracks[job_id] for job_id in members(choice.name)]
            self._turn.lease(choice.name, tracks, choice.kind)

    def _start(
        self, choice: RoundChoice, tracks: Sequence[Track], home: tuple[Slice, ...] | None
    ) -> None:
        room, name = self._turn.view.room, self._turn.claimants.kinds[choice.kind]
        first = tracks[0]
        if home is None:
            placement = self._place(room, first.shape.sized(first.shape.gpus, name))
            if placement is None or pool_of(room, placement).kind != name:
                return
        else:
            placement = Placement(home)
            if not room.is_open_at(placement):
                return
        for track in tracks:
            share = self._share(track, choice.name)
            where = placement if share == placement.share else Placement(placement.slices, share)
            self._plan.start_at(track, where)
        self._lease(choice)

    def _start_any(self) -> None:
        """By count there was room for those chosen, and yet there is none, or they wait no longer (a
        study has put others in their places): whoever can runs."""
        for track in self._tracks.values():
            placement = self._place(self._turn.view.room, track.shape)
            if placement is not None:
                self._plan.start_at(track, placement)
                self._turn.lease(track.job.id, [track], self._kind_of(placement))
