"""The waiting jobs in order of submission, and by shape, each with the time it would take.

A tournament tree finds the first of many numbers that is small enough in logarithmic time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final, final

from dovetail.core.model import Seconds
from dovetail.core.shape import Shape
from dovetail.core.track import Track

_LONGEST = 1e300  # infinity is for places where nobody waits
_LEAST_SIZE = 8
_LATEST = 1e308  # a bound of infinity would let the empty places in


@final
class Lane:
    """The waiting jobs of one shape, named by their sequence."""

    def __init__(self, shape: Shape) -> None:
        self.shape: Final = shape
        self.waiting = 0
        self._sequences: list[int] = []
        self._tree = Tournament()

    @property
    def shortest(self) -> Seconds:
        return self._tree.least[1]

    def set(self, sequence: int, left_s: Seconds) -> None:
        """Note how long the job would take; infinity: it does not wait any more."""
        sequences = self._sequences
        if not sequences or sequence > sequences[-1]:
            if len(sequences) == self._tree.size:
                self._rebuild()
                sequences = self._sequences
            sequences.append(sequence)
            place = len(sequences) - 1
        else:
            place = bisect_left(sequences, sequence)
            if sequences[place] != sequence:  # it came back after its place had been given up
                self._rebuild(sequence)
                place = bisect_left(self._sequences, sequence)
        self._tree.set(place, left_s)

    def _rebuild(self, returned: int = -1) -> None:
        """Give up the places of those that left, and make room for one that came back."""
        least, size = self._tree.least, self._tree.size
        left = {s: least[size + i] for i, s in enumerate(self._sequences) if least[size + i] < inf}
        if returned >= 0:
            left[returned] = inf
        self._sequences = sorted(left)
        self._tree = Tournament([left[sequence] for sequence in self._sequences])

    def first(self, after: int, now: Seconds, until: Seconds) -> int:
        """The first job submitted after that one which, started now, ends by then; -1: none."""
        sequences = self._sequences
        place = 0 if sequences[0] > after else bisect_right(sequences, after)
        place = self._tree.first(place, now, until)
        return sequences[place] if place >= 0 else -1


@final
class Backlog:
    """All waiting jobs."""

    def __init__(self) -> None:
        self.lanes: Final[dict[int, Lane]] = {}  # those in which somebody waits
        self.waiting: Final[dict[int, Track]] = {}  # by sequence
        self.left_s: Final[dict[int, Seconds]] = {}  # by sequence
        self._lane_of: Final[dict[int, int]] = {}  # by sequence: what a job needs may change
        self._order: list[int] = []  # sequences, those of jobs that left among them
        self._front = 0  # nobody waits before this place

    def add(self, track: Track, left_s: Seconds) -> None:
        sequence, number = track.sequence, track.shape.lane
        if self._lane_of.get(sequence, number) != number:
            self.remove(sequence)
        lane = self.lanes.get(number)
        if lane is None:
            lane = self.lanes[number] = Lane(track.shape)
        if sequence not in self.waiting:
            lane.waiting += 1
            self.waiting[sequence] = track
            self._lane_of[sequence] = number
            self._put_in_order(sequence)
        self.left_s[sequence] = min(left_s, _LONGEST)
        lane.set(sequence, min(left_s, _LONGEST))

    def remove(self, sequence: int) -> bool:
        track = self.waiting.pop(sequence, None)
        if track is None:
            return False
        del self.left_s[sequence]
        number = self._lane_of.pop(sequence)
        lane = self.lanes[number]
        lane.waiting -= 1
        if lane.waiting:
            lane.set(sequence, inf)
        else:
            del self.lanes[number]
        return True

    def _put_in_order(self, sequence: int) -> None:
        order = self._order
        if len(order) > 2 * len(self.waiting) + 64:
            order[:] = [s for s in order if s in self.waiting and s != sequence]
            self._front = 0
        if not order or sequence > order[-1]:
            order.append(sequence)
            return
        place = bisect_left(order, sequence)
        if order[place] != sequence:
            order.insert(place, sequence)
        self._front = min(self._front, place)

    def after(self, sequence: int) -> Iterator[Track]:
        """The waiting jobs submitted after that one, in order of submission."""
        order, waiting = self._order, self.waiting
        while self._front < len(order) and order[self._front] not in waiting:
            self._front += 1
        for i in range(max(self._front, bisect_right(order, sequence)), len(order)):
            track = waiting.get(order[i])
            if track is not None:
                yield track


@final
class Tournament:
    """Every inner node holds the lesser of its two children; an empty place holds infinity."""

    def __init__(self, values: Sequence[float] = ()) -> None:
        size = _LEAST_SIZE
        while size < 2 * len(values):
            size *= 2
        self.size: Final = size
        self.least: Final = [inf] * size + list(values) + [inf] * (size - len(values))
        for i in range(size - 1, 0, -1):
            self.least[i] = min(self.least[2 * i], self.least[2 * i + 1])

    def set(self, place: int, value: float) -> None:
        least = self.least
        i = self.size + place
        least[i] = value
        while i > 1:
            other = least[i ^ 1]
            if other < value:
                value = other
            i >>= 1
            if least[i] == value:
                return
            least[i] = value

    def first(self, place: int, plus: float, most: float) -> int:
        """The first place, from this one on, whose value and `plus` are at most `most`; else -1."""
        if place >= self.size:
            return -1
        least, most = self.least, min(most, _LATEST)
        i = self.size + place
        while plus + least[i] > most:
            while i & 1:  # the right child: all that its parent holds lies behind us
                i >>= 1
            if not i:
                return -1
            i += 1
        while i < self.size:
            i <<= 1
            if plus + least[i] > most:
                i += 1
        return i - self.size
