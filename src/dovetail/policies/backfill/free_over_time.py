"""How much of something will be free at which time, and the earliest gap that is wide enough."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import frexp, inf
from typing import Final, final

from dovetail.core.model import Seconds

_STEPS = 64  # of a block, when it is made
_CLASSES = 64  # of lengths: below 1 s, below 2 s, below 4 s and so on


@final
class _Block:
    """Some steps in a row; what is taken from all of them is noted once."""

    def __init__(self, times: list[Seconds], free: list[int]) -> None:
        self.times: Final = times
        self.free: Final = free  # before that was taken
        self.taken = 0
        self.low = 0  # the least of them
        self.high = 0  # none has more
        self.sum_up()

    def sum_up(self) -> None:
        self.low = min(self.free) - self.taken
        self.high = max(self.free) - self.taken

    def take(self, first: int, last: int, amount: int) -> None:
        """From the steps between these."""
        if last - first == len(self.times):
            self.taken += amount
            self.low -= amount
            self.high -= amount
        elif last > first:
            part = [left - amount for left in self.free[first:last]]
            self.free[first:last] = part
            self.low = min(self.low, min(part) - self.taken)


@final
class FreeOverTime:
    """A step function of time, from now on. Only ever taken from: what is free can but shrink.

    The steps lie in blocks that know the most and the least that is free in them: most of them are
    passed over as a whole.
    """

    def __init__(self, now: Seconds, free: int, releases: Iterable[tuple[Seconds, int]]) -> None:
        # By amount, then by k: before that time it was not free for 2**(k - 1) seconds or longer.
        self._known: Final[dict[int, list[Seconds]]] = {}
        self._blocks: list[_Block] = []
        self._firsts: list[Seconds] = []  # the first time of each
        steps = {now: free}
        for at, amount in sorted(releases):
            free += amount
            steps[at] = free  # the last of several at one time
        self._cut(list(steps), list(steps.values()))

    def _cut(self, times: list[Seconds], free: list[int]) -> None:
        cuts = range(0, len(times), _STEPS)
        self._blocks = [_Block(times[i : i + _STEPS], free[i : i + _STEPS]) for i in cuts]
        self._firsts = [block.times[0] for block in self._blocks]

    def advance(self, now: Seconds) -> None:
        """Forget the past."""
        passed = max(bisect_right(self._firsts, now) - 1, 0)
        del self._firsts[:passed], self._blocks[:passed]
        block = self._blocks[0]
        passed = bisect_right(block.times, now) - 1
        if passed > 0:
            del block.times[:passed], block.free[:passed]
            block.sum_up()
        self._firsts[0] = block.times[0] = now

    @property
    def free_now(self) -> int:
        return self._blocks[0].free[0] - self._blocks[0].taken

    def lasts(self, amount: int) -> Seconds:
        """Until when as much is free from now on without a break; minus infinity: it is not."""
        if self.free_now < amount:
            return -inf
        short = self._first_short(0, 1, amount, inf)
        return inf if short is None else self._blocks[short[0]].times[short[1]]

    def earliest(self, amount: int, length_s: Seconds, not_before: Seconds) -> Seconds:
        """The first time from which as much is free for that long."""
        known = self._known.get(amount)
        if known is None:
            known = self._known[amount] = [-inf] * _CLASSES
        length_class = min(max(frexp(length_s)[1], 0), _CLASSES - 1)
        hint = max(known[length_class], self._firsts[0])
        if not_before > hint:
            return self._search(amount, length_s, not_before)
        start = self._search(amount, length_s, hint)
        for longer in range(length_class + 1, _CLASSES):
            if known[longer] >= start:
                break
            known[longer] = start
        return start

    def _search(self, amount: int, length_s: Seconds, not_before: Seconds) -> Seconds:
        b = bisect_right(self._firsts, not_before) - 1
        i = bisect_right(self._blocks[b].times, not_before) - 1
        while True:
            enough = self._first_enough(b, i, amount)
            if enough is None:
                return inf
            b, i = enough
            start = max(self._blocks[b].times[i], not_before)
            short = self._first_short(b, i + 1, amount, start + length_s)
            if short is None:
                return start
            b, i = short

    def _first_enough(self, b: int, i: int, amount: int) -> tuple[int, int] | None:
        """The first step from there on with as much."""
        for number in range(b, len(self._blocks)):
            block = self._blocks[number]
            if block.high >= amount:
                edge, free = amount + block.taken, block.free
                for step in range(i, len(free)):
                    if free[step] >= edge:
                        return number, step
                if not i:
                    block.high = amount - 1
            i = 0
        return None

    def _first_short(self, b: int, i: int, amount: int, end: Seconds) -> tuple[int, int] | None:
        """The first step from there on, before the end, with less."""
        for number in range(b, len(self._blocks)):
            block = self._blocks[number]
            if number > b and block.times[0] >= end:
                return None
            if block.low < amount:
                edge, free, times = amount + block.taken, block.free, block.times
                for step in range(i, len(free)):
                    if free[step] < edge:
                        return None if times[step] >= end else (number, step)
            i = 0
        return None

    def take(self, start: Seconds, end: Seconds, amount: int) -> None:
        if start >= end or not amount:
            return
        self._make_step(start)
        self._make_step(end)
        (b, i), (last, till) = self._step_at(start), self._step_at(end)
        blocks = self._blocks
        if b == last:
            blocks[b].take(i, till, amount)
            return
        blocks[b].take(i, len(blocks[b].times), amount)
        for block in blocks[b + 1 : last]:  # as a block does, written out: there are many
            block.taken += amount
            block.low -= amount
            block.high -= amount
        blocks[last].take(0, till, amount)

    def _step_at(self, at: Seconds) -> tuple[int, int]:
        b = bisect_right(self._firsts, at) - 1
        return b, bisect_left(self._blocks[b].times, at)

    def _make_step(self, at: Seconds) -> None:
        """One that begins at that time, if there is none."""
        b, i = self._step_at(at)
        block = self._blocks[b]
        if i < len(block.times) and block.times[i] == at:
            return
        block.times.insert(i, at)
        block.free.insert(i, block.free[i - 1])
        if len(block.times) > 2 * _STEPS:
            self._split(b)

    def _split(self, b: int) -> None:
        block = self._blocks[b]
        other = _Block(block.times[_STEPS:], [left - block.taken for left in block.free[_STEPS:]])
        del block.times[_STEPS:], block.free[_STEPS:]
        block.sum_up()
        self._blocks.insert(b + 1, other)
        self._firsts.insert(b + 1, other.times[0])


def earliest_in_all(
    profiles: Sequence[FreeOverTime], amount: int, length_s: Seconds, not_before: Seconds
) -> Seconds:
    """The first time from which as much is free in each of these."""
    at = profiles[0].earliest(amount, length_s, not_before)
    agreed = 1
    i = 0
    while agreed < len(profiles) and at < inf:
        i = (i + 1) % len(profiles)
        later = profiles[i].earliest(amount, length_s, at)
        agreed = agreed + 1 if later == at else 1
        at = later
    return at
