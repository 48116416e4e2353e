"""What-if scratch space over the free GPUs; yields only the difference to what runs now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from dovetail.core.entries import Action, Preempt, Resize, Start
from dovetail.core.errors import IllegalEntry
from dovetail.core.model import Job, JobId, Placement, joined
from dovetail.core.room import Room
from dovetail.core.shape import Home, Shape, home_at
from dovetail.core.track import Track
from dovetail.core.view import View

Place: TypeAlias = Callable[[Room, Shape], Placement | None]


@final
class Plan:
    """Try starts and stops on the view's free GPUs. The state puts them back by itself."""

    def __init__(self, view: View, place: Place) -> None:
        self.room: Final = view.room
        self._view: Final = view
        self._actions: list[Action] = []  # in the order tried: each makes room for the next
        self._in_order = True
        self._kept: set[int] = set()  # which of the actions were taken back
        self._stop_at: dict[JobId, int] = {}  # which of them stops a job
        self.started: Final[list[Track]] = []
        self._place: Final = place

    def begin_anew(self) -> None:
        """Another decision on the same view begins; the actions of the last one stay as they are."""
        if self._actions:
            self._actions = []
            self._in_order = True
            self._kept.clear()
            self._stop_at.clear()
            self.started.clear()

    def place(self, track: Track) -> Placement | None:
        """Where the job could go, without going there."""
        shape = track.shape
        if shape.home:
            return self._place(self.room, shape)
        home = home_at(track.home) if track.parked_at is not None else ()
        # Elsewhere a suspended job could go on only with what it has saved.
        found = at_home(self.room, home, shape) if home else None
        return found or self._place(self.room, shape.full)

    def start(self, track: Track) -> bool:
        """Start the job if there is room for it."""
        if track.parked_at is not None:
            placement = self.place(track)
        else:
            placement = self._place(self.room, track.shape)
        if placement is None:
            return False
        self.start_at(track, placement)
        return True

    def start_at(self, track: Track, placement: Placement) -> None:
        try:
            self.room.draft_take(placement, track.shape)
        except IllegalEntry as error:
            raise IllegalEntry(
                f"cannot start job {track.job.id!r} at t={self._view.now:g}: {error}"
            ) from None
        self.started.append(track)
        self._actions.append(Start(track.job.id, placement))

    def reserve(self, placement: Placement, track: Track) -> None:
        """Nobody else is to start there in this plan: these free GPUs, though not enough, are kept for
        the job, with their part of its CPUs and memory."""
        self.room.draft_take(placement, _part_of(track.shape, placement.gpus), own=True)

    def limit(self, track: Track, watts: int) -> None:
        """Let a running job's GPUs draw so many watts each from now on; it goes on meanwhile."""
        assert track.placement is not None
        self._actions.append(Resize(track.job.id, track.placement.limited_to(watts)))

    def resize(self, track: Track, placement: Placement) -> None:
        """Let a running job go on with other GPUs: more, fewer or elsewhere. That costs what an
        interruption costs."""
        before = track.placement
        assert before is not None
        try:
            self.room.draft_move(before, placement, track.shape)
        except IllegalEntry as error:
            raise IllegalEntry(
                f"cannot resize job {track.job.id!r} at t={self._view.now:g}: {error}"
            ) from None
        self._actions.append(Resize(track.job.id, placement))

    def rearrange(self, targets: Sequence[tuple[Track, Placement]]) -> None:
        """Let these jobs have these GPUs, which are free or those of jobs among them. Who runs goes on
        there, in an order in which each finds its GPUs free; where they stand in each other's way one
        of them is stopped first."""
        left = [(track, where) for track, where in targets if track.placement is not None]
        stopped: list[tuple[Track, Placement]] = []
        while left:
            able = [i for i, (track, where) in enumerate(left) if self._may_go(track, where)]
            if not able:
                self.stop(left[0][0])
                stopped.append(left.pop(0))
                continue
            self.resize(*left.pop(able[0]))
        starting = [(track, where) for track, where in targets if track.placement is None]
        for track, where in (*stopped, *starting):
            self.start_at(track, where)

    def _may_go(self, track: Track, placement: Placement) -> bool:
        """Are these GPUs free, those counted that the job has itself?"""
        room, own = self.room, track.placement
        assert own is not None
        had = dict(own.slices)
        return all([mask & ~(room.free[n] | had.get(n, 0)) == 0 for n, mask in placement.slices])

    def stop(self, track: Track) -> None:
        """Preempt the job, unless it is kept after all."""
        assert track.placement is not None
        self.room.draft_give(track.placement, track.shape)
        self._stop_at[track.job.id] = len(self._actions)
        self._actions.append(Preempt(track.job.id))

    def keep(self, track: Track) -> bool:
        """Take back a stop, if the job's own GPUs, CPUs and part of a quota are still free."""
        placement = track.placement
        assert placement is not None
        if not self.room.is_free(placement) or not self.room.allows(placement, track.shape):
            return False
        self.room.draft_take(placement, track.shape, own=True)
        self._kept.add(self._stop_at.pop(track.job.id))
        self._in_order = self._in_order and not self.started
        return True

    def was_in_vain(self) -> None:
        """The stops so far make no room yet: others follow, or all of them are taken back."""
        self._in_order = self._in_order and not self.started

    @property
    def actions(self) -> list[Action]:
        """The difference to what runs now. A start that relied on a stop since taken back may rely on
        a later one instead: then all stops come first, which is always right."""
        actions = self._actions
        if self._kept:
            actions = [action for i, action in enumerate(actions) if i not in self._kept]
        return actions if self._in_order else sorted(actions, key=_step)

    @property
    def net_stops(self) -> int:
        """How many more jobs wait after this plan than before; negative if fewer."""
        return len(self._stop_at) - len(self.started)


def at_home(room: Room, home: Home, shape: Shape) -> Placement | None:
    """On these nodes, and so many GPUs of each, if there is room for the shape."""
    parts: list[Placement] = []
    for n, gpus in home:
        if not room.open[n] or room.count[n] < gpus:
            return None
        parts.append(room.first_gpus(n, gpus))
    placement = parts[0] if len(parts) == 1 else joined(parts)
    return placement if room.allows(placement, shape) else None


def _step(action: Action) -> int:
    """Stops, then whoever goes on elsewhere, then starts."""
    return 2 if isinstance(action, Start) else int(isinstance(action, Resize))


def _part_of(shape: Shape, gpus: int) -> Shape:
    """What so many of its GPUs need beside them."""
    if shape.plain or gpus == shape.gpus:
        return shape
    part = gpus / shape.gpus
    job = Job(shape.job.id, gpus, cpus=shape.cpus * part, memory_gb=shape.memory_gb * part)
    return Shape(shape.lane, job, shape.tenant)
