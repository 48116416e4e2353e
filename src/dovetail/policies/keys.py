"""The orders: each turns a job into a number; the smaller goes first.

Some keys stand still, some slide with time while a job runs (its remaining time falls), and some go
up in steps (a job that has had its share of service goes down a queue).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import ceil, inf, ulp
from typing import Final, Protocol, final

from dovetail.core.model import Seconds
from dovetail.core.orders import Standing, sank_at
from dovetail.core.track import STARTING, Track
from dovetail.core.view import View
from dovetail.policies.stints import least_stint_s
from dovetail.predict.duration import Predictor

# Attained service is a sum of floats: a job this close to a limit, in parts of it, has reached it.
_ROUNDING = 1e-9


class PlainKey:
    """A key for which nothing has to be looked at again: no queues, and no rank that runs out."""

    queued = False
    steady = True
    rising = False

    def lasts(self, track: Track, view: View) -> Seconds:
        return inf


@final
class BySubmission(PlainKey):
    """First come, first served."""

    def waiting(self, track: Track, view: View) -> tuple[float, float]:
        return track.submitted_at, track.sequence

    def running(self, track: Track, view: View) -> Standing:
        return Standing(track.submitted_at, 0.0, inf, track.sequence)


@final
class ByPriority(PlainKey):
    """The highest priority first."""

    def waiting(self, track: Track, view: View) -> tuple[float, float]:
        return -track.job.priority, track.sequence

    def running(self, track: Track, view: View) -> Standing:
        return Standing(-track.job.priority, tie=track.sequence)


@final
class ByDeadline(PlainKey):
    """The earliest deadline first; jobs without one come last."""

    def waiting(self, track: Track, view: View) -> tuple[float, float]:
        return _deadline(track), track.sequence

    def running(self, track: Track, view: View) -> Standing:
        return Standing(_deadline(track), tie=track.sequence)


def _pace_of_work(track: Track) -> float:
    """What it does in a second, in seconds at speed 1. Who is not at work yet does nothing: else two
    jobs that take longer to restore than a turn lasts would displace each other for ever."""
    return 0.0 if track.phase is STARTING else track.speed


def _deadline(track: Track) -> float:
    # A huge number, not infinity: keys are added and compared, and inf - inf is not a number.
    return 1e300 if track.job.deadline is None else track.job.deadline


@final
class ByLaxity(PlainKey):
    """Laxity is deadline minus now minus remaining time. Counted from t = 0 (now added back), a
    waiting job's stands still and a running one's grows as its work gets done. Where interruption
    costs time, who runs stands before the others by half a stint that is worth it: a turn between two
    of equal laxity lasts twice that."""

    steady = False
    rising = True

    def __init__(self, predictor: Predictor) -> None:
        self._predictor: Final = predictor

    def _latest_start(self, track: Track, view: View) -> float:
        # Work at speed 1, running or not, as in `ByRemaining`: by two measures two jobs would
        # displace each other for ever, each with less laxity as soon as it waits.
        left = self._predictor.duration_s(track.job, view) - track.executed_by(view.now)
        return _deadline(track) - left

    def waiting(self, track: Track, view: View) -> tuple[float, float]:
        return self._latest_start(track, view), track.sequence

    def running(self, track: Track, view: View) -> Standing:
        slope, now = _pace_of_work(track), view.now
        head_start = least_stint_s(track.job.interruption.save_s + track.restore_s) / 2
        level = self._latest_start(track, view) - head_start - slope * now
        return Standing(level, slope, tie=track.sequence)


@final
class ByDuration(PlainKey):
    """The whole predicted duration, times the GPUs if `by_gpus`."""

    def __init__(self, predictor: Predictor, by_gpus: bool = False) -> None:
        self._predictor: Final = predictor
        self._by_gpus: Final = by_gpus

    def _size(self, track: Track, view: View) -> float:
        size = self._predictor.duration_s(track.job, view)
        return size * track.job.gpus if self._by_gpus else size

    def waiting(self, track: Track, view: View) -> tuple[float, float]:
        return self._size(track, view), track.sequence

    def running(self, track: Track, view: View) -> Standing:
        return Standing(self._size(track, view), 0.0, inf, track.sequence)


@final
class ByRemaining(PlainKey):
    """The predicted time that is left, times the GPUs if `by_gpus`; it falls while a job runs."""

    def __init__(self, predictor: Predictor, by_gpus: bool = False) -> None:
        self._predictor: Final = predictor
        self._by_gpus: Final = by_gpus

    def waiting(self, track: Track, view: View) -> tuple[float, float]:
        left = self._predictor.duration_s(track.job, view) - track.executed_s
        return left * track.job.gpus if self._by_gpus else left, track.sequence

    def running(self, track: Track, view: View) -> Standing:
        # Work at speed 1, as for the waiting: two measures would let two jobs displace each other
        # for ever, each looking longer as soon as it runs slowly or has to be restored.
        # Counted from its start, so that the time until it is at work is not held against it.
        left = self._predictor.duration_s(track.job, view) - track.executed_s
        weight = float(track.job.gpus) if self._by_gpus else 1.0
        slope = -weight * track.speed
        return Standing(
            -slope * (track.started_at + left / track.speed), slope, inf, track.sequence
        )


# ------------------------------------------------------------------------------------ keys in steps


class ServiceSteps(Protocol):
    """Attained service as steps."""

    def step(self, service: float) -> tuple[float, float]:
        """The rank of a job with that much service, and the service at which the rank changes."""


@final
class Queues:
    """Rank 0 below the first limit, rank 1 below the second, and so on."""

    def __init__(self, limits: Sequence[float]) -> None:
        self._limits: Final = list(limits)

    def step(self, service: float) -> tuple[float, float]:
        rank = bisect_right(self._limits, service * (1 + _ROUNDING))
        return rank, self._limits[rank] if rank < len(self._limits) else inf


@final
class Quanta:
    """One rank for every quantum of service: least attained service, exact up to the quantum."""

    def __init__(self, quantum: float) -> None:
        self._quantum: Final = quantum

    def step(self, service: float) -> tuple[float, float]:
        rank = int(service / self._quantum + _ROUNDING)
        return rank, (rank + 1) * self._quantum


@final
class GittinsIndex:
    """Minus the Gittins index of the attained service: the largest, over all further service, of the
    chance to finish within it divided by the service it is expected to take.

    With `horizon` 0 the largest over every horizon (the definition); otherwise that one horizon, as
    Tiresias computes it. Looked up once for every `quantum` of service.
    """

    def __init__(self, samples: Sequence[float], quantum: float, horizon: float = 0.0) -> None:
        self._samples: Final = sorted(samples)
        self._quantum: Final = quantum
        self._horizon: Final = horizon
        self._known: Final[dict[int, float]] = {}

    def step(self, service: float) -> tuple[float, float]:
        number = int(service / self._quantum + _ROUNDING)
        index = self._known.get(number)
        if index is None:
            index = self._known[number] = self.index(number * self._quantum)
        return -index, (number + 1) * self._quantum

    def index(self, attained: float) -> float:
        left = [s - attained for s in self._samples[bisect_right(self._samples, attained) :]]
        if not left:
            return 0.0
        if self._horizon:
            within = bisect_right(left, self._horizon)
            spent = sum(left[:within]) + self._horizon * (len(left) - within)
            return within / spent
        best, spent_by_done = 0.0, 0.0
        for done, rest in enumerate(left, 1):
            spent_by_done += rest
            best = max(best, done / (spent_by_done + rest * (len(left) - done)))
        return best


@final
class ByService:
    """The step of a ladder that the job's service so far has reached.

    in_gpu_seconds: service counts GPU-seconds, otherwise seconds of running;
    rotate_s: after that time on its GPUs a job stands behind the waiting ones of its own rank;
    by_turn: equal ranks wait in the order they began to wait, otherwise in order of submission;
    queued: they form queues, see `Key`.
    """

    def __init__(
        self,
        ladder: ServiceSteps,
        *,
        in_gpu_seconds: bool = True,
        rotate_s: Seconds = inf,
        by_turn: bool = False,
        queued: bool = False,
    ) -> None:
        self.queued = queued
        self.steady = False
        self.rising = False
        self._ladder: Final = ladder
        self._in_gpu_seconds: Final = in_gpu_seconds
        self._rotate_s: Final = rotate_s
        self._by_turn: Final = by_turn

    def service(self, track: Track, now: Seconds) -> float:
        """A turn begins with its work, however long it takes to restore the job: what that took counts
        when the turn is over."""
        waited = 0.0
        if track.placement is not None and (track.idle_s > 0.0 or track.phase is STARTING):
            waited = track.idle_by(now) * self._pace(track)
        if self._in_gpu_seconds:
            return track.service_by(now) - track.forgiven_gpu_s - waited
        return track.held_by(now) - waited

    def _step(self, track: Track, now: Seconds) -> tuple[float, float]:
        """The rank, and how long it lasts while the job runs.

        What cannot be told from a limit at this time of the clock has reached it: a wake-up for the
        rest would come at once, for ever.
        """
        service, pace = self.service(track, now), self._pace(track)
        rank, limit = self._ladder.step(service + pace * 8 * ulp(now))
        return rank, (limit - service) / pace if limit < inf and pace > 0 else inf

    def _pace(self, track: Track) -> float:
        """Service gained per second of running."""
        if not self._in_gpu_seconds:
            return 1.0
        placement = track.placement
        holds = 0.0 if placement is None else placement.holds
        return holds if holds else float(track.job.gpus)

    def waiting(self, track: Track, view: View) -> tuple[float, float]:
        rank, _ = self._step(track, view.now)
        return rank, track.ticket if self._by_turn else track.sequence

    def running(self, track: Track, view: View) -> Standing:
        now = view.now
        rank, lasts = self._step(track, now)
        until = inf if track.phase is STARTING else now + lasts
        if self._rotate_s < inf and track.phase is not STARTING:
            turn_ends = track.working_since + self._rotate_s
            if now >= turn_ends:
                rank += 0.5
            else:
                until = min(until, turn_ends)
        if self.queued:  # behind those that have stood in the queue and run for longer
            return Standing(
                rank, 0.0, until, max(track.started_at, track.working_since, sank_at(track))
            )
        tie = -track.started_at if self._by_turn else track.sequence
        return Standing(rank, 0.0, until, tie)

    def lasts(self, track: Track, view: View) -> Seconds:
        _, lasts = self._step(track, view.now)
        return min(lasts, self._rotate_s)


def late_demotion(tracks: Sequence[Track], limits: Sequence[float], now: Seconds) -> Seconds:
    """When Tiresias' simulator looks for demotions next: it takes seconds for GPU-seconds there."""
    at = inf
    for track in tracks:
        rank = bisect_right(limits, track.service_by(now))
        if rank < len(limits):
            wait = ceil((limits[rank] - track.executed_by(now)) // max(track.job.gpus, 1))
            if wait > 0:
                at = min(at, now + wait)
    return at
