"""Two ways to share GPUs out when some jobs will be late, played through to see which costs less.

If all can be in time, it is wrong to give GPUs to the most worth per GPU-second; if not, it is wrong to
give them to the least time left. Nobody knows beforehand which it is. With few jobs at stake it is found
out: as if nothing else came, event by event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from dovetail.core.model import Seconds
from dovetail.policies.frugal.draft import PlanDraft, PlannedJob
from dovetail.policies.frugal.hurry import by_worth, just_in_time

Share: TypeAlias = Callable[[PlanDraft, Iterable[int]], None]
AT_STAKE: Final = (
    40  # jobs, and nodes: with more of them both ways differ little, and it would take long
)
EVENTS: Final = 24  # nobody looks further ahead
NOTHING: Final = 1e-9  # part of a job that is as good as done


class GpusComingBack(NamedTuple):
    """GPUs of a node that will come back from hands that keep them now."""

    at: Seconds
    node: int
    gpus: int


def patience_pays(
    draft: PlanDraft, line: list[int], releases: Sequence[GpusComingBack] = ()
) -> bool:
    """Is less lost if GPUs go to the least time left, instead of the most worth?"""
    if len(line) > AT_STAKE or len(draft.floor.nodes) > AT_STAKE:
        return False
    tasks = [draft.tasks[i] for i in line]
    soonest = sorted(releases)
    patient = _lateness(draft, tasks, just_in_time, soonest)
    return patient < _lateness(draft, tasks, by_worth, soonest)


def _lateness(
    draft: PlanDraft, tasks: list[PlannedJob], share: Share, releases: Sequence[GpusComingBack] = ()
) -> float:
    """Money that being late will cost."""
    now, total, nodes = draft.now, 0.0, list(draft.floor.nodes)
    coming = deque(releases)
    for _ in range(EVENTS):
        while coming and coming[0].at <= now:
            back = coming.popleft()
            node = nodes[back.node]
            nodes[back.node] = node._replace(taken=max(node.taken - back.gpus, 0))
        trial = draft.anew(now, tasks, nodes)
        share(trial, range(len(tasks)))
        ends = [_needs(trial, i) for i in trial.seats]
        if coming and tasks:
            ends.append(coming[0].at - now)
        if not ends:
            break
        lasts = min(ends)
        now += lasts
        ahead = [_later(trial, i, lasts) for i in range(len(tasks))]
        total += sum([_late(task, now) for task in ahead if task.left <= NOTHING])
        tasks = [task for task in ahead if task.left > NOTHING]
    return total + sum([_late(task, now + task.quickest) for task in tasks])


def _needs(trial: PlanDraft, i: int) -> float:
    task, (way, _) = trial.tasks[i], trial.seats[i]
    return task.needs(way) + trial.restart(task, way)


def _later(trial: PlanDraft, i: int, lasts: float) -> PlannedJob:
    """The task as it will be then."""
    task, seat = trial.tasks[i], trial.seats.get(i)
    if seat is None:
        return task._replace(at=None) if task.at is not None else task
    worked = max(lasts - trial.restart(task, seat[0]), 0.0)
    left = task.left - worked / task.ladder.ways[seat[0]].seconds
    return task._replace(left=max(left, 0.0), at=seat)


def _late(task: PlannedJob, at: float) -> float:
    return task.late_per_s * max(at - task.deadline, 0.0)
