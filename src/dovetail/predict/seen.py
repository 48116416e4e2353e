"""Speeds as jobs of a model were seen to go in a simulation; live, `measured` has them from reports."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Final, NamedTuple, TypeAlias, final

from dovetail.core.model import Job
from dovetail.core.track import RUNNING, Track
from dovetail.core.view import ENDS, RUNS, WAITS, View
from dovetail.predict.speed import SpeedPredictor

_Type: TypeAlias = tuple[str, int]  # a model, and the GPUs that the job asked for


class _Way(NamedTuple):
    """GPUs of a kind, and over how many nodes."""

    kind: str
    gpus: int
    nodes: int


@final
class SpeedsSeen:
    """An index of the state: how fast jobs of each model went where."""

    def __init__(self, view: View) -> None:
        self.watches = WAITS | RUNS | ENDS
        self._view: Final = view
        self._speeds: Final[dict[_Type, dict[_Way, float]]] = {}

    def waits(self, track: Track) -> None:
        """Nothing to learn."""

    def ends(self, track: Track) -> None:
        """Nothing to learn."""

    def runs(self, track: Track) -> None:
        place, job = track.placement, track.job
        if track.phase is RUNNING and place is not None and job.model:
            kind = self._view.room.nodes[place.slices[0].node].kind
            found = self._speeds.setdefault((job.model, job.gpus), {})
            found[_Way(kind, place.gpus, len(place.slices))] = track.speed

    def of(self, job: Job) -> dict[_Way, float]:
        return self._speeds.get((job.model, job.gpus), {})


@dataclass(frozen=True, eq=False)
class AsSeen:
    """As jobs of its model that asked for as many GPUs were seen to go there. Elsewhere as believed
    otherwise, in proportion to where they were seen: one speed alone says nothing of another kind."""

    simulated: View
    otherwise: SpeedPredictor

    @staticmethod
    def source() -> str:
        return "as jobs of its model were seen to go, else as other models"

    def build(self, view: View) -> SpeedsSeen:
        return SpeedsSeen(view)

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        index = self.simulated.index(self)
        assert isinstance(index, SpeedsSeen)
        seen = index.of(job)
        own = seen.get(_Way(kind, gpus, nodes))
        if own is not None:
            return own
        believed = self.otherwise.speed(job, kind, gpus, nodes)
        return believed * self._off(job, seen) if believed > 0 and seen else believed

    def _off(self, job: Job, seen: dict[_Way, float]) -> float:
        """How many times as fast it is as believed, where it was seen."""
        both = [(speed, self.otherwise.speed(job, *way)) for way, speed in seen.items()]
        known = [log(speed / believed) for speed, believed in both if speed > 0 and believed > 0]
        return exp(fmean(known)) if known else 1.0
