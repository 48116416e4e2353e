"""The cost of continuing by an order: jobs and nodes in brief, simulated to the end.

As if no other job came: the first in order gets GPUs, event by event, until all jobs have ended;
energy, lateness and interruptions are counted. Nothing here knows of a view.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple, TypeAlias, final

from dovetail.core.model import WHOLE_GPU, Seconds
from dovetail.models.hourly import HOUR_S
from dovetail.policies.frugal.draft import BLINK_S
from dovetail.policies.frugal.ladder import Rates

NOTHING: Final = 1e-9  # part of a job that counts as done
EVENTS: Final = 60  # a rehearsal looks no further ahead
NEW_NODE: Final = 1 << 30  # nodes to switch on come after nodes that are on


class RehearsalWay(NamedTuple):
    """A way to run a job: thousandths of GPUs on a node of a pool, or over several (`apart`); the
    duration of the whole job; money per hour on a node full of equal jobs, and beyond the node's
    rates."""

    pool: int
    need: int
    seconds: Seconds
    per_hour: float
    apart: bool = False
    limit: int = 0  # watts that each GPU may draw
    extra: float = 0.0


class RehearsalSeat(NamedTuple):
    course: RehearsalWay
    nodes: tuple[tuple[int, int], ...]  # the node, and thousandths of GPUs there


class RehearsedJob(NamedTuple):
    """`fixed`: it may not be stopped; `delay`: seconds without progress where it is; `begun`: it
    has to be restored when it starts elsewhere."""

    courses: tuple[RehearsalWay, ...]  # the cheapest first
    left: float
    deadline: Seconds
    late_per_s: float
    save_s: Seconds = 0.0
    restore_s: Seconds = 0.0
    begun: bool = False
    fixed: bool = False
    delay: Seconds = 0.0
    seat: RehearsalSeat | None = None
    tenant: str = ""


class RehearsedNode(NamedTuple):
    """Its pool, its thousandths of GPUs, and how many of them the rehearsal may use."""

    pool: int
    all: int
    ours: int


class RehearsalScene(NamedTuple):
    """The data of every rehearsal. `move`: money for each stopped job; `quotas`: by tenant,
    thousandths of GPUs that its jobs may have; `margin`: as in the policy."""

    now: Seconds
    parts: Sequence[RehearsedJob]
    stands: Sequence[RehearsedNode]
    rates: Rates
    move: float = 0.0
    quotas: Mapping[str, float] = {}
    margin: float = 0.0


Order: TypeAlias = Callable[["Rehearsal", int], float]  # smaller goes first


@final
class Rehearsal:
    """Jobs are numbered by their place among the parts. The first in order gets free GPUs or, if
    `displacing`, those of jobs behind it; if `lazy`, jobs that can wait only ride on nodes that are
    on, or fill one together."""

    def __init__(self, scene: RehearsalScene, order: Order, displacing: bool, lazy: bool) -> None:
        self.now = scene.now
        self.spent = 0.0  # money, for energy and moves
        self.late = 0.0  # money as well
        self.scene: Final = scene
        self.parts: Final = scene.parts
        self.left: Final = [part.left for part in scene.parts]
        self.seats: Final[list[RehearsalSeat | None]] = [None] * len(scene.parts)
        self._order: Final = order
        self._displacing: Final = displacing
        self._lazy: Final = lazy
        self._delay: Final = [part.delay for part in scene.parts]
        self._begun: Final = [part.begun for part in scene.parts]
        self._free: Final = [stand.ours for stand in scene.stands]
        self._all_free = sum(self._free)
        self._quotas: Final = dict(scene.quotas)
        self._alive: Final = list(range(len(scene.parts)))
        self._fastest: Final = [min(map(_seconds, part.courses)) for part in scene.parts]
        self._cheapest: Final = [min(map(_money, part.courses)) for part in scene.parts]
        self._pools: Final[dict[int, list[int]]] = {}
        for n, stand in enumerate(scene.stands):
            self._pools.setdefault(stand.pool, []).append(n)
        for i, part in enumerate(scene.parts):
            if part.seat is not None:
                self._sit(i, part.seat)

    def left_s(self, i: int) -> Seconds:
        """Seconds left where it is, or in its thriftiest way."""
        seat = self.seats[i]
        course = self.parts[i].courses[0] if seat is None else seat.course
        return max(self.left[i] * course.seconds, NOTHING)

    def slack(self, i: int) -> Seconds:
        part = self.parts[i]
        restore = part.restore_s if self._begun[i] else 0.0
        usual = self.left[i] * part.courses[0].seconds * (1.0 + self.scene.margin)
        return part.deadline - self.now - usual - restore

    # -------------------------------------------------------------------------------------- seats

    def _sit(self, i: int, seat: RehearsalSeat, sign: int = 1) -> None:
        self.seats[i] = seat if sign > 0 else None
        for n, need in seat.nodes:
            self._free[n] -= sign * need
        self._all_free -= sign * seat.course.need
        if self.parts[i].tenant in self._quotas:
            self._quotas[self.parts[i].tenant] -= sign * seat.course.need

    def _leave(self, i: int) -> None:
        seat = self.seats[i]
        assert seat is not None
        self._sit(i, seat, -1)

    def _start(self, i: int, seat: RehearsalSeat, after: Seconds = 0.0) -> None:
        self._sit(i, seat)
        self._delay[i] = after + (self.parts[i].restore_s if self._begun[i] else 0.0)
        self._begun[i] = True

    def _stop(self, i: int) -> Seconds:
        """Stop the job; the seconds for which its GPUs are still busy."""
        self._leave(i)
        self.spent += self.scene.move
        return self.parts[i].save_s

    def take(self, seats: Sequence[RehearsalSeat | None]) -> None:
        """Give the jobs these seats from now on."""
        before, saving = list(self.seats), 0.0
        changed = [i for i, seat in enumerate(seats) if seat != before[i]]
        for i in changed:
            old, new = before[i], seats[i]
            if old is not None and new is not None and new.nodes == old.nodes:
                self.seats[i] = new  # with another power limit
            elif old is not None:
                saving = max(saving, self._stop(i))
        for i in changed:
            seat = seats[i]
            if seat is not None and self.seats[i] is None:
                self._start(i, seat, saving)

    # ------------------------------------------------------------------------------------ filling

    def fill(self, but: Collection[int] = ()) -> None:
        """Give GPUs to waiting jobs, except for those in `but`, which may go on waiting."""
        seats = self.seats
        waiting = [i for i in self._alive if seats[i] is None and i not in but]
        if not waiting or not (self._displacing or self._all_free):
            return
        patient = [i for i in waiting if self.slack(i) > BLINK_S] if self._lazy and not but else []
        late = [i for i in waiting if i not in patient] if patient else waiting
        running = [i for i in self._alive if seats[i] is not None] if self._displacing else []
        keys = {i: self._order(self, i) for i in (*late, *running)}
        line = sorted(keys, key=keys.__getitem__)
        for place, i in enumerate(line):
            if not (self._displacing or self._all_free):
                break
            if seats[i] is None:
                self._let_in(i, line[place + 1 :] if self._displacing else ())
        self._ride(sorted(patient, key=self.slack))

    def _let_in(self, i: int, behind: Sequence[int]) -> None:
        courses = [course for course in self._ranked(i) if self._within_quota(i, course)]
        for course in courses:
            seat = self._room(course) if course.need <= self._all_free else None
            if seat is not None:
                self._start(i, seat)
                return
        if self._displacing:
            self._take_over(i, courses, behind)

    def _ranked(self, i: int) -> Sequence[RehearsalWay]:
        """The ways that are in time, the cheapest first; then the others, the fastest first."""
        courses, left = self.parts[i].courses, self.left[i]
        if len(courses) == 1:
            return courses
        longest = self.parts[i].deadline - self.now
        in_time = [course for course in courses if course.seconds * left <= longest]
        late = [course for course in courses if course.seconds * left > longest]
        return [*in_time, *sorted(late, key=_seconds)]

    def _within_quota(self, i: int, course: RehearsalWay) -> bool:
        return course.need <= self._quotas.get(self.parts[i].tenant, inf)

    def _room(self, course: RehearsalWay, opening: bool = True) -> RehearsalSeat | None:
        """The used node with the fewest sufficient free GPUs, else one to switch on; if `apart`, as
        few nodes as possible."""
        if course.apart:
            return self._over_nodes(course)
        stands, best, least = self.scene.stands, -1, NEW_NODE if not opening else 2 * NEW_NODE
        for n in self._pools.get(course.pool, ()):
            free = self._free[n]
            if free >= course.need:
                rank = free if free < stands[n].all else free + NEW_NODE
                if rank < least:
                    best, least = n, rank
        return None if best < 0 else RehearsalSeat(course, ((best, course.need),))

    def _over_nodes(self, course: RehearsalWay) -> RehearsalSeat | None:
        pieces, need = list[tuple[int, int]](), course.need
        for n in sorted(self._pools.get(course.pool, ()), key=lambda n: (-self._free[n], n)):
            more = min(need, _whole(self._free[n]))
            if more:
                pieces.append((n, more))
                need -= more
            if need <= 0:
                return RehearsalSeat(course, tuple(pieces))
        return None

    def _take_over(self, i: int, courses: Iterable[RehearsalWay], behind: Sequence[int]) -> None:
        """Take GPUs of the jobs behind it, the last first."""
        parts, seats = self.parts, self.seats
        weak = [j for j in reversed(behind) if seats[j] is not None and not parts[j].fixed]
        for course in courses if weak else ():
            victims = self._victims(course, weak)
            if victims:
                saving = max([self._stop(j) for j in victims])
                seat = self._room(course)
                assert seat is not None
                self._start(i, seat, saving)
                return

    def _victims(self, course: RehearsalWay, weak: Sequence[int]) -> list[int]:
        """The jobs to stop for that course; none if it would not be enough. On one node, as few
        GPUs as possible."""
        nodes = self._pools.get(course.pool, [])
        found = [self._freeing(course, group, weak) for group in _groups(nodes, course.apart)]
        return min([some for some in found if some], key=self._gpus, default=[])

    def _freeing(
        self, course: RehearsalWay, nodes: Sequence[int], weak: Sequence[int]
    ) -> list[int]:
        free, found = {n: self._free[n] for n in nodes}, list[int]()
        for j in weak:
            seat = self.seats[j]
            assert seat is not None
            here = [(n, need) for n, need in seat.nodes if n in free]
            if not here:
                continue
            found.append(j)
            for n, need in here:
                free[n] += need
            there = (
                sum([_whole(some) for some in free.values()]) if course.apart else free[nodes[0]]
            )
            if there >= course.need:
                return found
        return []

    def _gpus(self, victims: Iterable[int]) -> int:
        return sum([seat.course.need for j in victims if (seat := self.seats[j]) is not None])

    def _ride(self, patient: Iterable[int]) -> None:
        """On nodes that are on; else as many as fill a node."""
        lines: dict[int, list[int]] = {}
        for i in patient:
            course = self.parts[i].courses[0]
            if not self._within_quota(i, course):
                continue
            seat = self._room(course, opening=False)
            if seat is not None:
                self._start(i, seat)
            else:
                lines.setdefault(course.pool, []).append(i)
        for pool, line in lines.items():
            self._fill_nodes(pool, line)

    def _fill_nodes(self, pool: int, line: list[int]) -> None:
        for n in self._pools.get(pool, ()):
            free, party = self._free[n], list[int]()
            if free < self.scene.stands[n].all:
                continue
            for i in line:
                course = self.parts[i].courses[0]
                if course.need <= free and not course.apart and self._within_quota(i, course):
                    party.append(i)
                    free -= course.need
            if free:
                return
            for i in party:
                line.remove(i)
                course = self.parts[i].courses[0]
                self._start(i, RehearsalSeat(course, ((n, course.need),)))

    # --------------------------------------------------------------------------------------- time

    def play(self, limit: float = inf) -> float:
        """The cost of going on to the end from the present seats; inf if it is not below the limit."""
        for _ in range(EVENTS):
            if self.spent + self.late + self._at_least() >= limit:
                return inf
            running = [i for i in self._alive if self.seats[i] is not None]
            events = [self._ends_in(i) for i in running]
            if self._lazy:
                waiting = [self.slack(i) for i in self._alive if self.seats[i] is None]
                events += [max(slack, BLINK_S) for slack in waiting if slack > 0]
            if not events:
                break
            self._pass(running, min(events))
            self.fill()
        self._count_the_rest()
        return self.spent + self.late

    def _at_least(self) -> float:
        """The least cost of the jobs that have not ended: each at once, at its fastest and its
        cheapest."""
        total = 0.0
        for i in self._alive:
            part, left = self.parts[i], self.left[i]
            late_s = self.now + self._fastest[i] * left - part.deadline
            total += self._cheapest[i] * left + (part.late_per_s * late_s if late_s > 0 else 0.0)
        return total

    def _ends_in(self, i: int) -> Seconds:
        return self._delay[i] + self.left_s(i)

    def _pass(self, running: Iterable[int], lasts: Seconds) -> None:
        self.spent += self._per_hour(running) * lasts / HOUR_S
        self.now += lasts
        for i in running:
            seat = self.seats[i]
            assert seat is not None
            waited = min(self._delay[i], lasts)
            self._delay[i] -= waited
            self.left[i] -= (lasts - waited) / seat.course.seconds
            if self.left[i] <= NOTHING:
                self._leave(i)
                self._alive.remove(i)
                self._count_late(i, self.now)

    def _per_hour(self, running: Iterable[int]) -> float:
        total = sum([seat.course.extra for i in running if (seat := self.seats[i]) is not None])
        for stand, free in zip(self.scene.stands, self._free, strict=True):
            if free < stand.all:
                total += self.scene.rates[stand.pool][-((free - stand.all) // WHOLE_GPU)]
        return total

    def _count_late(self, i: int, end: Seconds) -> None:
        part = self.parts[i]
        self.late += part.late_per_s * max(0.0, end - part.deadline)

    def _count_the_rest(self) -> None:
        """Charge the jobs that have not ended, as if each began now."""
        for i in self._alive:
            self._count_late(i, self.now + self._ends_in(i))
            self.spent += self._cheapest[i] * self.left[i]


def _seconds(course: RehearsalWay) -> Seconds:
    return course.seconds


def _money(course: RehearsalWay) -> float:
    return course.per_hour * course.seconds / HOUR_S


def _whole(free: int) -> int:
    return free // WHOLE_GPU * WHOLE_GPU


def _groups(nodes: list[int], apart: bool) -> list[list[int]]:
    """The sets of nodes that could be cleared together."""
    return [nodes] if apart else [[n] for n in nodes]
