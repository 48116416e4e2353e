"""The orders: each turns a job into a number; the smaller goes first."""

from __future__ import annotations

from math import floor, inf
from typing import Final, final

from dovetail.core.model import Seconds
from dovetail.core.orders import Standing
from dovetail.core.state import View
from dovetail.core.track import Track
from dovetail.predict.duration import Predictor

# Attained service is a sum of floats: a job that is this close to a limit has reached it.
_ROUNDING = 1e-9


@final
class BySubmission:
    """First come, first served."""

    def waiting(self, track: Track, view: View) -> tuple[float, float]:
        return track.submitted_at, track.sequence

    def running(self, track: Track, view: View) -> Standing:
        return Standing(track.submitted_at, tie=track.sequence)

    def lasts(self, track: Track, view: View) -> Seconds:
        return inf


@final
class ByDuration:
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
        return Standing(self._size(track, view), tie=track.sequence)

    def lasts(self, track: Track, view: View) -> Seconds:
        return inf


@final
class ByRemaining:
    """The predicted time that is left, times the GPUs if `by_gpus`; it falls while a job runs."""

    def __init__(self, predictor: Predictor, by_gpus: bool = False) -> None:
        self._predictor: Final = predictor
        self._by_gpus: Final = by_gpus

    def waiting(self, track: Track, view: View) -> tuple[float, float]:
        left = self._predictor.duration_s(track.job, view) - track.executed_s
        return left * track.job.gpus if self._by_gpus else left, track.sequence

    def running(self, track: Track, view: View) -> Standing:
        left = self._predictor.duration_s(track.job, view) - track.executed_s
        ends = view.now + left
        if track.resumed:
            ends += track.job.interruption.restore_s
        slope = -float(track.job.gpus) if self._by_gpus else -1.0
        return Standing(-slope * ends, slope, tie=track.sequence)

    def lasts(self, track: Track, view: View) -> Seconds:
        return inf
