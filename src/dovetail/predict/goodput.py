"""Beliefs about how fast a job learns: by what it has told of itself, else by its speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

from dovetail.core.track import Track
from dovetail.predict.speed import SameEverywhere, SpeedPredictor


class GoodputPredictor(Protocol):
    def rate(self, track: Track, kind: str, gpus: int, nodes: int) -> float:
        """The job's own progress a second with the best batch it can use there; 0: none. Rates of one
        job may be compared with each other, not with those of another."""


@final
@dataclass(frozen=True)
class AsTold:
    """By the law that the job has told for that GPU kind, or for another, as much faster as `speeds`
    believes this one to be; a job that has told nothing goes at its speed."""

    speeds: SpeedPredictor = SameEverywhere()

    @staticmethod
    def source() -> str:
        return "goodput as told by the job"

    def rate(self, track: Track, kind: str, gpus: int, nodes: int) -> float:
        from dovetail.models.goodput_agent import read_goodput

        told = read_goodput(track.metrics)
        if told is None:
            return self.speeds.speed(track.job, kind, gpus, nodes)
        own = told.rate(kind, nodes, gpus)
        if own is not None:
            return own
        known = next(iter(told.laws))
        there = told.rate(known, nodes, gpus) or 0.0
        usual = self.speeds.speed(track.job, known, 1, 1)
        return there * self.speeds.speed(track.job, kind, 1, 1) / usual if usual > 0 else there
