"""Who goes first: jobs kept in the order of a key, so that a decision looks at a few heads only.

Waiting jobs stand in one heap per shape: jobs of one shape are interchangeable to placement, so only
the first of each can start next. Running jobs stand by `level + slope · t`, so that the passing of
time moves nothing, and only the worst of them are candidates for preemption. Rows are never searched
for: a job that moves on leaves a stale row behind, known by its old turn, dropped when it surfaces.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from heapq import heapify
from math import inf, nextafter, ulp
from typing import Final, Protocol, TypeAlias, final

from dovetail.core.entries import Action, Note
from dovetail.core.inventory import Pool
from dovetail.core.model import Seconds
from dovetail.core.track import Track
from dovetail.core.view import ENDS, RUNS, SETTLES, WAITS, View

heappop: Final = heapq.heappop  # final, so that compiled code need not look them up
heappush: Final = heapq.heappush

# Places in a queue are tickets, with room between them for jobs that sink into it.
_TICKET: Final = 30  # bits
_STEP: Final = 10
_ROW: Final = 20
_ROWS: Final = (1 << _ROW) - 1
_SANK: Final = 1 << 60
SANK: Final = "queue: sank"  # of a job, as it is noted: when, and its place if it made way then

_PAST: Final = 1e-6  # seconds: an edge is to be passed, not just reached


@final
class Standing:
    """A running job's key: `level + slope · t`, valid until a time; larger is worse."""

    __slots__ = ("level", "slope", "tie", "until")

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
    makes way goes back to the front of its queue. What the state does not tell of that is noted.
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
# minus level, minus tie, minus place and number of the row (no two are equal), turn, track, slope
RunningRow: TypeAlias = tuple[float, float, int, int, Track, float]


@final
class KeyOrder:
    """The index behind a key: one heap per shape."""

    def __init__(self, view: View, key: Key, preemptive: bool) -> None:
        self._view: Final = view
        self._key: Final = key
        self._queued: Final = bool(getattr(key, "queued", False))
        # Where time never changes the order, nothing is kept that the end of a job would make stale.
        steady = bool(getattr(key, "steady", False)) and not self._queued
        self.watches = SETTLES | WAITS | (RUNS if preemptive else 0)
        if preemptive and not steady:
            self.watches |= ENDS
        self._waiting: dict[int, list[WaitingRow]] = {}
        self._running: dict[int, dict[float, list[RunningRow]]] = {}  # by pool, then by slope
        self._changes: list[tuple[Seconds, int, Track]] = []  # until, number of the row, track
        self._rows = 0
        self._sunk: dict[int, tuple[int, Track, Standing]] = {}  # by sequence: just joined a queue
        self._current: dict[int, int] = {}  # by sequence: the row that counts, where levels change
        self._sunk_at: Seconds = 0.0
        self._noted: dict[int, tuple[Track, list[float]]] = {}  # by sequence: to be noted
        self._lent: list[tuple[list[WaitingRow], WaitingRow]] = []
        self._lent_running: list[tuple[list[RunningRow], RunningRow]] = []

    # ------------------------------------------------------------------------- kept by the state

    def waits(self, track: Track) -> None:
        key, tie = self._key.waiting(track, self._view)
        if self._queued:
            tie = float(self._place(track))
        heap = self._waiting.get(track.shape.lane)
        if heap is None:
            heap = self._waiting[track.shape.lane] = []
        heappush(heap, (key, tie, track.turn, track))

    def runs(self, track: Track) -> None:
        if not track.pinned:  # who cannot give way is no candidate for it
            standing = self._key.running(track, self._view)
            if self._queued and sank_at(track) == self._view.now:
                standing = self._sink(track, standing)
            self._place_running(track, standing)

    def ends(self, track: Track) -> None:
        """Its rows are stale now, and are dropped when they surface."""
        self._current.pop(track.sequence, None)
        self._noted.pop(track.sequence, None)

    def _place(self, track: Track) -> int:
        """Where a waiting job stands in its queue: behind those that began to wait before, or in front
        of all if it made way or was interrupted; unless it has just sunk into the queue."""
        if sank_at(track) == track.waiting_since:
            return int(track.notes[SANK][1])
        is_back = track.left is not None and not track.attempts
        return -(track.ticket << _TICKET) if is_back else track.ticket << _TICKET

    def _has_sunk(self, track: Track) -> bool:
        """Did it join its queue by running, not by starting?"""
        since = max(track.started_at, track.working_since)
        return track.sequence in self._sunk or sank_at(track) >= since

    def _sink(self, track: Track, standing: Standing) -> Standing:
        """To the end of its new queue, behind the waiting while this instant lasts."""
        now, level, until = self._view.now, standing.level, standing.until
        self._sunk[track.sequence] = (track.turn, track, Standing(level, 0.0, until, now))
        self._sunk_at = now
        return Standing(nextafter(level, inf), 0.0, until, now)

    def notes(self) -> list[Action]:
        """Where those stand that have sunk: to be recorded before anything else is done to them."""
        found: list[Action] = []
        for sequence, (track, value) in list(self._noted.items()):
            if track.notes.get(SANK) == value:
                del self._noted[sequence]
            else:
                found.append(Note(SANK, value, track.job.id))
        return found

    def settle(self) -> None:
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
        heads = []
        emptied = []
        for lane, heap in self._waiting.items():
            while heap:
                row = heap[0]
                if row[3].turn == row[2]:
                    heads.append(row)
                    break
                heappop(heap)
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
        pool = self._view.room.pool_of[placement.slices[0][0]].index
        by_slope = self._running.get(pool)
        if by_slope is None:
            by_slope = self._running[pool] = {}
        slope, until, sequence = standing.slope, standing.until, track.sequence
        heap = by_slope.get(slope)
        if heap is None:
            heap = by_slope[slope] = []
        self._rows = rows = self._rows + 1
        number = (sequence << _ROW) + (rows & _ROWS)
        if self._queued:  # some stand behind those that were started at the same time
            number = number + _SANK if self._has_sunk(track) else rows
        heappush(heap, (-standing.level, -standing.tie, -number, track.turn, track, slope))
        if until < inf:
            heappush(self._changes, (until, number, track))
            self._current[sequence] = number
        elif self._current or self._queued:
            self._current[sequence] = number
        if not rows & 63:
            self._tidy(heap)

    def _tidy(self, heap: list[RunningRow]) -> None:
        """Finished jobs sink to the bottom of the heap; sweep them out when they outnumber the rest."""
        if len(heap) > 64 + 3 * len(self._view.running):
            heap[:] = self._valid(heap)
            heapify(heap)

    def _valid(self, heap: list[RunningRow]) -> list[RunningRow]:
        """Those that are not stale, see `_is_stale`."""
        current = self._current
        if not current:
            return [row for row in heap if row[4].turn == row[3]]
        return [
            row
            for row in heap
            if row[4].turn == row[3] and current.get(row[4].sequence, -row[2]) == -row[2]
        ]

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
        if not changes:
            return
        due, edge = [], now + 8 * ulp(now)  # the same change, worked out at another time
        while changes and changes[0][0] <= edge:
            change = heappop(changes)
            if self._is_due(change):
                due.append(change[2])
        due.sort(key=_by_sequence)  # those that change together do so in order of submission
        sunk: list[Track] = []
        for track in due:
            standing = self._key.running(track, self._view)
            if self._queued:
                place = (self._view.last_ticket << _TICKET) + (len(sunk) + 1 << _STEP)
                sunk.append(track)
                self._noted[track.sequence] = (track, [now, place])
                standing = self._sink(track, standing)
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
        best_key, now, levels_change = -inf, self._view.now, bool(self._current)
        for slope, heap in by_slope.items():
            while heap:
                row = heap[0]
                if row[4].turn != row[3] or (levels_change and self._is_stale(row)):
                    heappop(heap)
                    continue
                key = slope * now - row[0]
                if best is None or key > best_key or (key == best_key and row < best):
                    best, best_key = row, key
                break
        return best

    def all_from_worst(self, pool: Pool) -> list[RunningRow]:
        """All running jobs of the pool that are not lent, in the order in which `worst` has them: for
        whoever wants many of them cheaper than one by one."""
        by_slope = self._running.get(pool.index, {})
        if len(by_slope) == 1:
            return [row for heap in by_slope.values() for row in sorted(self._valid(heap))]
        now = self._view.now
        rows = [row for heap in by_slope.values() for row in self._valid(heap)]
        return sorted(rows, key=lambda row: (row[0] - row[5] * now, row[0], row[1], row[2]))

    def lend(self, pool: Pool, row: RunningRow) -> None:
        """Set the worst running job aside until the decision is over."""
        heap = self._running[pool.index][row[5]]
        heappop(heap)
        self._lent_running.append((heap, row))
        self._view.room.unsettled = True

    def take_back(self, rows: Sequence[RunningRow]) -> None:
        """These may give way after all, as before they were lent, while the decision goes on."""
        back = {row[2] for row in rows}
        lent = self._lent_running
        for heap, row in lent:
            if row[2] in back:
                heappush(heap, row)
        self._lent_running = [(heap, row) for heap, row in lent if row[2] not in back]


def sank_at(track: Track) -> Seconds:
    """When it last sank into another queue."""
    noted = track.notes.get(SANK)
    return -1.0 if noted is None else float(noted[0])


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
