"""From numbers of GPUs to actions: who has its number keeps what it has, the others are placed anew."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.core.entries import Action
from dovetail.core.model import Placement
from dovetail.core.plan import Place, Plan
from dovetail.core.room import Room
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.elastic.claims import shapes_of


def seated(
    view: View, place: Place, wanted: Sequence[tuple[Track, int | None]]
) -> Sequence[Action]:
    """Give these jobs so many GPUs (None: none at all), placed in this order on what is free and what
    those give back whose number changes. One for which there is no place gets fewer if it may; else it
    keeps what it has, or waits."""
    changed = [(track, gpus) for track, gpus in wanted if _differs(track, gpus)]
    if not changed:
        return []
    plan, room, mark = Plan(view, place), view.room, view.room.mark()
    for track, _ in changed:
        if track.placement is not None:
            room.draft_give(track.placement, track.shape)
    targets, stops = list[tuple[Track, Placement]](), list[Track]()
    for track, gpus in changed:
        found = None if gpus is None else _found(plan, place, track, gpus)
        if found is not None:
            room.draft_take(found, track.shape)
            targets.append((track, found))
        elif track.placement is not None and (gpus is None or not _keeps(room, track)):
            stops.append(track)
    room.rollback_to(mark)
    for track in stops:
        plan.stop(track)
    plan.rearrange(targets)
    return plan.actions


def _differs(track: Track, gpus: int | None) -> bool:
    now = None if track.placement is None else track.placement.gpus
    return now != gpus


def _found(plan: Plan, place: Place, track: Track, gpus: int) -> Placement | None:
    if track.parked_at is not None and gpus == track.shape.gpus:
        return plan.place(track)
    for shape in shapes_of(track, gpus):
        found = place(plan.room, shape)
        if found is not None:
            return found
    return None


def _keeps(room: Room, track: Track) -> bool:
    """Its old GPUs, unless another has been given some of them."""
    own = track.placement
    assert own is not None
    if not room.is_free(own) or not room.allows(own, track.shape):
        return False
    room.draft_take(own, track.shape, own=True)
    return True
