"""Frugal's decision: which jobs run now, how and where, so that energy and lateness together cost
least.

A GPU on a node that is on anyway costs far less than one that needs a node switched on. So no job
opens a node for the sake of being early: jobs with slack wait, ride on nodes that others need, or
start together when they fill a node. Jobs without slack start at once in their thriftiest way, and
go faster only as far as their deadline asks and as the value saved is worth the GPUs it takes. If
there are not enough GPUs, they go to the most value per GPU-second, not to the latest job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from dovetail.core.model import Seconds
from dovetail.models.hourly import HOUR_S
from dovetail.policies.frugal.draft import BLINK_S, PlanDraft, PlannedJob
from dovetail.policies.frugal.floor import Seats
from dovetail.policies.frugal.foresight import GpusComingBack, patience_pays
from dovetail.policies.frugal.hurry import by_worth, just_in_time
from dovetail.policies.frugal.ladder import AS_GOOD_AS_FULL, Rates


class FrugalDecision(NamedTuple):
    seats: Mapping[int, tuple[int, int]]  # by task: its way and its node
    wake: Seconds  # when to look again though nothing has happened; inf: no need


def decide(
    now: Seconds,
    tasks: Sequence[PlannedJob],
    nodes: Sequence[Seats],
    rates: Rates,
    *,
    margin: float = 0.02,
    move: float = 0.0,
    switch_on: float = 0.0,
    inflow: float = 0.0,
    quotas: Mapping[str, float] = MappingProxyType({}),
    releases: Sequence[GpusComingBack] = (),
) -> FrugalDecision:
    """`margin`: part of its time by which a job is begun early; `move` and `switch_on`: money for
    moving a job, and for switching a node on; `inflow`: GPUs that the jobs that keep coming need;
    `quotas`: by tenant, GPUs that its jobs may have; `releases`: those that will come back."""
    draft = PlanDraft(now, tasks, nodes, rates, margin, move, switch_on, quotas)
    risky, crowded, easy = _by_slack(draft, inflow)
    by_worth(draft, [*risky, *crowded])
    if _in_trouble(draft, risky) and patience_pays(draft, [*risky, *crowded], releases):
        draft = draft.anew()
        just_in_time(draft, [*risky, *crowded])
    _fill_nodes(draft, _ride(draft, easy))
    _speed_up_the_lonely(draft)
    return FrugalDecision(draft.settled(), _wake(draft))


def _in_trouble(draft: PlanDraft, risky: Iterable[int]) -> bool:
    """Will one of them be late, unless something changes?"""
    seats = draft.seats
    return any([i not in seats or draft.late(i, seats[i][0]) > BLINK_S for i in risky])


def _by_slack(draft: PlanDraft, inflow: float) -> tuple[list[int], list[int], list[int]]:
    """Jobs that must run now; jobs that had better run, since many are ahead of them; and jobs that
    can wait, the running ones and the least slack first. A job that waits for a cheaper hour is in
    none of the three."""
    behind = _crowded(draft, inflow)
    risky, crowded, easy = [], [], []
    for i, slack in enumerate(draft.slack):
        if slack <= BLINK_S or draft.must_go_on(i):
            risky.append(i)
        elif i in behind:
            crowded.append(i)
        elif not draft.tasks[i].dear:
            easy.append(i)
    easy.sort(key=lambda i: (draft.tasks[i].at is None, draft.slack[i]))
    return risky, crowded, easy


def _crowded(draft: PlanDraft, inflow: float) -> set[int]:
    """Jobs with slack behind so many others that it may not be enough: of their pool, of their
    tenant, or of all if jobs keep coming at the present rate."""
    most, crowded = draft.floor.most, set()
    gpus, work = dict[int, int](), dict[int | str, float]()  # GPUs and GPU-seconds ahead
    all_work, room = 0.0, sum(most.values()) - inflow
    for i in sorted(range(len(draft.tasks)), key=draft.slack.__getitem__):
        task, slack, tenant = draft.tasks[i], draft.slack[i], draft.tasks[i].tenant
        pool, more = _pool(task), _gpus(task)
        there, ahead = most.get(pool, 0), work.get(pool, 0.0)
        gpus[pool] = gpus.get(pool, 0) + more
        all_work += more * task.usual
        for owner in (pool, tenant):
            work[owner] = work.get(owner, 0.0) + more * task.usual
        if (
            all_work >= slack * room
            or (gpus[pool] > there and ahead >= slack * there)
            or work[tenant] >= slack * draft.quota(i)
        ):
            crowded.add(i)
    return crowded


def _ride(draft: PlanDraft, easy: Iterable[int]) -> list[int]:
    """Put jobs with slack on nodes that are on anyway; return the others."""
    return [
        i for i in easy if not draft.try_to_put(i, draft.tasks[i].ladder.thrifty, opening=False)
    ]


def _fill_nodes(draft: PlanDraft, waiting: Iterable[int]) -> None:
    """Open nodes for jobs with slack that fill them: it will never be cheaper."""
    lines: dict[int, dict[int, None]] = {}
    for i in waiting:
        ladder = draft.tasks[i].ladder
        lines.setdefault(ladder.ways[ladder.thrifty].pool, {})[i] = None
    for pool, line in lines.items():
        for n in reversed(draft.floor.empty(pool)):
            party = _party(draft, line, n)
            if not party:
                break
            for i in party:
                del line[i]
                if draft.within_quota(i, _gpus(draft.tasks[i])):
                    draft.put(i, draft.tasks[i].ladder.thrifty, n)


def _party(draft: PlanDraft, line: Iterable[int], n: int) -> list[int]:
    """The most jobs of the line that are worth switching the node on for."""
    node = draft.floor.nodes[n]
    rate = draft.rates[node.pool]
    party: list[int] = []
    worth, gpus, enough = 0.0, 0, 0
    for i in line:
        ladder = draft.tasks[i].ladder
        more = ladder.ways[ladder.thrifty].gpus
        if gpus + more > node.gpus or not draft.within_quota(i, more):
            continue
        party.append(i)
        gpus += more
        own = ladder.shares[ladder.thrifty] - ladder.ways[ladder.thrifty].extra
        worth += own + _worth_of_staying(draft, i)
        if worth * AS_GOOD_AS_FULL >= rate[gpus]:
            enough = len(party)
        if gpus == node.gpus:
            break
    return party[:enough]


def _worth_of_staying(draft: PlanDraft, i: int) -> float:
    """Money per hour, for as long as the task has to run."""
    task = draft.tasks[i]
    return 0.0 if task.at is None else draft.moving(i) * HOUR_S / max(task.usual, BLINK_S)


def _pool(task: PlannedJob) -> int:
    return task.ladder.ways[task.ladder.thrifty].pool


def _gpus(task: PlannedJob) -> int:
    return task.ladder.ways[task.ladder.thrifty].gpus


def _speed_up_the_lonely(draft: PlanDraft) -> None:
    """A job alone on its node pays for all of it: a faster way may be cheaper."""
    for n, guests in enumerate(draft.floor.guests):
        if len(guests) == 1 and not draft.floor.nodes[n].taken:
            _speed_up(draft, next(iter(guests)), n)


def _speed_up(draft: PlanDraft, i: int, n: int) -> None:
    task, node = draft.tasks[i], draft.floor.nodes[n]
    rate, ways = draft.rates[node.pool], task.ladder.ways
    costs = {
        way: (rate[option.gpus] + option.extra) * task.needs(way) / HOUR_S
        for way, option in enumerate(ways)
        if option.pool == node.pool and option.gpus <= node.gpus
    }
    best, current = min(costs, key=costs.__getitem__), draft.seats[i][0]
    moves = task.at is not None and ways[task.at[0]].gpus != ways[best].gpus
    gain = costs[current] - costs[best] - draft.move * moves
    if ways[best].seconds < ways[current].seconds and gain > 0:
        draft.take(i)
        draft.put(i, best, n)


def _wake(draft: PlanDraft) -> Seconds:
    """When a waiting job's slack is used up, or a hurried job has caught up."""
    wake = inf
    for i, slack in enumerate(draft.slack):
        if i not in draft.seats and slack > BLINK_S:
            task = draft.tasks[i]
            restart = 0.0 if task.at is None else task.restart  # whoever is stopped has less slack
            wake = min(wake, draft.now + max(slack - restart, BLINK_S))
    for i, before in draft.before.items():
        task, way = draft.tasks[i], draft.seats[i][0]
        usual = task.ladder.ways[before].seconds * draft.margin
        speed = usual / task.ladder.ways[way].seconds - 1.0
        behind = usual * task.left - (task.deadline - draft.now)
        if speed > 0 < behind:
            wake = min(wake, draft.now + max(behind / speed, BLINK_S))
    return wake
