"""One decision as a value: jobs with their ways to run, nodes with free GPUs, and all costs.

A method is a pure function from a `Problem` to an `Assignment`; nothing here knows of a view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, final

from dovetail.core.model import JobId, Seconds
from dovetail.models.hourly import HOUR_S

POSTPONED: Final = 100.0  # how much dearer than other lateness that of a postponed job counts


class Way(NamedTuple):
    """One way to run a job: a number of GPUs on a node of a pool, and the seconds of the whole job
    there."""

    pool: int
    gpus: int
    seconds: Seconds
    cost: float  # a node with so many busy GPUs for so many seconds
    limit: int = 0  # watts that each GPU may draw; 0: as many as it can
    extra: float = 0.0  # money per hour that the node costs beyond its busy GPUs, or less


@final
class Menu:
    """The ways to run one job, ranked once: their order does not change as the job proceeds."""

    __slots__ = ("by_cost", "by_time", "fastest_s", "own", "reference_s", "slowest_s", "ways")

    def __init__(self, ways: Sequence[Way], reference_s: Seconds) -> None:
        self.ways: Final = tuple(ways)
        self.reference_s: Final = reference_s  # of the whole job at speed 1
        self.by_cost: Final = tuple(sorted(ways, key=attrgetter("cost")))
        self.by_time: Final = tuple(sorted(ways, key=attrgetter("seconds")))
        self.fastest_s: Final = self.by_time[0].seconds
        self.slowest_s: Final = self.by_time[-1].seconds
        self.own: Any = None  # what a policy makes of the ways and wants to find again


@final
class Demand:
    """A job in this decision: its remaining part, its deadline, and the cost of being late."""

    __slots__ = ("deadline", "gpus", "job_id", "late_per_s", "left", "limit", "menu", "node")

    def __init__(
        self,
        job_id: JobId,
        menu: Menu,
        left: float,
        deadline: Seconds,
        late_per_s: float,
        node: int = -1,
        gpus: int = 0,
        limit: int = 0,
    ) -> None:
        self.job_id: Final = job_id
        self.menu: Final = menu
        self.left: Final = left  # the part of the job that is still to be done
        self.deadline: Final = deadline
        self.late_per_s: Final = late_per_s
        self.node: Final = node  # where it runs now; -1 if it waits
        self.gpus: Final = gpus
        self.limit: Final = limit  # watts for each of them; 0: none

    def ranked(self, now: Seconds) -> Sequence[Way]:
        """The ways that end by the deadline, the cheapest first; then the others, the fastest first."""
        menu, left, deadline = self.menu, self.left, self.deadline
        if now + menu.slowest_s * left <= deadline:
            return menu.by_cost
        if now + menu.fastest_s * left > deadline:
            return menu.by_time
        in_time = [way for way in menu.by_cost if now + way.seconds * left <= deadline]
        late = [way for way in menu.by_time if now + way.seconds * left > deadline]
        return in_time + late


@dataclass(frozen=True, slots=True)
class NodePool:
    """Nodes that can replace each other except for their size, in the order of their ids."""

    kind: str
    nodes: Sequence[int]
    free: Sequence[int]  # GPUs to be given out, by node
    kept: Sequence[int]  # GPUs of jobs that stay where they are, by node
    per_hour: Sequence[float]  # money for a node with 0, 1, 2, … busy GPUs
    factor: float = 1.0  # the price now over the usual one


class Spot(NamedTuple):
    """The node where a job is to run, and the way."""

    way: Way
    node: int


Assignment: TypeAlias = Mapping[int, Spot]  # by the index of the demand; whoever is missing waits


@final
class Problem:
    """All input of a method."""

    def __init__(self, now: Seconds, demands: Sequence[Demand], pools: Sequence[NodePool]) -> None:
        self.now: Final = now
        self.demands: Final = demands
        self.pools: Final = pools

    @cached_property
    def pressure(self) -> Sequence[float]:
        """By demand; worked out when a method asks for it."""
        return [self._pressure(demand) for demand in self.demands]

    def _pressure(self, demand: Demand) -> float:
        """How late the job will be at best; lateness is weighted, earliness is not."""
        late = self.now + demand.menu.fastest_s * demand.left - demand.deadline
        return late * demand.late_per_s if late > 0 else late

    def by_pressure(self) -> list[int]:
        """The most pressing job first; of equals the earliest."""
        pressure = self.pressure
        return sorted(range(len(pressure)), key=lambda i: -pressure[i])

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Nodes, jobs, and GPUs of the largest node."""
        free = [count for pool in self.pools for count in pool.free]
        return len(free), len(self.demands), max(free, default=0)


def busy_by_node(assignment: Assignment) -> dict[int, int]:
    busy: dict[int, int] = {}
    for way, node in assignment.values():
        busy[node] = busy.get(node, 0) + way.gpus
    return busy


@final
class Proxy:
    """The cost until the first finish, and of the lateness that follows: the less the better.

    Scheduled jobs count as late as they are at the first finish, postponed ones a hundredfold as
    late as they would be at their slowest. Made once for a problem: it is called a thousand times.
    """

    def __init__(self, problem: Problem) -> None:
        demands, now = problem.demands, problem.now
        self._now: Final = now
        self._left: Final = [demand.left for demand in demands]
        self._due: Final = [(demand.deadline, demand.late_per_s) for demand in demands]
        self._first_due: Final = min([due for due, _ in self._due], default=inf)
        late = [now + d.menu.slowest_s * d.left - d.deadline for d in demands]
        self._postponed: Final = [
            (i, POSTPONED * demands[i].late_per_s * late_s)
            for i, late_s in enumerate(late)
            if late_s > 0
        ]
        self._node: Final = {
            node: (number, kept)
            for number, pool in enumerate(problem.pools)
            for node, kept in zip(pool.nodes, pool.kept, strict=True)
        }
        self._pools: Final = problem.pools
        self._extras: Final = any([way.extra for d in demands for way in d.menu.ways])

    def __call__(self, assignment: Assignment) -> float:
        if not assignment:
            return inf
        left = self._left
        until_s = min([spot[0].seconds * left[i] for i, spot in assignment.items()])
        late = 0.0
        for i, cost in self._postponed:
            if i not in assignment:
                late += cost
        if self._now + until_s > self._first_due:
            late += self._late(sorted(assignment), self._now + until_s)
        return self.per_hour(assignment) * until_s / HOUR_S + late

    def _late(self, running: Sequence[int], at: Seconds) -> float:
        return sum(
            [rate * (at - due) for due, rate in map(self._due.__getitem__, running) if at > due]
        )

    def per_hour(self, assignment: Assignment) -> float:
        """Money per hour for the nodes while exactly these jobs run."""
        alike: dict[tuple[int, int, int], int] = {}  # nodes by pool and busy GPUs, kept and new
        for node, busy in busy_by_node(assignment).items():
            key = (*self._node[node], busy)
            alike[key] = alike.get(key, 0) + 1
        total = 0.0
        for (pool, kept, busy), number in sorted(alike.items()):  # so that equals cost the same
            rates = self._pools[pool].per_hour
            total += number * (rates[kept + busy] - rates[kept])
        if self._extras:
            total += sum([w.extra * self._pools[w.pool].factor for w, _ in assignment.values()])
        return total


def proxy(problem: Problem, assignment: Assignment) -> float:
    return Proxy(problem)(assignment)
