"""GPUs for jobs that need them soon: to start at all, or to run faster than is thrifty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from math import exp, inf
from typing import Final, NamedTuple

from dovetail.models.hourly import HOUR_S
from dovetail.policies.frugal.draft import BLINK_S, URGENCY, PlanDraft

FEWEST_GPUS: Final = 0.5  # what a faster way without more GPUs is counted as


def start(draft: PlanDraft, line: Iterable[int]) -> None:
    for i in line:
        first = draft.tasks[i].ladder.thrifty
        if not draft.try_to_put(i, first):
            for climb in draft.tasks[i].ladder.climbs[1:]:
                if draft.try_to_put(i, climb[0]):
                    break


class HurryStep(NamedTuple):
    """A reason to give a task GPUs, ordered by its worth: to start, or to run faster."""

    worth: float  # per GPU; negative, so that the best comes first
    gain: float  # money per second, negative
    task: int
    way: int
    origin: int = -1  # the way it has before


def take_steps(draft: PlanDraft, steps: Iterable[HurryStep]) -> None:
    """Take the steps while there are GPUs; more power needs none. A task that is late even so may
    climb further."""
    heap = list(steps)
    heapify(heap)
    while heap:
        step = heappop(heap)
        seat = draft.seats.get(step.task)
        if not (draft.floor.all_free or _is_of_power(draft, step)):
            continue
        if seat is None:
            start(draft, [step.task])
        elif seat[0] != step.origin or not _try_to_climb(draft, step):
            continue
        for further in hurries(draft, [step.task]):
            heappush(heap, further)


def _is_of_power(draft: PlanDraft, step: HurryStep) -> bool:
    seat = draft.seats.get(step.task)
    return seat is not None and draft.tasks[step.task].ladder.alike(seat[0], step.way)


def starts(draft: PlanDraft, line: Iterable[int]) -> Iterator[HurryStep]:
    for i in line:
        task = draft.tasks[i]
        spare = max(0.0, task.deadline - draft.now - task.quickest)
        can_wait = exp(-spare / (URGENCY * task.usual))
        gpus = task.ladder.ways[task.ladder.thrifty].gpus
        worth = task.late_per_s / (gpus * max(task.usual, BLINK_S)) * can_wait * draft.hold(i)
        yield HurryStep(-worth, -task.late_per_s, i, task.ladder.thrifty)


def hurries(draft: PlanDraft, risky: Iterable[int]) -> Iterator[HurryStep]:
    """Faster ways for tasks that would be late."""
    for i in risky:
        if i in draft.seats and draft.late(i, draft.seats[i][0]) > BLINK_S:
            yield from _climbs(draft, i)


def _climbs(draft: PlanDraft, i: int) -> Iterator[HurryStep]:
    task, current = draft.tasks[i], draft.seats[i][0]
    ways, shares = task.ladder.ways, task.ladder.shares
    usual, late = ways[task.ladder.thrifty].seconds, draft.late(i, current)
    spare = max(0.0, task.deadline - draft.now - task.ladder.fastest * task.left)
    can_wait = exp(-spare / (URGENCY * task.usual))
    for way in _next_ways(draft, i, current):
        there = task.goes_on(way)
        saved = min(late, draft.late(i, current) - draft.late(i, way))
        gain = task.late_per_s * usual * (1.0 / ways[way].seconds - 1.0 / ways[current].seconds)
        if gain * HOUR_S <= shares[way] - shares[current] or task.late_per_s * saved <= draft.move:
            continue
        more = max(ways[way].gpus - ways[current].gpus, FEWEST_GPUS)
        worth = (
            gain / (more * max(task.usual, BLINK_S)) * can_wait * (draft.hold(i) if there else 1.0)
        )
        yield HurryStep(-worth, -gain, i, way, current)


def _next_ways(draft: PlanDraft, i: int, current: int) -> Iterator[int]:
    """Of each pool the slowest way that is in time, else the fastest."""
    ladder = draft.tasks[i].ladder
    for climb in ladder.climbs:
        faster = [way for way in climb if ladder.ways[way].seconds < ladder.ways[current].seconds]
        if faster:
            yield next((way for way in faster if draft.late(i, way) <= 0), faster[-1])


def _try_to_climb(draft: PlanDraft, climb: HurryStep) -> bool:
    of_power = _is_of_power(draft, climb)
    before, home = draft.take(climb.task)
    n = home if of_power else draft.room(climb.task, climb.way)
    if n is None:
        n = _cleared(draft, climb)
    if n is None:
        draft.put(climb.task, before, home)
        return False
    draft.put(climb.task, climb.way, n)
    draft.before.setdefault(climb.task, before)
    return True


def _cleared(draft: PlanDraft, climb: HurryStep) -> int | None:
    """A node cleared for the task by moving others, if they lose less than it gains."""
    option, floor = draft.tasks[climb.task].ladder.ways[climb.way], draft.floor
    n = floor.emptiest(option.pool, option.gpus)
    if n is None or floor.all_free < option.gpus:
        return None
    moved: list[tuple[int, int]] = []
    loss = 0.0
    for guest in sorted(floor.guests[n], key=floor.guests[n].__getitem__):
        if floor.free[n] >= option.gpus:
            break
        way = draft.seats[guest][0]
        moved.append((guest, way))
        loss += _moved(draft, guest, n)
        if loss >= -climb.gain:
            break
    if floor.free[n] >= option.gpus and loss < -climb.gain:
        return n
    for guest, way in moved:
        if draft.seats[guest][1] != n:
            draft.take(guest)
            draft.put(guest, way, n)
    return None


def _moved(draft: PlanDraft, guest: int, n: int) -> float:
    """Move a task of a node elsewhere and return its loss per second; inf if there is no room."""
    task, current = draft.tasks[guest], draft.seats[guest][0]
    if guest in draft.before:
        return inf
    for way in (current, *[climb[0] for climb in task.ladder.climbs]):
        other = draft.room(guest, way, but=n)
        if other is not None:
            draft.take(guest)
            draft.put(guest, way, other)
            ways = task.ladder.ways
            return task.late_per_s * max(0.0, 1.0 - ways[current].seconds / ways[way].seconds)
    return inf


def by_worth(draft: PlanDraft, line: Iterable[int]) -> None:
    """The most lateness avoided per GPU-second first, as in Smith's rule."""
    take_steps(draft, starts(draft, line))


def just_in_time(draft: PlanDraft, line: Iterable[int]) -> None:
    """The least time to lose first, each in the cheapest way that is in time: right when all can be."""
    tasks = draft.tasks
    for i in sorted(line, key=lambda i: tasks[i].deadline - tasks[i].quickest):
        way = next((way for way in _in_time_first(draft, i) if draft.try_to_put(i, way)), None)
        if way is not None and tasks[i].ladder.ways[way].seconds < tasks[i].ladder.usual:
            draft.before[i] = tasks[i].ladder.thrifty


def _in_time_first(draft: PlanDraft, i: int) -> list[int]:
    """The ways that are in time, the cheapest first; then the others, the fastest first."""
    ladder = draft.tasks[i].ladder
    ways = [(way, ladder.ways[way].seconds) for climb in ladder.climbs for way in climb]
    in_time = [(ladder.shares[k] * seconds, k) for k, seconds in ways if draft.late(i, k) <= 0]
    late = [(seconds, k) for k, seconds in ways if draft.late(i, k) > 0]
    return [k for _, k in (*sorted(in_time), *sorted(late))]
