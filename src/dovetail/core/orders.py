"""Who goes first: jobs kept in the order of a key, so that a decision looks at a few heads only.

Waiting jobs stand in one heap per shape: jobs of one shape are interchangeable to placement, so only
the first of each can start next. Running jobs stand by `level + slope · t`, so that the passing of
time moves nothing, and only the worst of them are candidates for preemption. Rows are never searched
for: a job that moves on leaves a stale row behind, known by its old turn, dropped when it surfaces.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from heapq import heapify
from math import inf, nextafter
from typing import Final, Protocol, TypeAlias, final

from dovetail.core.model import Seconds
from dovetail.core.room import Pool
from dovetail.core.track import Track
from dovetail.core.view import ENDS, RUNS, SETTLES, WAITS, View

heappop: Final = heapq.heappop  # final, so that compiled code need not look them up
heappush: Final = heapq.heappush

_PAST: Final = 1e-6  # seconds: an edge is to be passed, not just reached


@final
class Standing:
    """A running job's key: `level + slope · t`, valid until a time; larger is worse."""

    def __init__(
        self, level: float, slope: float = 0.0, until: Seconds = inf, tie: float = 0.0
    ) -> None:
        self.level: Final = level
        self.slope: Final = slope
        self.until: Final = until
        self.tie: Final = tie  # among equals the larger is the first victim, then the latest


class Key(Protocol):
    """Turns a job into its place in the order: smaller goes first.

    queued: equal keys form a queue. A running job whose level rises joins the end of its new queue,
    behind the waiting; if it is not displaced there and then, it stands before them again. A job that
    makes way goes back to the front of its queue.
    """

    queued: bool
    steady: bool  # does the passing of time alone never change the order?
    rising: bool  # do running jobs lose ground to waiting ones, second by second?

    def waiting(self, track: Track, view: View) -> tuple[float, float]:
        """The key and the tie-breaker of a waiting job; ties must differ. Constant while it waits."""

    def running(self, track: Track, view: View) -> Standing:
        """The key of a job that holds GPUs."""

    def lasts(self, track: Track, view: View) -> Seconds:
        """How long the standing of a waiting job would last if it were given GPUs now."""


# key, tie-breaker, turn, track
WaitingRow: TypeAlias = tuple[float, float, int, Track]
# minus level, minus tie, minus the number of the row (so that no two are equal), turn, track, slope
RunningRow: TypeAlias = tuple[float, float, int, int, Track, float]


@final
class KeyOrder:
    """The index behind a key: one heap per shape."""

    def __init__(self, view: View, key: Key, preemptive: bool) -> None:
        self._view: Final = view
        self._key: Final = key
        self._queued: Final = bool(getattr(key, "queued", False))
        self.watches = SETTLES | WAITS | (RUNS | ENDS if preemptive else 0)
        self._waiting: dict[int, list[WaitingRow]] = {}
        self._running: dict[int, dict[float, list[RunningRow]]] = {}  # by pool, then by slope
        self._changes: list[tuple[Seconds, int, Track]] = []  # until, number of the row, track
        self._rows = 0
        self._sunk: dict[int, tuple[int, Track, Standing]] = {}  # by sequence: just joined a queue
        self._current: dict[int, int] = {}  # by sequence: the row that counts, where levels change
        self._sunk_at: Seconds = 0.0
        self._displaced: dict[int, Track] = {}  # by sequence
        self._places = 0
        self._lent: list[tuple[list[WaitingRow], WaitingRow]] = []
        self._lent_running: list[tuple[list[RunningRow], RunningRow]] = []

    # ------------------------------------------------------------------------- kept by the state

    def waits(self, track: Track) -> None:
        key, tie = self._key.waiting(track, self._view)
        if self._queued:
            if track.resumed:
                self._displaced[track.sequence] = track
                self._view.room.unsettled = True
                return
            tie = self._next_place()
        heap = self._waiting.get(track.shape.lane)
        if heap is None:
            self._queue(key, tie, track)
        else:
            heappush(heap, (key, tie, track.turn, track))

    def _queue(self, key: float, tie: float, track: Track) -> None:
        lane = track.shape.lane
        heap = self._waiting.get(lane)
        if heap is None:
            heap = self._waiting[lane] = []
        heappush(heap, (key, tie, track.turn, track))

    def runs(self, track: Track) -> None:
        if not track.pinned:  # who cannot give way is no candidate for it
            self._place_running(track, self._key.running(track, self._view))

    def ends(self, track: Track) -> None:
        """Its rows are stale now, and are dropped when they surface."""
        self._current.pop(track.sequence, None)

    def _next_place(self) -> float:
        self._places += 1
        return float(self._places)

    def _queue_displaced(self) -> None:
        """Those that made way go back to the front of their queues, in the order they stood there;
        those that had just sunk stand at the end of their new one already."""
        number = self._current
        still = [
            track
            for track in self._displaced.values()
            if track.placement is None and track.ended_at < 0 and not track.barred
        ]
        rows = sorted([(number.get(track.sequence, 0), track) for track in still], key=_first)
        self._displaced.clear()
        for _, track in reversed(rows):
            if track.sequence not in self._sunk:
                self._queue(self._key.waiting(track, self._view)[0], -self._next_place(), track)
        for _, track in rows:
            if track.sequence in self._sunk:
                self._queue(self._key.waiting(track, self._view)[0], self._next_place(), track)

    def settle(self) -> None:
        if self._displaced:
            self._queue_displaced()
        lent = self._lent
        if lent:
            for heap, row in lent:
                if row[3].turn == row[2]:
                    heappush(heap, row)
            lent.clear()
        lent_running = self._lent_running
        if lent_running:
            for running_heap, running_row in lent_running:
                if running_row[4].turn == running_row[3]:
                    heappush(running_heap, running_row)
            lent_running.clear()

    # -------------------------------------------------------------------------------- the waiting

    def heads(self) -> list[WaitingRow]:
        """The first of each lane."""
        if self._displaced:
            self._queue_displaced()
        heads = []
        emptied = []
        for lane, heap in self._waiting.items():
            while heap and heap[0][3].turn != heap[0][2]:
                heappop(heap)
            if heap:
                heads.append(heap[0])
            else:
                emptied.append(lane)
        if emptied and not self._lent:
            for lane in emptied:
                del self._waiting[lane]
        return heads

    def rows(self) -> list[WaitingRow]:
        """All that wait, as they lie, stale rows among them."""
        rows: list[WaitingRow] = []
        for heap in self._waiting.values():
            rows.extend(heap)  # as a whole: compiled, a row taken in hand is made anew
        return rows

    def pass_over(self, track: Track) -> WaitingRow | None:
        """Set the head of the track's lane aside until the decision is over; the next in its lane."""
        heap = self._waiting[track.shape.lane]
        self._lent.append((heap, heappop(heap)))
        self._view.room.unsettled = True
        while heap and heap[0][3].turn != heap[0][2]:
            heappop(heap)
        return heap[0] if heap else None

    # -------------------------------------------------------------------------------- the running

    def _place_running(self, track: Track, standing: Standing) -> None:
        placement = track.placement
        assert placement is not None
        pool = self._view.room.pool_of[placement.slices[0].node].index
        by_slope = self._running.get(pool)
        if by_slope is None:
            by_slope = self._running[pool] = {}
        heap = by_slope.get(standing.slope)
        if heap is None:
            heap = by_slope[standing.slope] = []
        self._rows += 1
        row = (-standing.level, -standing.tie, -self._rows, track.turn, track, standing.slope)
        heappush(heap, row)
        if standing.until < inf:
            heappush(self._changes, (standing.until, self._rows, track))
            self._current[track.sequence] = self._rows
        elif self._current:
            self._current[track.sequence] = self._rows
        if self._rows % 64 == 0:
            self._tidy(heap)

    def _tidy(self, heap: list[RunningRow]) -> None:
        """Finished jobs sink to the bottom of the heap; sweep them out when they outnumber the rest."""
        if len(heap) > 64 + 3 * len(self._view.running):
            heap[:] = [row for row in heap if not self._is_stale(row)]
            heapify(heap)

    def _is_stale(self, row: RunningRow) -> bool:
        track = row[4]
        if not self._current:
            return track.turn != row[3]
        return track.turn != row[3] or self._current.get(track.sequence, -row[2]) != -row[2]

    def _is_due(self, change: tuple[Seconds, int, Track]) -> bool:
        track = change[2]
        return track.placement is not None and self._current.get(track.sequence) == change[1]

    def refresh(self) -> None:
        """Let levels that change with time catch up with the clock."""
        now, changes = self._view.now, self._changes
        if self._sunk and now > self._sunk_at:
            self._let_sunk_stand_before_the_waiting()
        if not changes or changes[0][0] > now:
            return
        due = []
        while changes and changes[0][0] <= now:
            change = heappop(changes)
            if self._is_due(change):
                due.append(change[2])
        due.sort(key=_by_sequence)  # those that change together do so in order of submission
        for track in due:
            standing = self._key.running(track, self._view)
            if self._queued:
                self._sunk[track.sequence] = (track.turn, track, standing)
                self._sunk_at = now
                behind = nextafter(standing.level, inf)
                standing = Standing(behind, 0.0, standing.until, standing.tie)
            self._place_running(track, standing)

    def _let_sunk_stand_before_the_waiting(self) -> None:
        for turn, track, standing in self._sunk.values():
            if track.turn == turn:
                self._place_running(track, standing)
        self._sunk.clear()

    def next_change(self) -> Seconds:
        """When a running job's level changes next."""
        changes = self._changes
        while changes and not self._is_due(changes[0]):
            heappop(changes)
        return changes[0][0] if changes else inf

    def next_crossing(self, gain: float) -> Seconds:
        """When the next running job's rising key passes that of a waiting one by more than the gain."""
        edges = [row[0] + gain for row in self.heads()]
        at = inf
        for by_slope in self._running.values():
            for slope, heap in by_slope.items():
                if slope > 0:
                    levels = sorted([-row[0] for row in heap if not self._is_stale(row)])
                    for edge in edges:
                        at = min(at, _first_crossing(levels, slope, edge, self._view.now))
        return at

    def worst(self, pool: Pool) -> RunningRow | None:
        """The running job of the pool that should give way first."""
        by_slope = self._running.get(pool.index)
        if by_slope is None:
            return None
        best: RunningRow | None = None
        best_key, now = -inf, self._view.now
        for slope, heap in by_slope.items():
            while heap and (heap[0][4].turn != heap[0][3] or self._is_stale(heap[0])):
                heappop(heap)
            if heap:
                key = slope * now - heap[0][0]
                if best is None or key > best_key or (key == best_key and heap[0] < best):
                    best, best_key = heap[0], key
        return best

    def lend(self, pool: Pool, row: RunningRow) -> None:
        """Set the worst running job aside until the decision is over."""
        heap = self._running[pool.index][row[5]]
        heappop(heap)
        self._lent_running.append((heap, row))
        self._view.room.unsettled = True

    def take_back(self, number: int, but_not: Collection[Track] = ()) -> None:
        """Return the last few that were lent, but for some, while the decision goes on."""
        kept = []
        for _ in range(number):
            heap, row = self._lent_running.pop()
            if row[4] in but_not:
                kept.append((heap, row))
            else:
                heappush(heap, row)
        self._lent_running.extend(kept)


def _first_crossing(levels: list[float], slope: float, edge: float, now: Seconds) -> Seconds:
    """When the first of these rising levels, in order, passes the edge, of those that have not yet."""
    low, high = (
        0,
        len(levels),
    )  # the higher a level the sooner: look for the last that is yet to pass
    while low < high:
        middle = (low + high) // 2
        if (edge - levels[middle]) / slope + _PAST > now:
            low = middle + 1
        else:
            high = middle
    return (edge - levels[low - 1]) / slope + _PAST if low else inf


def _first(row: tuple[int, Track]) -> int:
    return row[0]


def _by_sequence(track: Track) -> int:
    return track.sequence


@final
class OrderBy:
    """The spec of an order: asked of the view, answered with the same index every time."""

    def __init__(self, key: Key, *, preemptive: bool) -> None:
        self.key: Final = key
        self.preemptive: Final = preemptive

    def build(self, view: View) -> KeyOrder:
        return KeyOrder(view, self.key, self.preemptive)
