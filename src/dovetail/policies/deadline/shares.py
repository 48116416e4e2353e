"""Minimum satisfactory shares (ElasticFlow, ASPLOS 2023): the fewest GPUs that keep a deadline.

Jobs take their shares in order of deadline from the GPUs that are free ahead. A share is filled from
the deadline backwards, level by level: as late as it can be, with as few GPUs as will do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from dovetail.core.model import Seconds
from dovetail.policies.deadline.gpus_ahead import (
    GpusAhead,
    Slots,
    Steps,
    all_free,
    amounts,
    merged,
)

REPAIRS = 3
ROUNDING = 1e-6  # s: sums of floats may miss a deadline by that much


@dataclass(frozen=True, slots=True)
class DueWork:
    """What is left of a job, by when, and how fast it goes on each number of GPUs it may have."""

    left: float
    deadline: Seconds  # infinity: there is none
    counts: tuple[int, ...]  # rising
    rates: tuple[float, ...]  # work a second

    def level(self, free: int) -> int:
        """How many of its counts fit into so many GPUs."""
        return bisect_right(self.counts, free)

    def count(self, level: int) -> int:
        return self.counts[level - 1] if level else 0

    def rate(self, gpus: int) -> float:
        return self.rates[self.counts.index(gpus)]

    def larger(self, gpus: int) -> int | None:
        """The next count."""
        level = self.level(gpus)
        return self.counts[level] if level < len(self.counts) else None


@dataclass(frozen=True, slots=True)
class GpuShare:
    """How many GPUs from when on. They are its own `until` then, which is the end of a slot."""

    steps: Steps
    until: Seconds
    done_at: Seconds

    @property
    def now(self) -> int:
        return self.steps[0][1]

    def rest(self, now: Seconds) -> GpuShare:
        """What is yet to come of it."""
        (gpus,) = amounts(self.steps, (now,))
        later = [step for step in self.steps if step[0] > now]
        return GpuShare(((now, gpus), *later), max(self.until, now), max(self.done_at, now))

    def does(self, work: DueWork) -> bool:
        """Is the work done with it by its deadline?"""
        ends = [*[when for when, _ in self.steps[1:]], self.until]
        done = 0.0
        for (when, gpus), end in zip(self.steps, ends, strict=True):
            if gpus in work.counts:
                done += max(min(end, self.until, work.deadline) - when, 0.0) * work.rate(gpus)
        return done >= work.left - ROUNDING


@dataclass(slots=True)
class _Filling:
    """A share in the making: the periods `first` to `end` of `ahead` are those before the deadline
    in which there is a choice."""

    demand: DueWork
    grid: Slots
    ahead: GpusAhead
    due: Seconds  # the deadline, at the end of a slot
    left: float
    at: Seconds  # from when on there is a choice
    steps: list[tuple[Seconds, int]]
    first: int
    end: int

    def planned(self) -> GpuShare | None:
        """The share of the lowest level that does; None: none does."""
        fastest = 0.0
        for level, rate in enumerate(self.demand.rates, 1):
            fastest = max(fastest, rate)
            if (self.demand.deadline - self.at) * fastest < self.left - ROUNDING:
                continue
            turn = self._turn(level)
            if turn is not None:
                return self._forward(turn, level)
        return None

    def _turn(self, level: int) -> int | None:
        """From which period on that level does the work; None: not even from the first."""
        times, free, counts = self.ahead.times, self.ahead.free, self.demand.counts
        rates, wanted = self.demand.rates, counts[level - 1]
        rest, later = self.left, self.demand.deadline
        for k in range(self.end - 1, self.first - 1, -1):
            fits = level if free[k] >= wanted else bisect_right(counts, free[k], 0, level)
            if fits:
                rest -= (later - times[k]) * rates[fits - 1]
                if rest <= 0:
                    return k
            later = times[k]
        return None

    def _forward(self, turn: int, level: int) -> GpuShare:
        """With that level from period `turn` on, and one level less before it."""
        demand, times, free = self.demand, self.ahead.times, self.ahead.free
        counts, left, most = demand.counts, self.left, level - 1
        gpus, ended = (0, *counts), self.at
        for k in range(self.first, self.end):
            start, last = times[k], k == self.end - 1
            most = level if k == turn else most
            fits = most if free[k] >= gpus[most] else bisect_right(counts, free[k], 0, most)
            if not self.steps or self.steps[-1][1] != gpus[fits]:
                self.steps.append((start, gpus[fits]))
            if not fits:
                continue
            done = ((demand.deadline if last else times[k + 1]) - start) * demand.rates[fits - 1]
            if done >= left or last:
                seconds = self.grid.rounded(left / demand.rates[fits - 1])
                if not last:
                    self.steps.append((times[k + 1], 0))
                return self._share(start + self.grid.after(0, seconds), start + seconds)
            left, ended = left - done, times[k + 1]
        return self._share(ended, ended)  # what is left is a rounding

    def late(self, total: int, most: int | None) -> GpuShare:
        """As many GPUs as there are, also after the deadline, up to the end."""
        demand, ahead = self.demand, self.ahead
        starts = ahead.times[self.first : self.end]
        for k, end in enumerate([*starts[1:], demand.deadline][: len(starts)]):
            self._take(starts[k], end - starts[k], demand.level(ahead.free[self.first + k]))
        at = max(self.due, self.at)
        for later in [when for when in ahead.times if when > at]:
            level = demand.level(ahead.at(at))
            if level and (later - at) * demand.rates[level - 1] >= self.left:
                return self._ends(at, level)
            self._take(at, later - at, level)
            at = later
        return self._ends(at, demand.level(total if most is None else most))

    def _take(self, start: Seconds, lasts: Seconds, level: int) -> None:
        self.steps.append((start, self.demand.count(level)))
        if level:
            self.left -= lasts * self.demand.rates[level - 1]

    def _ends(self, start: Seconds, level: int) -> GpuShare:
        self.steps.append((start, self.demand.count(level)))
        if not level:
            return self._share(start, inf)  # there will never be as many
        done_at = self.grid.rounded(start + self.left / self.demand.rates[level - 1])
        return self._share(self.grid.after(self.ahead.now, done_at), done_at)

    def _share(self, until: Seconds, done_at: Seconds) -> GpuShare:
        steps = merged(self.steps)
        return GpuShare(tuple(zip(steps.times, steps.free, strict=True)), until, done_at)


def smallest_share(
    demand: DueWork, ahead: GpusAhead, total: int, grid: Slots, at_first: int | None = None
) -> GpuShare:
    """The fewest GPUs that keep the deadline, or all that there are where it cannot be kept.

    `at_first`: with so many until the next step, then as few as will do.
    """
    now = ahead.now
    due = grid.after(now, demand.deadline)
    left, at, steps = demand.left, now, []
    if at_first is not None:
        at = ahead.times[1] if len(ahead.times) > 1 else due
        rate = demand.rate(at_first)
        done_at = grid.rounded(now + left / rate)
        if at >= grid.after(now, done_at) and demand.deadline >= done_at:
            return GpuShare(((now, at_first),), grid.after(now, done_at), done_at)
        left -= ((demand.deadline if at == due else at) - now) * rate
        steps = [(now, at_first)]
    filling = _filling(demand, grid, ahead.cut(due), due, left, at, steps)
    return filling.planned() or filling.late(total, at_first)


def share_in_time(demand: DueWork, ahead: GpusAhead, grid: Slots) -> GpuShare | None:
    """The fewest GPUs that keep the deadline; None: it cannot be kept."""
    now = ahead.now
    due = grid.after(now, demand.deadline)
    return _filling(demand, grid, ahead.cut(due), due, demand.left, now, []).planned()


def _filling(
    demand: DueWork,
    grid: Slots,
    ahead: GpusAhead,
    due: Seconds,
    left: float,
    at: Seconds,
    steps: list[tuple[Seconds, int]],
) -> _Filling:
    first, end = bisect_left(ahead.times, at), bisect_left(ahead.times, due)
    return _Filling(demand, grid, ahead, due, left, at, steps, first, end)


@dataclass(frozen=True, slots=True)
class PromisedShares:
    """The shares of some works, in their order, and what they leave free."""

    shares: tuple[GpuShare, ...]
    ahead: GpusAhead
    late: tuple[int, ...]  # which of them miss their deadline


def promise(
    works: Sequence[DueWork], now: Seconds, total: int, slots: Slots, repairs: int = REPAIRS
) -> PromisedShares:
    """A share for each, in order of deadline (the first first among equals). Who is late that way is
    tried once more before all others, as long as that helps: jobs of a fixed size may need it."""
    order = sorted(range(len(works)), key=lambda i: works[i].deadline)
    best = _in_order(works, order, now, total, slots)
    for _ in range(repairs):
        if not best.late:
            break
        order = [*best.late, *[i for i in order if i not in best.late]]
        other = _in_order(works, order, now, total, slots)
        if len(other.late) >= len(best.late):
            break
        best = other
    return best


def _in_order(
    works: Sequence[DueWork], order: Sequence[int], now: Seconds, total: int, slots: Slots
) -> PromisedShares:
    ahead, shares = all_free(now, total), {}
    for i in order:
        shares[i] = share = smallest_share(works[i], ahead, total, slots)
        ahead = ahead.less(share.steps, share.until)
    in_order = tuple([shares[i] for i in range(len(works))])
    late = [i for i, share in enumerate(in_order) if share.done_at > works[i].deadline + ROUNDING]
    return PromisedShares(in_order, ahead, tuple(late))


def left_by(shares: Sequence[GpuShare], now: Seconds, total: int) -> GpusAhead:
    """What these shares leave free; below 0 where they have more than there is."""
    changes: dict[Seconds, int] = {now: 0}
    for share in shares:
        held = 0
        for when, gpus in share.steps:
            if when < share.until:
                changes[when] = changes.get(when, 0) + held - gpus
                held = gpus
        changes[share.until] = changes.get(share.until, 0) + held
    free, steps = total, []
    for when in sorted(changes):
        free += changes[when]
        steps.append((when, free))
    return merged(steps)


def saved_gpu_seconds(demand: DueWork, gpus: int, more: int) -> float:
    """What a GPU more saves of the GPU-time that the rest of the job takes; negative: it costs that.
    A job without GPUs comes first."""
    if not gpus:
        return inf
    before, after = gpus / demand.rate(gpus), more / demand.rate(more)
    return (before - after) * demand.left / (more - gpus)


def spread(works: Sequence[DueWork], counts: Sequence[int], spare: int) -> list[int]:
    """Give spare GPUs, one level at a time, to the job that saves the most GPU-time by it, as long as
    they make it faster."""
    counts = list(counts)
    heap: list[tuple[float, int, int]] = []
    for i, demand in enumerate(works):
        _offer(heap, i, demand, counts[i])
    while heap and spare:
        _, i, more = heappop(heap)
        if more - counts[i] <= spare:
            spare -= more - counts[i]
            counts[i] = more
            _offer(heap, i, works[i], more)
    return counts


def _offer(heap: list[tuple[float, int, int]], i: int, demand: DueWork, gpus: int) -> None:
    more = demand.larger(gpus)
    if more is not None and (not gpus or demand.rate(more) > demand.rate(gpus)):
        heappush(heap, (-saved_gpu_seconds(demand, gpus, more), i, more))
