"""Services beside training: replicas that wait are started, and jobs of lower priority give way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.core.entries import Action, Note
from dovetail.core.plan import Place, Plan
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.losses import loss_gpu_s
from dovetail.policies.placement import consolidated
from dovetail.workloads.service.kind import services_of

GAVE_WAY = "services-first:gave-way"


@dataclass(frozen=True)
class ServicesFirst:
    """Runs before the policy proper, whatever that is: training has what services leave."""

    place: Place = consolidated

    def decide(self, view: View) -> Iterable[Action]:
        waiting = waiting_replicas(view)
        if not waiting:
            return ()
        plan = Plan(view, self.place)
        stopped: set[int] = set()
        notes: list[Note] = []
        for track in waiting:
            if plan.start(track):
                continue
            before, victims = set(stopped), victims_of(track, view, stopped)
            make_room(plan, track, victims, stopped)
            gone = [other for other in victims if other.sequence in stopped - before]
            notes += told_why(track, gone, victims, view)
        return [*notes, *plan.actions]


def told_why(
    to: Track, gone: Sequence[Track], victims: Sequence[Track], view: View
) -> Iterable[Note]:
    """For `dovetail why`: what each loses, and who of those that stay would have lost least."""
    stay = [
        (loss_gpu_s(other, view.now), other.sequence, other.job.id)
        for other in victims
        if other not in gone
    ]
    for other in gone:
        told: dict[str, Any] = {"to": to.job.id, "gpu_s": loss_gpu_s(other, view.now)}
        if stay:
            least, _, name = min(stay)
            told |= {"other": name, "other_gpu_s": least}
        yield Note(GAVE_WAY, told, other.job.id)


def waiting_replicas(view: View) -> list[Track]:
    """Those that may run now, the highest priority first."""
    jobs = [
        own.job for service in services_of(view).open.values() for own in service.replicas.values()
    ]
    tracks = [view.tracks[job] for job in jobs if job in view.tracks]
    found = [track for track in tracks if track.placement is None and not track.barred]
    return sorted(found, key=lambda track: (-track.job.priority, track.sequence))


def victims_of(track: Track, view: View, stopped: set[int]) -> list[Track]:
    """The least important first; of those the one that loses least by it, as far as is known; of those
    the one that was started last: it has the least to lose if it cannot be suspended after all."""
    found = [
        other
        for other in view.running.values()
        if other.job.priority < track.job.priority
        and not other.stays
        and other.sequence not in stopped
    ]
    return sorted(
        found,
        key=lambda other: (other.job.priority, loss_gpu_s(other, view.now), -other.started_at),
    )


def make_room(plan: Plan, track: Track, victims: Sequence[Track], stopped: set[int]) -> None:
    """One whose place is enough, else one after the other until it fits; those whose place it does not
    need go on."""
    if takes_place_of_one(plan, track, victims, stopped):
        return
    asked: list[Track] = []
    for victim in victims:
        plan.stop(victim)
        asked.append(victim)
        if plan.start(track):
            break
        plan.was_in_vain()
    kept = {victim.sequence for victim in asked if plan.keep(victim)}
    stopped.update(victim.sequence for victim in asked if victim.sequence not in kept)


def takes_place_of_one(
    plan: Plan, track: Track, victims: Sequence[Track], stopped: set[int]
) -> bool:
    for victim in victims:
        plan.stop(victim)
        if plan.start(track):
            stopped.add(victim.sequence)
            return True
        plan.was_in_vain()
        plan.keep(victim)
    return False
