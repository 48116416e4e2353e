"""A plan while it is made: the seats so far, the means of each job, and in the end the nodes, so that
as many jobs as possible stay where they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import exp, inf
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, final

from dovetail.core.model import Seconds
from dovetail.models.hourly import HOUR_S
from dovetail.policies.frugal.floor import Floor, Seats
from dovetail.policies.frugal.ladder import PriceLadder, Rates

BLINK_S: Final = 1.0  # less slack counts as none
STAY: Final = 0.1  # the slack, as part of its time, above which a running job may be stopped
KEEP: Final = 1.25  # another job must be worth so many times more to replace a running one
URGENCY: Final = 0.2  # slack of this part of its time divides a job's claim by e
MUCH: Final = 50.0  # the largest exponent needed
Seating: TypeAlias = dict[int, tuple[int, int]]  # by task: way and node


class PlannedJob(NamedTuple):
    """A job as the plan represents it.

    `at` is its present way and node. `window` is how long it may run, from now to its deadline,
    without paying more than necessary; `dear`: not in this hour, since a later one will do and
    costs less. Moving it takes `restart` seconds. `tenant`: whose quota it counts against.
    """

    ladder: PriceLadder
    left: float  # part of the work
    deadline: Seconds
    late_per_s: float
    at: tuple[int, int] | None = None
    window: Seconds = inf
    dear: bool = False
    restart: Seconds = 0.0
    tenant: str = ""

    def needs(self, way: int) -> Seconds:
        return self.ladder.ways[way].seconds * self.left

    @property
    def usual(self) -> Seconds:
        """Seconds in its thriftiest way."""
        return self.ladder.usual * self.left

    @property
    def quickest(self) -> Seconds:
        """Seconds in its fastest way."""
        return self.ladder.fastest * self.left

    def goes_on(self, way: int) -> bool:
        """Can it run that way without being stopped?"""
        return self.at is not None and self.ladder.alike(self.at[0], way)


@final
class PlanDraft:
    """The seats and the floor of a plan while it is made."""

    def __init__(
        self,
        now: Seconds,
        tasks: Sequence[PlannedJob],
        nodes: Sequence[Seats],
        rates: Rates,
        margin: float,
        move: float,
        switch_on: float,
        quotas: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._spec: Final = (rates, margin, move, switch_on, quotas)
        self.now: Final = now
        self.tasks: Final = tasks
        self.rates: Final = rates
        self.margin: Final = 1.0 + margin
        self.move: Final = move
        self.switch_on: Final = switch_on
        self.floor: Final = Floor(nodes)
        self._quotas: Final = dict(quotas)  # by tenant: GPUs that may still be given
        self.seats: Final[dict[int, tuple[int, int]]] = {}  # by task: way and node
        self.before: Final[dict[int, int]] = {}  # the way that a hurried task had before
        self.slack: Final = [self._slack(task) for task in tasks]

    def anew(
        self,
        now: Seconds | None = None,
        tasks: Sequence[PlannedJob] | None = None,
        nodes: Sequence[Seats] | None = None,
    ) -> PlanDraft:
        """An empty draft, at another time, of other tasks and for other nodes if they are given."""
        when, whose = self.now if now is None else now, self.tasks if tasks is None else tasks
        return PlanDraft(when, whose, self.floor.nodes if nodes is None else nodes, *self._spec)

    def _slack(self, task: PlannedJob) -> Seconds:
        until = task.deadline - self.now
        if not task.dear:
            until = min(until, task.window)
        return until - task.usual * self.margin - self.restart(task, task.ladder.thrifty)

    def restart(self, task: PlannedJob, way: int) -> Seconds:
        """Seconds before it makes progress that way; 0 if it just continues."""
        return 0.0 if task.goes_on(way) else task.restart

    def moving(self, i: int) -> float:
        """Money that stopping or moving a running task costs, including its part of switching a
        node on again."""
        task = self.tasks[i]
        way = task.ladder.ways[task.ladder.thrifty]
        waste = task.restart * task.ladder.shares[task.ladder.thrifty] / HOUR_S
        waste += self.switch_on * way.gpus / (len(self.rates[way.pool]) - 1)
        later = min(task.restart, max(0.0, task.restart - self.slack[i]))  # than without the move
        return self.move + waste + task.late_per_s * later

    def hold(self, i: int) -> float:
        """The factor by which a task is worth more where it runs than elsewhere: large enough that
        taking turns never costs more time than it gains."""
        task = self.tasks[i]
        if task.at is None:
            return 1.0
        return KEEP * exp(min(2.0 * task.restart / (URGENCY * max(task.usual, BLINK_S)), MUCH))

    def must_go_on(self, i: int) -> bool:
        """Was it started for want of slack, and has it hardly gained any? Then stopping it does not
        pay."""
        task = self.tasks[i]
        return task.at is not None and self.slack[i] < STAY * task.usual + task.restart

    def late(self, i: int, way: int) -> Seconds:
        """Seconds by which the task would miss its deadline that way, with half of the margin used
        up."""
        task = self.tasks[i]
        needs = task.needs(way) * (1.0 + self.margin) / 2 + self.restart(task, way)
        return self.now + needs - task.deadline

    def room(self, i: int, way: int, opening: bool = True, but: int = -1) -> int | None:
        option = self.tasks[i].ladder.ways[way]
        if self._quotas and not self.within_quota(i, option.gpus):
            return None
        return self.floor.room(option.pool, option.gpus, opening, but)

    def quota(self, i: int) -> float:
        """GPUs that jobs of its tenant may still be given together."""
        return self._quotas.get(self.tasks[i].tenant, inf)

    def within_quota(self, i: int, gpus: int) -> bool:
        if not self._quotas:
            return True
        own = self.tasks[i].ladder.ways[self.seats[i][0]].gpus if i in self.seats else 0
        return gpus - own <= self.quota(i)

    def added(self, i: int, way: int, n: int) -> float:
        """Money per hour that the node costs more with the task on it."""
        option, busy = self.tasks[i].ladder.ways[way], self.floor.busy(n)
        rate = self.rates[option.pool]
        return rate[busy + option.gpus] - rate[busy] + option.extra

    def put(self, i: int, way: int, n: int) -> None:
        gpus = self.tasks[i].ladder.ways[way].gpus
        self.floor.put(i, n, gpus)
        self.seats[i] = way, n
        self._charge(i, gpus)

    def take(self, i: int) -> tuple[int, int]:
        way, n = self.seats.pop(i)
        self.floor.take(i, n)
        self._charge(i, -self.tasks[i].ladder.ways[way].gpus)
        return way, n

    def _charge(self, i: int, gpus: int) -> None:
        tenant = self.tasks[i].tenant
        if tenant in self._quotas:
            self._quotas[tenant] -= gpus

    def settled(self) -> dict[int, tuple[int, int]]:
        seats = [self._seat(i, way, n) for i, (way, n) in self.seats.items()]
        return settled(self.floor.nodes, seats)

    def _seat(self, i: int, way: int, n: int) -> Seat:
        task = self.tasks[i]
        home = task.at[1] if task.at is not None and task.goes_on(way) else -1
        return Seat(i, way, n, task.ladder.ways[way].gpus, home)

    def try_to_put(self, i: int, way: int, opening: bool = True) -> bool:
        n = self.room(i, way, opening)
        if n is not None:
            self.put(i, way, n)
        return n is not None


class Seat(NamedTuple):
    """A task, the way and the node it has in the draft, its GPUs, and the node where it could just
    continue (-1: none)."""

    task: int
    way: int
    node: int
    gpus: int
    home: int


def settled(nodes: Sequence[Seats], draft: Iterable[Seat]) -> Seating:
    """The draft with the same ways on no more nodes, but with fewer moves."""
    by_pool: dict[int, list[Seat]] = {}
    for seat in draft:
        by_pool.setdefault(nodes[seat.node].pool, []).append(seat)
    result: Seating = {}
    for seats in by_pool.values():
        result.update(_settled(nodes, seats))
    return result


def _settled(nodes: Sequence[Seats], seats: Sequence[Seat]) -> Seating:
    drafted = {seat.task: (seat.way, seat.node) for seat in seats}
    kept = _kept(seats)
    if not kept:
        return drafted
    used = {seat.node for seat in seats}
    order = sorted(kept.keys() | used, key=lambda n: (not nodes[n].taken, -kept.get(n, 0), n))
    return _seating(nodes, seats, order[: len(used)]) or drafted


def _kept(seats: Iterable[Seat]) -> dict[int, int]:
    """By node, the GPUs of tasks that could stay there."""
    kept: dict[int, int] = {}
    for seat in seats:
        if seat.home >= 0:
            kept[seat.home] = kept.get(seat.home, 0) + seat.gpus
    return kept


def _seating(
    nodes: Sequence[Seats], seats: Sequence[Seat], homes: Collection[int]
) -> Seating | None:
    """On these nodes alone, as many tasks as possible at home; None if they do not fit."""
    floor, allowed = Floor(nodes, only=homes), set(homes)
    result: Seating = {}
    others = []
    for seat in seats:
        if seat.home in allowed and floor.free[seat.home] >= seat.gpus:
            floor.put(seat.task, seat.home, seat.gpus)
            result[seat.task] = seat.way, seat.home
        else:
            others.append(seat)
    for seat in sorted(others, key=lambda seat: -seat.gpus):
        n = floor.room(nodes[seat.node].pool, seat.gpus)
        if n is None:
            return None
        floor.put(seat.task, n, seat.gpus)
        result[seat.task] = seat.way, n
    return result
