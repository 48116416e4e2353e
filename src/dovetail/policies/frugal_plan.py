"""Frugal's decision: who runs now, how and where, so that energy and lateness together cost least.

A GPU on a node that is on anyway costs far less than one that needs a node switched on. So nobody opens
a node for the sake of being early: jobs with slack wait, ride on nodes that others need, or start
together when they fill a node. Jobs without slack start at once in their thriftiest way, and go faster
only as far as their deadline asks and as the value saved is worth the GPUs it takes. When there is not
enough for all, GPUs go to the most value per GPU-second, not to the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf
from typing import Final, NamedTuple, final

from dovetail.core.model import Seconds
from dovetail.models.hourly import HOUR_S
from dovetail.policies.frugal_floor import Floor, Seats
from dovetail.policies.frugal_ladder import AS_GOOD_AS_FULL, Ladder, Rates
from dovetail.policies.frugal_seating import Seat, Seating, settled

STAY: Final = 0.1  # part of its time that a running job must have as slack to be stopped
BLINK_S: Final = 1.0  # slack below this is none
KEEP: Final = 1.25  # by so much another must be worth more to be run in a job's stead
MUCH: Final = 50.0  # an exponent that is enough for anything
URGENCY: Final = (
    0.5  # a job that can still be saved later gives way to others by e per such part of it
)
FEWEST_GPUS: Final = 0.5  # what a faster way without more GPUs is counted as


@dataclass(frozen=True, slots=True)
class Task:
    """A job as the plan sees it.

    `at` is the way and the node it has now. `window` is how long it may run, from now to its deadline,
    without paying more than it has to; `dear`: not at this hour. Moving it takes `restart` seconds.
    """

    ladder: Ladder
    left: float  # part of the work
    deadline: Seconds
    late_per_s: float
    at: tuple[int, int] | None = None
    window: Seconds = inf
    dear: bool = False
    restart: Seconds = 0.0

    def needs(self, way: int) -> Seconds:
        return self.ladder.ways[way].seconds * self.left

    @property
    def usual(self) -> Seconds:
        """What it needs in its thriftiest way."""
        return self.ladder.ways[self.ladder.thrifty].seconds * self.left


class Decision(NamedTuple):
    seats: Mapping[int, tuple[int, int]]  # by task: its way and its node
    wake: Seconds  # when to look again though nothing has happened; inf: no need


def decide(
    now: Seconds,
    tasks: Sequence[Task],
    nodes: Sequence[Seats],
    rates: Rates,
    *,
    margin: float = 0.01,
    move: float = 0.0,
) -> Decision:
    """`margin`: part of its time by which a job is begun early; `move`: money for moving a job."""
    draft = _Draft(now, tasks, nodes, rates, margin, move)
    risky, crowded, easy = _by_slack(draft)
    _start(draft, risky)
    _take_steps(draft, [*_hurries(draft, risky), *_starts(draft, crowded)])
    _fill_nodes(draft, _ride(draft, easy))
    _speed_up_the_lonely(draft)
    return Decision(draft.settled(), _wake(draft))


@final
class _Draft:
    """The plan while it is made."""

    def __init__(
        self,
        now: Seconds,
        tasks: Sequence[Task],
        nodes: Sequence[Seats],
        rates: Rates,
        margin: float,
        move: float,
    ) -> None:
        self.now: Final = now
        self.tasks: Final = tasks
        self.rates: Final = rates
        self.margin: Final = 1.0 + margin
        self.move: Final = move
        self.floor: Final = Floor(nodes)
        self.seats: Final[dict[int, tuple[int, int]]] = {}  # by task: way and node
        self.before: Final[dict[int, int]] = {}  # the way of a hurried task but for the hurry
        self.slack: Final = [self._slack(task) for task in tasks]

    def _slack(self, task: Task) -> Seconds:
        until = task.deadline - self.now
        if not task.dear:
            until = min(until, task.window)
        return until - task.usual * self.margin - self.restart(task, task.ladder.thrifty)

    def restart(self, task: Task, way: int) -> Seconds:
        """Time lost before it makes progress that way; none if it just goes on."""
        return 0.0 if task.at is not None and task.at[0] == way else task.restart

    def moving(self, i: int) -> float:
        """Money that stopping or moving a running task costs."""
        task = self.tasks[i]
        waste = task.restart * task.ladder.shares[task.ladder.thrifty] / HOUR_S
        return self.move + waste + task.late_per_s * max(0.0, task.restart - self.slack[i])

    def hold(self, i: int) -> float:
        """How much more a task is worth where it runs than elsewhere: enough that taking turns wastes
        less time than it takes."""
        task = self.tasks[i]
        if task.at is None:
            return 1.0
        return KEEP * exp(min(2.0 * task.restart / (URGENCY * max(task.usual, BLINK_S)), MUCH))

    def must_go_on(self, i: int) -> bool:
        """It was started for want of slack and has hardly gained any: stopping it is not worth it."""
        task = self.tasks[i]
        return task.at is not None and self.slack[i] < STAY * task.usual + task.restart

    def late(self, i: int, way: int) -> Seconds:
        """By how much the task would miss its deadline that way, half of the margin used up."""
        task = self.tasks[i]
        needs = task.needs(way) * (1.0 + self.margin) / 2 + self.restart(task, way)
        return self.now + needs - task.deadline

    def room(self, i: int, way: int, opening: bool = True, but: int = -1) -> int | None:
        option = self.tasks[i].ladder.ways[way]
        return self.floor.room(option.pool, option.gpus, opening, but)

    def put(self, i: int, way: int, n: int) -> None:
        self.floor.put(i, n, self.tasks[i].ladder.ways[way].gpus)
        self.seats[i] = way, n

    def take(self, i: int) -> tuple[int, int]:
        way, n = self.seats.pop(i)
        self.floor.take(i, n)
        return way, n

    def settled(self) -> dict[int, tuple[int, int]]:
        seats = [
            Seat(i, way, n, self.tasks[i].ladder.ways[way].gpus, self.tasks[i].at)
            for i, (way, n) in self.seats.items()
        ]
        return settled(self.floor.nodes, seats, self._dearer)

    def _dearer(self, near: Seating, far: Seating) -> bool:
        """Is it dearer to go far, where fewer nodes do, than to stay near?"""
        moved = [i for i, seat in far.items() if self.tasks[i].at not in (None, seat, near[i])]
        hours = sum([self.tasks[i].usual for i in moved]) / max(len(moved), 1) / HOUR_S
        saved = (self._per_hour(near) - self._per_hour(far)) * hours
        return sum([self.moving(i) for i in moved]) > saved

    def _per_hour(self, seating: Seating) -> float:
        nodes, busy = self.floor.nodes, dict[int, int]()
        for i, (way, n) in seating.items():
            busy[n] = busy.get(n, nodes[n].taken) + self.tasks[i].ladder.ways[way].gpus
        return sum([self.rates[nodes[n].pool][gpus] for n, gpus in busy.items()])

    def try_to_put(self, i: int, way: int, opening: bool = True) -> bool:
        n = self.room(i, way, opening)
        if n is not None:
            self.put(i, way, n)
        return n is not None


def _by_slack(draft: _Draft) -> tuple[list[int], list[int], list[int]]:
    """Those that must run now, the most value per GPU-second first; those that had better, as many
    stand before them; and those that need not, the running ones and the least slack first. Whoever
    waits for a cheaper hour is in none of them."""
    behind = _crowded(draft)
    risky, crowded, easy = [], [], []
    for i, slack in enumerate(draft.slack):
        if slack <= BLINK_S or draft.must_go_on(i):
            risky.append(i)
        elif i in behind:
            crowded.append(i)
        elif not draft.tasks[i].dear:
            easy.append(i)
    risky.sort(key=lambda i: -_density(draft.tasks[i]) * draft.hold(i))
    easy.sort(key=lambda i: (draft.tasks[i].at is None, draft.slack[i]))
    return risky, crowded, easy


def _crowded(draft: _Draft) -> set[int]:
    """Jobs with slack behind so many others of their pool that it may not be enough."""
    pools = [_pool(task) for task in draft.tasks]
    most, crowded = draft.floor.most, set()
    gpus, work = dict.fromkeys(pools, 0), dict.fromkeys(pools, 0.0)  # GPUs and GPU-seconds ahead
    for i in sorted(range(len(pools)), key=draft.slack.__getitem__):
        pool, task = pools[i], draft.tasks[i]
        more = task.ladder.ways[task.ladder.thrifty].gpus
        there = most.get(pool, 0)
        if gpus[pool] + more > there and work[pool] >= draft.slack[i] * there:
            crowded.add(i)
        gpus[pool] += more
        work[pool] += more * task.usual
    return crowded


def _density(task: Task) -> float:
    """Lateness avoided per GPU-second, as in Smith's rule."""
    gpus = task.ladder.ways[task.ladder.thrifty].gpus
    return task.late_per_s / (gpus * max(task.usual, BLINK_S))


def _start(draft: _Draft, line: Iterable[int]) -> None:
    for i in line:
        first = draft.tasks[i].ladder.thrifty
        if not draft.try_to_put(i, first):
            for climb in draft.tasks[i].ladder.climbs[1:]:
                if draft.try_to_put(i, climb[0]):
                    break


class _Step(NamedTuple):
    """Something to give a task GPUs for, ordered by what it is worth: to start, or to go faster."""

    worth: float  # per GPU; negative, so that the best comes first
    gain: float  # money per second, negative
    task: int
    way: int


def _take_steps(draft: _Draft, steps: Iterable[_Step]) -> None:
    """As long as there are GPUs for them."""
    for step in sorted(steps):
        if not draft.floor.all_free:
            return
        if step.task not in draft.seats:
            _start(draft, [step.task])
        elif step.task not in draft.before:
            _try_to_climb(draft, step)


def _starts(draft: _Draft, crowded: Iterable[int]) -> Iterator[_Step]:
    for i in crowded:
        task = draft.tasks[i]
        can_wait = exp(-draft.slack[i] / (URGENCY * task.usual))
        gpus = task.ladder.ways[task.ladder.thrifty].gpus
        worth = task.late_per_s / gpus * can_wait * draft.hold(i)
        yield _Step(-worth, -task.late_per_s, i, task.ladder.thrifty)


def _hurries(draft: _Draft, risky: Iterable[int]) -> Iterator[_Step]:
    """Faster ways for those that would be late."""
    for i in risky:
        if i in draft.seats and draft.late(i, draft.seats[i][0]) > BLINK_S:
            yield from _climbs(draft, i)


def _climbs(draft: _Draft, i: int) -> Iterator[_Step]:
    task, current = draft.tasks[i], draft.seats[i][0]
    ways, shares = task.ladder.ways, task.ladder.shares
    usual, late = ways[task.ladder.thrifty].seconds, draft.late(i, current)
    spare = max(0.0, task.deadline - draft.now - task.ladder.fastest * task.left)
    can_wait = exp(-spare / (URGENCY * task.usual))
    for way in _next_ways(draft, i, current):
        there = task.at is not None and task.at[0] == way
        saved = min(late, draft.late(i, current) - draft.late(i, way))
        gain = task.late_per_s * usual * (1.0 / ways[way].seconds - 1.0 / ways[current].seconds)
        if gain * HOUR_S <= shares[way] - shares[current] or task.late_per_s * saved <= draft.move:
            continue
        more = max(ways[way].gpus - ways[current].gpus, FEWEST_GPUS)
        worth = gain / more * can_wait * (draft.hold(i) if there else 1.0)
        yield _Step(-worth, -gain, i, way)


def _next_ways(draft: _Draft, i: int, current: int) -> Iterator[int]:
    """Of each pool the slowest way that is in time, else the fastest."""
    ladder = draft.tasks[i].ladder
    for climb in ladder.climbs:
        faster = [way for way in climb if ladder.ways[way].seconds < ladder.ways[current].seconds]
        if faster:
            yield next((way for way in faster if draft.late(i, way) <= 0), faster[-1])


def _try_to_climb(draft: _Draft, climb: _Step) -> None:
    before, home = draft.take(climb.task)
    n = draft.room(climb.task, climb.way)
    if n is None:
        n = _cleared(draft, climb)
    if n is None:
        draft.put(climb.task, before, home)
        return
    draft.put(climb.task, climb.way, n)
    draft.before[climb.task] = before


def _cleared(draft: _Draft, climb: _Step) -> int | None:
    """A node made free for the task by moving others, if they lose less than it gains."""
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


def _moved(draft: _Draft, guest: int, n: int) -> float:
    """Moves the guest of a node elsewhere and says what it loses a second; inf if it cannot go."""
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


def _ride(draft: _Draft, easy: Iterable[int]) -> list[int]:
    """Puts jobs with slack on nodes that are on anyway; returns the others."""
    return [
        i for i in easy if not draft.try_to_put(i, draft.tasks[i].ladder.thrifty, opening=False)
    ]


def _fill_nodes(draft: _Draft, waiting: Iterable[int]) -> None:
    """Opens nodes for jobs with slack that fill them: cheaper it will never be."""
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
                draft.put(i, draft.tasks[i].ladder.thrifty, n)


def _party(draft: _Draft, line: Iterable[int], n: int) -> list[int]:
    """The most of the line that are worth switching the node on for."""
    node = draft.floor.nodes[n]
    rate = draft.rates[node.pool]
    party: list[int] = []
    worth, gpus, enough = 0.0, 0, 0
    for i in line:
        ladder = draft.tasks[i].ladder
        more = ladder.ways[ladder.thrifty].gpus
        if gpus + more > node.gpus:
            continue
        party.append(i)
        gpus += more
        worth += ladder.shares[ladder.thrifty] + _worth_of_staying(draft, i)
        if worth * AS_GOOD_AS_FULL >= rate[gpus]:
            enough = len(party)
        if gpus == node.gpus:
            break
    return party[:enough]


def _worth_of_staying(draft: _Draft, i: int) -> float:
    """Money per hour, for as long as the task has to run."""
    task = draft.tasks[i]
    return 0.0 if task.at is None else draft.moving(i) * HOUR_S / max(task.usual, BLINK_S)


def _pool(task: Task) -> int:
    return task.ladder.ways[task.ladder.thrifty].pool


def _speed_up_the_lonely(draft: _Draft) -> None:
    """A job alone on its node pays for all of it: faster may be cheaper."""
    for n, guests in enumerate(draft.floor.guests):
        if len(guests) == 1 and not draft.floor.nodes[n].taken:
            _speed_up(draft, next(iter(guests)), n)


def _speed_up(draft: _Draft, i: int, n: int) -> None:
    task, node = draft.tasks[i], draft.floor.nodes[n]
    rate, ways = draft.rates[node.pool], task.ladder.ways
    costs = {
        way: rate[option.gpus] * task.needs(way) / HOUR_S
        for way, option in enumerate(ways)
        if option.pool == node.pool and option.gpus <= node.gpus
    }
    best, current = min(costs, key=costs.__getitem__), draft.seats[i][0]
    moves = task.at is not None and ways[task.at[0]].gpus != ways[best].gpus
    gain = costs[current] - costs[best] - draft.move * moves
    if ways[best].seconds < ways[current].seconds and gain > 0:
        draft.take(i)
        draft.put(i, best, n)


def _wake(draft: _Draft) -> Seconds:
    """When a waiting job's slack is used up, or a hurried one has caught up."""
    wake = inf
    for i, slack in enumerate(draft.slack):
        if i not in draft.seats and slack > BLINK_S:
            wake = min(wake, draft.now + slack)
    for i, before in draft.before.items():
        task, way = draft.tasks[i], draft.seats[i][0]
        usual = task.ladder.ways[before].seconds * draft.margin
        speed = usual / task.ladder.ways[way].seconds - 1.0
        behind = usual * task.left - (task.deadline - draft.now)
        if speed > 0 < behind:
            wake = min(wake, draft.now + max(behind / speed, BLINK_S))
    return wake
