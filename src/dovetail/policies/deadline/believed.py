"""What is believed of a job's rest: how much is left of it, and how fast it goes on so many GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from dovetail.core.entries import Note
from dovetail.core.inventory import Pool
from dovetail.core.model import Seconds
from dovetail.core.track import Phase, Track
from dovetail.core.view import View
from dovetail.policies.deadline.shares import DueWork, GpuShare
from dovetail.policies.precedence import DeadlineWord
from dovetail.policies.reallocation import is_fixed, usual_counts
from dovetail.predict.duration import Predictor
from dovetail.predict.speed import SpeedPredictor
from dovetail.text.durations import duration_text

# Who has outlived its prediction is taken to need this part of what it has done once more.
_OUTLIVED = 0.1
_LEAST_S = 1.0
_COULD = "could be done at"  # of a job that was promised nothing, and not refused


@dataclass(frozen=True)
class Beliefs:
    """Of the jobs in a view."""

    view: View
    predictor: Predictor
    speeds: SpeedPredictor

    def left_s(self, track: Track) -> Seconds:
        """In seconds at speed 1."""
        done = track.executed_by(self.view.now)
        left = self.predictor.duration_s(track.job, self.view) - done
        return left if left > 0 else max(done * _OUTLIVED, _LEAST_S)

    def has_outlived(self, track: Track) -> bool:
        return track.executed_by(self.view.now) >= self.predictor.duration_s(track.job, self.view)

    def speed(self, track: Track, gpus: int) -> float:
        """On so many GPUs wherever they are: that of the slowest kind it may get, 0 if it cannot run
        on so many."""
        speeds = [self._on(track, pool, gpus) for pool in self.view.room.eligible(track.shape)]
        return min([speed for speed in speeds if speed > 0], default=0.0)

    def _on(self, track: Track, pool: Pool, gpus: int) -> float:
        if track.job.options and track.job.option(pool.kind, gpus) is None:
            return 0.0
        nodes = -(-gpus // max(pool.width, 1))
        return self.speeds.speed(track.job, pool.kind, gpus, nodes)

    def due(self, track: Track, deadline: Seconds = inf) -> DueWork:
        """Its rest as work that is due, on the numbers of GPUs it may have. Restoring counts, so that
        a promise holds if it must give way once more."""
        counts = self._counts(track)
        rates = [self.speed(track, count) for count in counts]
        possible = [(n, rate) for n, rate in zip(counts, rates, strict=True) if rate > 0]
        possible = possible or [(track.job.gpus, 1.0)]
        left = self.left_s(track)
        if track.job.interruption.restore_s or track.job.interruption.save_s:
            left += interruption_s(track) * possible[0][1]
        return DueWork(
            left, deadline, tuple([n for n, _ in possible]), tuple([rate for _, rate in possible])
        )

    def _counts(self, track: Track) -> tuple[int, ...]:
        if is_fixed(track):
            assert track.placement is not None
            return (track.placement.gpus,)
        if track.shape.settled:
            return (track.shape.gpus,)
        return usual_counts(track.job, self.view.room)


def interruption_s(track: Track) -> Seconds:
    """What going on with other GPUs costs."""
    return track.save_s + track.restore_s


def schedulable(view: View) -> list[Track]:
    """The jobs that have GPUs or may be given some, in order of submission."""
    return [
        track for track in view.tracks.values() if track.placement is not None or not track.barred
    ]


@dataclass(frozen=True, slots=True)
class Family:
    """Jobs that may use some of the same GPUs, and nobody else may use those."""

    tracks: list[Track]  # in order of submission
    gpus: int  # that one or another of them may use
    common: int  # that all of them may use: of these every promise is made


def families(view: View) -> list[Family]:
    """The jobs by who competes with whom."""
    found: list[tuple[set[int], set[int], list[Track]]] = []
    for track in schedulable(view):
        own = {pool.index for pool in view.room.eligible(track.shape)}
        met = [row for row in found if row[0] & own]
        found = [row for row in found if not row[0] & own]
        some, common, tracks = own, own, [track]
        for row in met:
            some, common, tracks = some | row[0], common & row[1], [*row[2], *tracks]
        found.append((some, common, tracks))
    gpus = _gpus_by_pool(view)
    return [
        Family(
            sorted(tracks, key=lambda track: track.sequence),
            sum(gpus[i] for i in some),
            sum(gpus[i] for i in common),
        )
        for some, common, tracks in found
    ]


def _gpus_by_pool(view: View) -> list[int]:
    """GPUs on nodes where something may start, and those that running jobs have elsewhere."""
    room, found = view.room, [0] * len(view.room.pools)
    for n in range(len(room.nodes)):
        found[room.pool_of[n].index] += room.gpus_open(n)
    for track in view.running.values():
        assert track.placement is not None
        for n, mask in track.placement.slices:
            elsewhere = mask.bit_count() - room.usable_by_others(n, mask)
            found[room.pool_of[n].index] += elsewhere
    return found


def unpromised(track: Track, now: Seconds, done_at: Seconds) -> str:
    """Why its deadline is not promised, and what would do."""
    deadline = track.job.deadline
    assert deadline is not None
    if deadline <= now:
        return "its deadline has passed: give a later one, or none"
    late = "" if done_at <= deadline else f": it could be done in {duration_text(done_at - now)}"
    others = " without breaking what others were promised" if not late else ""
    return (
        f"its deadline in {duration_text(deadline - now)} cannot be promised{others}{late}; "
        "give a later one, or none"
    )


def could_be_done_at(track: Track, done_at: Seconds) -> Iterator[Note]:
    """To be told later to who asks why it was promised nothing."""
    if done_at < inf:
        yield Note(_COULD, done_at, track.job.id)


def word_of(
    view: View, track: Track, plan: GpuShare | None, is_judged: bool
) -> DeadlineWord | None:
    """What was said to its deadline: a plan, a refusal, nothing, or nothing yet."""
    if track.job.deadline is None:
        return None
    if plan is not None:
        gpus = max([gpus for _, gpus in plan.steps], default=0)
        return DeadlineWord(True, plan.done_at, gpus)
    if track.phase is Phase.REFUSED:
        return DeadlineWord(False, why=track.reason)
    if not is_judged:
        return DeadlineWord(None)
    return DeadlineWord(False, why=_not_kept(track, view.now))


def _not_kept(track: Track, now: Seconds) -> str:
    done_at = track.notes.get(_COULD, inf)
    if track.job.deadline is None or track.job.deadline <= now:
        return "it has passed"
    if done_at <= track.job.deadline:
        return "it would break what others were promised"
    return f"the job could be done {f'in {duration_text(done_at - now)}' if done_at < inf else 'never'}"
