"""GPUs free from now on as a step function of time that can be taken from and given back."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import TypeAlias

from dovetail.core.model import Seconds

Steps: TypeAlias = tuple[tuple[Seconds, int], ...]  # so many GPUs from each of these times on


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of time: what is given is given for whole ones, and ends are told in whole seconds.
    `slot_s` 0: there are none."""

    slot_s: Seconds = 0.0

    def rounded(self, seconds: Seconds) -> Seconds:
        return ceil(seconds) if self.slot_s else seconds

    def after(self, start: Seconds, at: Seconds) -> Seconds:
        """The first end of a slot at that time or later, counted from `start`."""
        if not self.slot_s or at == inf:
            return at
        slots, rest = divmod(at - start, self.slot_s)
        return start + (slots + (rest > 0)) * self.slot_s


@dataclass(frozen=True, slots=True)
class GpusAhead:
    """`free[i]` GPUs are free from `times[i]` on; the first time is now."""

    times: tuple[Seconds, ...]
    free: tuple[int, ...]

    @property
    def now(self) -> Seconds:
        return self.times[0]

    def at(self, when: Seconds) -> int:
        return self.free[bisect_right(self.times, when) - 1]

    def cut(self, when: Seconds) -> GpusAhead:
        """The same, with a step at that time."""
        place = bisect_left(self.times, when)
        if (
            when < self.now
            or when == inf
            or (place < len(self.times) and self.times[place] == when)
        ):
            return self
        times = (*self.times[:place], when, *self.times[place:])
        return GpusAhead(times, (*self.free[:place], self.free[place - 1], *self.free[place:]))

    def less(self, steps: Steps, until: Seconds) -> GpusAhead:
        """What is left when these GPUs are taken, the last of them until then."""
        return self._changed(steps, until, -1)

    def plus(self, steps: Steps, until: Seconds) -> GpusAhead:
        return self._changed(steps, until, 1)

    def _changed(self, steps: Steps, until: Seconds, sign: int) -> GpusAhead:
        """Only from the first of these GPUs on, up to then, is it another."""
        at = max(next((when for when, gpus in steps if gpus), inf), self.now)
        if at >= until:
            return self
        times, free = self.times, self.free
        first = i = bisect_right(times, at) - 1
        k = max([n for n, (when, _) in enumerate(steps) if when <= at])
        new_times, new_free = list(times[:first]), list(free[:first])
        if times[first] < at:
            new_times.append(times[first])
            new_free.append(free[first])
        while at < until:
            left = free[i] + sign * steps[k][1]
            if not new_free or new_free[-1] != left:
                new_times.append(at)
                new_free.append(left)
            next_period = times[i + 1] if i + 1 < len(times) else inf
            next_step = steps[k + 1][0] if k + 1 < len(steps) else inf
            at = min(next_period, next_step, until)
            i += at == next_period < inf
            k += at == next_step < inf
        if until < inf and new_free[-1] != free[i]:
            new_times.append(until)
            new_free.append(free[i])
        return GpusAhead((*new_times, *times[i + 1 :]), (*new_free, *free[i + 1 :]))


def all_free(now: Seconds, gpus: int) -> GpusAhead:
    return GpusAhead((now,), (gpus,))


def amounts(steps: Steps, times: Sequence[Seconds]) -> list[int]:
    """How many GPUs the steps have at each of these rising times."""
    found, amount, place = [], 0, 0
    for when in times:
        while place < len(steps) and steps[place][0] <= when:
            amount = steps[place][1]
            place += 1
        found.append(amount)
    return found


def merged(steps: Iterable[tuple[Seconds, int]]) -> GpusAhead:
    """Without the steps that change nothing."""
    kept: list[tuple[Seconds, int]] = []
    for step in steps:
        if not kept or kept[-1][1] != step[1]:
            kept.append(step)
    return GpusAhead(tuple([when for when, _ in kept]), tuple([gpus for _, gpus in kept]))


def gpu_seconds(steps: Steps, until: Seconds) -> float:
    ends = [*[when for when, _ in steps[1:]], until]
    return sum(gpus * (end - when) for (when, gpus), end in zip(steps, ends, strict=True))
