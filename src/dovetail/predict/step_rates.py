"""Beliefs about steps a second, not only about how much faster one GPU kind is than another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from dovetail.core.model import Job
from dovetail.models.leases import pair_steps_per_s, steps_per_s
from dovetail.models.speed_table import SpeedTable
from dovetail.predict.speed import SpeedPredictor


@runtime_checkable
class StepRates(SpeedPredictor, Protocol):
    def steps_per_s(self, job: Job, kind: str) -> float:
        """With all the GPUs that it asks for, of that kind; 0: it cannot run there."""

    def pair_steps_per_s(self, job: Job, other: Job, kind: str) -> tuple[float, float]:
        """Of both side by side on as many; 0: they cannot."""


@dataclass(frozen=True, eq=False)
class AsLeased:
    """As measured, which is the truth here, and nowhere else can a job run; for jobs in leases."""

    true_speeds: SpeedTable
    _found: dict[tuple[str, int, str], float] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def source() -> str:
        return "steps a second as measured, which is the truth here"

    def steps_per_s(self, job: Job, kind: str) -> float:
        way = (job.model, job.gpus, kind)
        found = self._found.get(way)
        if found is None:
            found = self._found[way] = steps_per_s(self.true_speeds, job, kind)
        return found

    def pair_steps_per_s(self, job: Job, other: Job, kind: str) -> tuple[float, float]:
        return pair_steps_per_s(self.true_speeds, job, other, kind)

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        usual = self.steps_per_s(job, self.true_speeds.reference)
        return self.steps_per_s(job, kind) / usual if usual and gpus == job.gpus else 0.0
