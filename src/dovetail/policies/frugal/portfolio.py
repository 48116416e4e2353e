"""The plan and its rivals, each rehearsed to the end: the cheapest is carried out.

A rival is an order (earliest deadline, most worth, …) by which GPUs are given out from now on, with
or without preempting jobs further back. No order changes while a job just waits, so a displaced job
does not displace back; and every stop is charged in the rehearsal.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf
from typing import Final

from dovetail.policies.frugal.draft import BLINK_S
from dovetail.policies.frugal.rehearsal import (
    Order,
    Rehearsal,
    RehearsalScene,
    RehearsalSeat,
    RehearsedJob,
)

LATE: Final = 1e-3  # lateness of such a part of what is spent is none
BETTER: Final = 0.999  # a rival must cost less than so many times what the plan does
URGENCY: Final = 0.5  # slack of such a part of its time makes a job's claim weaker by a factor of e
MUCH: Final = 50.0  # an exponent that is enough for anything


def by_deadline(stage: Rehearsal, i: int) -> float:
    return stage.parts[i].deadline


def by_worth(stage: Rehearsal, i: int) -> float:
    """Lateness avoided per GPU-second: Smith's rule."""
    part = stage.parts[i]
    return -part.late_per_s / (part.courses[0].need * stage.left_s(i))


def by_urgent_worth(stage: Rehearsal, i: int) -> float:
    """The same, reduced by slack: apparent tardiness cost."""
    left_s = stage.left_s(i)
    spare = max(0.0, stage.parts[i].deadline - stage.now - left_s)
    return by_worth(stage, i) * exp(-min(spare / (URGENCY * left_s), MUCH))


ORDERS: Final[Sequence[Order]] = (by_deadline, by_worth, by_urgent_worth)


def cheaper(
    scene: RehearsalScene, own: Sequence[RehearsalSeat | None]
) -> Sequence[RehearsalSeat | None] | None:
    """Seats that cost less in the end than our own plan's; None if there are none, or nothing is
    late."""
    dearly = _stops_dearly(scene, own)
    if not (dearly or None in own) or _is_fluid(scene):
        return None
    least, late = _cost_of(scene, own)
    if not (late or dearly):
        return None
    least, best = least * BETTER, None
    for order in ORDERS:
        for eager in (False, True):
            for displacing in (False, True):
                stage = Rehearsal(scene, order, displacing, lazy=not eager)
                stage.fill(() if eager else _patient(stage, own))
                seats = list(stage.seats)
                cost = stage.play(least)
                if cost < least:
                    least, best = cost, seats
    return best


def _cost_of(scene: RehearsalScene, own: Sequence[RehearsalSeat | None]) -> tuple[float, bool]:
    """The cost of our plan if it is continued by the best order without displacing; and is a job
    late?"""
    costs, late = list[float](), list[bool]()
    for order in ORDERS:
        stage = Rehearsal(scene, order, displacing=False, lazy=True)
        stage.take(own)
        costs.append(stage.play(min(costs, default=inf)))
        late.append(stage.late > LATE * stage.spent)
        if not late[0]:
            break
    return min(costs), late[0]


def _stops_dearly(scene: RehearsalScene, own: Sequence[RehearsalSeat | None]) -> bool:
    """Does the plan stop a job whose interruption costs something?"""
    return any(
        part.seat is not None
        and (seat is None or seat.nodes != part.seat.nodes)
        and scene.move + part.save_s + part.restore_s > 0
        for part, seat in zip(scene.parts, own, strict=True)
    )


def _is_fluid(scene: RehearsalScene) -> bool:
    """Can jobs be made wider and narrower for nothing? Then the plan does so at every event, which
    a rehearsal does not."""
    parts = scene.parts
    return not any([scene.move + part.save_s + part.restore_s for part in parts]) and any(
        [len({c.pool for c in part.courses if not c.apart}) < _single(part) for part in parts]
    )


def _single(part: RehearsedJob) -> int:
    """The number of its ways on one node."""
    return sum([not course.apart for course in part.courses])


def _patient(stage: Rehearsal, own: Sequence[RehearsalSeat | None]) -> set[int]:
    """The jobs that can wait and that our plan lets wait."""
    return {
        i
        for i, part in enumerate(stage.parts)
        if own[i] is None and part.seat is None and stage.slack(i) > BLINK_S
    }
