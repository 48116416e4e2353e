"""Policies that put two jobs on one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import final

from dovetail.core.entries import Action, Preempt, Resize, Start, Wake
from dovetail.core.model import WHOLE_GPU, Placement, Seconds, Slice
from dovetail.core.orders import Order, OrderBy, WaitingRow
from dovetail.core.plan import Place
from dovetail.core.room import Room
from dovetail.core.state import ENDS, PARKS, RUNS, WAITS, View
from dovetail.core.track import Phase, Track
from dovetail.policies.keys import BySubmission
from dovetail.policies.placement import consolidated
from dovetail.policies.queueing import RoundRobin

_HALF = WHOLE_GPU // 2


@dataclass(frozen=True, kw_only=True)
class Gandiva:
    """Time slices; pairs of equal gangs packed on the same GPUs while that pays; migration.

    `threshold`: a pair stays packed while its two speeds sum up to at least this.
    """

    place: Place = consolidated
    slice_s: Seconds = 60.0
    threshold: float = 1.0
    pack: bool = True
    migrate: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.slice_s > 0:
            raise ValueError(f"slice_s={self.slice_s:g}: give a positive number of seconds")
        if not self.threshold >= 0:
            raise ValueError(f"threshold={self.threshold:g}: give a sum of two speeds, such as 1.0")

    @cached_property
    def _slices(self) -> RoundRobin:
        return RoundRobin(place=self.place, slice_s=self.slice_s)

    @cached_property
    def _packed(self) -> _PackedSpec:
        return _PackedSpec()

    @cached_property
    def _waiting(self) -> OrderBy:
        return OrderBy(BySubmission(), lanes=True, preemptive=False)

    def decide(self, view: View) -> Sequence[Action]:
        if view.room.shares:
            changes = self._unpack(view)
            if changes:
                # These change what is free: carry them out, then decide again at the same instant.
                return [*changes, Wake(view.now)]
        actions = self._slices.decide(view)
        if any(not isinstance(action, Wake) for action in actions):
            # Whoever still waits may be packed on what has just started: look again at once.
            return [*actions, Wake(view.now)] if self.pack else actions
        if view.waiting_count:
            pairs = self._pairs(view) if self.pack else []
            return [*actions, *pairs, Wake(view.now)] if pairs else actions  # see how they do
        return self._migration(view) if self.migrate else ()

    # ------------------------------------------------------------------------------------- packing

    def _unpack(self, view: View) -> list[Action]:
        """Give whole GPUs back to those that are alone, and part pairs that hinder each other."""
        packed = view.index(self._packed)
        assert isinstance(packed, _Packed)
        actions: list[Action] = []
        for slices, mates in packed.changed():
            rest = Placement(slices, WHOLE_GPU - _HALF)
            measured = all(track.phase is Phase.RUNNING for track in mates)
            if len(mates) == 2 and measured and self._pays(mates):
                packed.is_settled(slices)
            elif len(mates) == 2 and measured:
                actions += [Preempt(mates[1].job.id), Resize(mates[0].job.id, Placement(slices))]
            elif len(mates) == 1 and view.room.is_free(rest):
                actions.append(Resize(mates[0].job.id, Placement(slices)))
        return actions

    def _pays(self, mates: Sequence[Track]) -> bool:
        return sum(track.speed for track in mates) >= self.threshold - 1e-9

    def _pairs(self, view: View) -> list[Action]:
        """Put waiting jobs on the GPUs of running ones of the same size, chosen by chance."""
        order = view.index(self._waiting)
        assert isinstance(order, Order)
        hosts: dict[int, list[Track]] = {}
        for track in view.running.values():
            placement = track.placement
            assert placement is not None
            if (
                placement.share == WHOLE_GPU
                and track.shape.plain
                and _all_open(view.room, placement)
            ):
                hosts.setdefault(track.shape.lane, []).append(track)
        chance = Random(f"{self.seed}/{view.now!r}")
        actions: list[Action] = []
        for head in sorted(order.heads()):
            row: WaitingRow | None = head
            partners = hosts.get(head[3].shape.lane, [])
            while row is not None and partners and row[3].shape.plain:
                if row[3].resumed and row[3].waiting_since == view.now:
                    row = order.pass_over(row[3])  # it has just made way: a pair that did not pay?
                    continue
                host = partners.pop(chance.randrange(len(partners)))
                assert host.placement is not None
                shared = Placement(host.placement.slices, _HALF)
                actions += [Resize(host.job.id, shared), Start(row[3].job.id, shared)]
                row = order.pass_over(row[3])
        return actions

    # ----------------------------------------------------------------------------------- migration

    def _migration(self, view: View) -> Sequence[Action]:
        """Move one job that is spread over more nodes than it needs, if it fits on fewer now."""
        for track in view.running.values():
            placement = track.placement
            if placement is None or len(placement.slices) < 2 or not track.shape.plain:
                continue
            better = self.place(view.room, track.shape)
            if better is not None and len(better.slices) < len(placement.slices):
                return [Preempt(track.job.id), Start(track.job.id, better)]
        return ()


@final
class _Packed:
    """Who shares which GPUs because we put them there, and where that has changed."""

    def __init__(self) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self._mates: dict[tuple[Slice, ...], list[Track]] = {}
        self._place_of: dict[int, tuple[Slice, ...]] = {}  # by sequence
        self._changed: dict[tuple[Slice, ...], None] = {}  # a dict, for its order

    def waits(self, track: Track) -> None:
        self._leave(track)

    def ends(self, track: Track) -> None:
        self._leave(track)

    def parks(self, track: Track) -> None:
        self.ends(track)  # for what is kept here it is as good as gone

    def settle(self) -> None:
        """Nothing is ever tried out."""

    def runs(self, track: Track) -> None:
        placement = track.placement
        assert placement is not None
        if placement.share >= track.job.share:
            self._leave(track)
            return
        slices = placement.slices
        if self._place_of.get(track.sequence) != slices:
            self._leave(track)
            self._place_of[track.sequence] = slices
            self._mates.setdefault(slices, []).append(track)
        self._changed[slices] = None

    def _leave(self, track: Track) -> None:
        slices = self._place_of.pop(track.sequence, None)
        if slices is not None:
            self._changed[slices] = None
            mates = self._mates[slices]
            mates.remove(track)
            if not mates:
                del self._mates[slices]
                del self._changed[slices]

    def changed(self) -> list[tuple[tuple[Slice, ...], list[Track]]]:
        """The places to look at; they stay until they are found in order."""
        return [(slices, self._mates[slices]) for slices in self._changed]

    def is_settled(self, slices: tuple[Slice, ...]) -> None:
        del self._changed[slices]


@final
class _PackedSpec:
    def build(self, view: View) -> _Packed:
        return _Packed()


def _all_open(room: Room, placement: Placement) -> bool:
    return all(room.open[piece.node] for piece in placement.slices)
