"""The pair scheduler: lets another scheduler give out turns, and packs whoever is left over."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from random import Random
from typing import Final, final

from dovetail.core.entries import Action, Preempt, Resize, Start, Wake
from dovetail.core.model import WHOLE_GPU, Placement
from dovetail.core.plan import Place
from dovetail.core.room import Room
from dovetail.core.track import RUNNING, Track
from dovetail.core.view import View
from dovetail.policies.listing import AT_ONCE, ListScheduler
from dovetail.policies.packing.partners import Partners, PartnersBy

_HALF: Final = WHOLE_GPU // 2


@final
class PairScheduler:
    """Two jobs of one size share the GPUs of one while they do more there than one alone.

    pack: make pairs while jobs wait; migrate: when nobody waits, gather a job that is spread out.
    """

    def __init__(
        self,
        turns: ListScheduler,
        place: Place,
        partners: PartnersBy,
        *,
        pack: bool,
        migrate: bool,
        seed: int,
    ) -> None:
        self._turns: Final = turns
        self._place: Final = place
        self._spec: Final = partners
        self._pack: Final = pack
        self._migrate: Final = migrate
        self._seed: Final = seed

    def decide(self, view: View) -> Sequence[Action]:
        partners = view.index(self._spec)
        assert isinstance(partners, Partners)
        actions = self._decide(view, partners)
        return [*partners.notes(actions, view), *actions]

    def _decide(self, view: View, partners: Partners) -> Sequence[Action]:
        if partners.changed:
            changes = self._unpack(view, partners)
            if changes:
                # These change what is free: carry them out, then decide again at the same instant.
                return [*changes, Wake(view.now)]
        actions = self._turns.decide(view)
        if actions and not isinstance(actions[0], Wake):
            # Whoever still waits may be packed on what has just started: look again at once.
            again = self._pack and partners.may_pair_after(actions, view)
            return [*actions, Wake(view.now)] if again else actions
        if view.waiting_count:
            pairs = self._pairs(view, partners) if self._pack else []
            return [*actions, *pairs, Wake(view.now)] if pairs else actions  # see how they do
        return self._migration(view, partners) if self._migrate else ()

    # ------------------------------------------------------------------------------------- packing

    def _unpack(self, view: View, partners: Partners) -> list[Action]:
        """Give whole GPUs back to those that are alone, and part pairs that hinder each other."""
        actions: list[Action] = []
        for packed in sorted(partners.changed.values(), key=lambda packed: min(packed.mates)):
            if len(actions) >= 2 * AT_ONCE:
                break  # those that are left follow
            if len(packed.mates) == 1:
                (alone,) = packed.mates.values()
                if _may_grow(view.room, alone):
                    actions.append(Resize(alone.job.id, Placement(packed.slices)))
                continue
            if packed.are_at_work and not partners.pay(packed):
                host, guest = packed.host_first()
                if not guest.pinned:
                    actions.append(Preempt(guest.job.id))
                    actions.append(Resize(host.job.id, Placement(packed.slices)))
                    continue
            del partners.changed[packed.slices]  # it is looked at again when that changes
        return actions

    def _pairs(self, view: View, partners: Partners) -> list[Action]:
        """Put waiting jobs on the GPUs of running ones of the same size, chosen by chance, once it is
        known how fast those are alone."""
        actions: list[Action] = []
        chance: Random | None = None
        lanes = [
            lane for lane, guests in partners.guests.items() if guests and partners.hosts.get(lane)
        ]
        for lane in sorted(lanes, key=lambda lane: min(partners.guests[lane])):
            guests, candidates = partners.guests[lane].values(), partners.hosts[lane]
            if chance is None:
                chance = Random(f"{self._seed}/{view.now!r}")
            at_work = [s for s, track in candidates.items() if track.phase is RUNNING]
            hosts = [candidates[s] for s in sorted(at_work) if _is_open(view.room, candidates[s])]
            if not hosts:
                continue
            for guest in sorted(guests, key=attrgetter("ticket")):
                if not hosts or len(actions) >= 3 * AT_ONCE:
                    break
                host = hosts.pop(chance.randrange(len(hosts)))
                assert host.placement is not None
                shared = Placement(host.placement.slices, _HALF)
                actions += [partners.pairing(host, guest), Resize(host.job.id, shared)]
                actions.append(Start(guest.job.id, shared))
        return actions

    # ----------------------------------------------------------------------------------- migration

    def _migration(self, view: View, partners: Partners) -> Sequence[Action]:
        """Move one job that is spread over more nodes than it needs, if it fits on fewer now."""
        widest = max([pool.width for pool in view.room.pools], default=0)
        for track in [partners.spread[sequence] for sequence in sorted(partners.spread)]:
            assert track.placement is not None
            nodes = len(track.placement.slices)
            if (nodes - 1) * widest < track.placement.gpus or track.pinned:
                continue  # it needs them all, or cannot be moved
            better = self._place(view.room, track.shape)
            if better is not None and len(better.slices) < nodes:
                return [Preempt(track.job.id), Start(track.job.id, better)]
        return ()


def _is_open(room: Room, track: Track) -> bool:
    """May another start there?"""
    assert track.placement is not None
    return room.is_open_at(track.placement)


def _may_grow(room: Room, track: Track) -> bool:
    """Is the other half of its GPUs free, and within its tenant's quota?"""
    assert track.placement is not None
    rest = Placement(track.placement.slices, WHOLE_GPU - _HALF)
    return room.is_free(rest) and room.allows(rest, track.shape)
