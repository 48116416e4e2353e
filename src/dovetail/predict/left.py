"""Beliefs about how much work a job has left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from dovetail.core.model import Job, Seconds
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.models.applications import packed
from dovetail.models.epochs import Training, TrainingRun
from dovetail.predict.duration import Predictor

_LEAST_S: Final = 1.0  # of a job that has run longer than was believed: it may end any moment


class LeftPredictor(Protocol):
    def left_s(self, track: Track, view: View) -> Seconds:
        """Work to be done yet, in seconds at speed 1; more than 0."""


@dataclass(frozen=True)
class LessDone:
    """What the predictor of durations says, less what is done."""

    predictor: Predictor

    def left_s(self, track: Track, view: View) -> Seconds:
        left = self.predictor.duration_s(track.job, view) - track.executed_by(view.now)
        return max(left, _LEAST_S)


@dataclass(frozen=True)
class ByReports:
    """As much for each epoch or step that is left as for those that it has told of; of a job that has
    told of none, or of more than its command names (it tells steps, and the command epochs), what the
    predictor says."""

    predictor: Predictor

    def left_s(self, track: Track, view: View) -> Seconds:
        step, amount = track.step, track.job.amount
        done_s = track.executed_by(view.now)
        if step is None or amount is None or not 0 < step <= amount or done_s <= 0:
            return LessDone(self.predictor).left_s(track, view)
        return max(done_s * (amount - step) / step, _LEAST_S)


@dataclass(frozen=True)
class IterationsLeft:
    """As its application was measured to converge, from the epochs that it has told of: what Pollux'
    simulator lets Optimus know."""

    training: Training
    _found: dict[tuple[str, int, int], Seconds] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def left_s(self, track: Track, view: View) -> Seconds:
        job, epoch = track.job, int(track.step or 0)
        found = self._found.get((job.model, job.gpus, epoch))
        if found is None:
            run = run_of(self.training, job)
            left = run.application.iterations_left(run.batch, epoch) * usual_step_s(run)
            found = self._found[job.model, job.gpus, epoch] = left
        return found


def run_of(training: Training, job: Job) -> TrainingRun:
    """What a job of a workload trains: its model is `cifar10@2048`."""
    name, batch = job.model.split("@")
    return training.run(name, int(batch), job.gpus)


def usual_step_s(run: TrainingRun) -> Seconds:
    """One step of the optimiser on the GPUs it asked for."""
    application = run.application
    return application.optimisation_s(packed(run.gpus), application.split(run.batch, run.gpus))


@dataclass(frozen=True)
class PackedSteps:
    """As its application was measured with that many GPUs on the fewest nodes, which is the truth in a
    simulation where they lie so."""

    training: Training
    _speeds: dict[tuple[str, int, int], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        key = (job.model, job.gpus, gpus)
        found = self._speeds.get(key)
        if found is None:
            found = self._speeds[key] = self._speed(job, gpus)
        return found

    def _speed(self, job: Job, gpus: int) -> float:
        run = run_of(self.training, job)
        application = run.application
        if gpus > application.most_gpus(run.batch):
            return 0.0
        # As in Pollux' simulator a single GPU is believed to put a batch aside always.
        split = application.split(run.batch, gpus, always_aside=True)
        return usual_step_s(run) / application.optimisation_s(packed(gpus), split)
