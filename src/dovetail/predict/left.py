"""Beliefs about how much work a job has left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol, final

from dovetail.core.entries import Reported
from dovetail.core.model import Job, Seconds
from dovetail.core.track import Track
from dovetail.core.view import ENDS, RECALLS, REPORTS, RUNS, WAITS, View
from dovetail.models.applications import packed
from dovetail.models.epochs import Training, TrainingRun
from dovetail.predict.duration import Predictor

LEAST_S: Final = 1.0  # of a job that has run longer than was believed: it may end any moment


class LeftPredictor(Protocol):
    def left_s(self, track: Track, view: View) -> Seconds:
        """Work to be done yet, in seconds at speed 1; more than 0."""


@dataclass(frozen=True)
class LessDone:
    """What the predictor of durations says, less what is done."""

    predictor: Predictor

    def left_s(self, track: Track, view: View) -> Seconds:
        left = self.predictor.duration_s(track.job, view) - track.executed_by(view.now)
        return max(left, LEAST_S)


@final
class StepLengths:
    """An index of the state: how much work a step is, by job and by what jobs have in common."""

    def __init__(self) -> None:
        self.watches = WAITS | RUNS | ENDS | RECALLS | REPORTS
        self._by_job: Final[dict[int, tuple[float, Seconds]]] = {}  # its step, and work in each
        self._by_likeness: Final[dict[tuple[str, int], Seconds]] = {}

    def waits(self, track: Track) -> None:
        self.recall(track)

    def runs(self, track: Track) -> None:
        self.recall(track)

    def ends(self, track: Track) -> None:
        self.recall(track)
        self._by_job.pop(track.sequence, None)

    def reports(self, track: Track, entry: Reported) -> bool:
        """Nothing is decided because of it: shares are looked at again in the next round."""
        self.recall(track)
        return False

    def recall(self, track: Track) -> None:
        step, amount = track.step, track.job.amount
        if step is None or amount is None or not 0 < step <= amount:
            return
        known = self._by_job.get(track.sequence)
        done_s = track.executed_by(track.reported_at) if known is None or known[0] != step else 0.0
        if done_s <= 0:
            return
        self._by_job[track.sequence] = step, done_s / step
        for key in _likenesses(track.job):
            self._by_likeness[key] = done_s / step

    def of(self, track: Track) -> Seconds | None:
        """Of the job itself, else of the last that ran the same with another number of steps."""
        own = self._by_job.get(track.sequence)
        if own is not None:
            return own[1] if own[0] == track.step else None
        found = [self._by_likeness.get(key) for key in _likenesses(track.job)]
        return next((each for each in found if each is not None), None)


def _likenesses(job: Job) -> list[tuple[str, int]]:
    """The same command but for the number of its steps, on as many GPUs."""
    return [(job.alike[1], job.gpus)] if len(job.alike) > 1 else []


@dataclass(frozen=True, eq=False)
class ByReports:
    """As much for each epoch or step that is left as for those that it has told of, or that a job of
    the same command has; of a job that nobody has told of, or that tells of more than its command
    names (it tells steps, and the command epochs), what the predictor says."""

    predictor: Predictor

    def build(self, view: View) -> StepLengths:
        return StepLengths()

    def left_s(self, track: Track, view: View) -> Seconds:
        index = view.index(self)
        assert isinstance(index, StepLengths)
        amount, each_s = track.job.amount, index.of(track)
        if amount is None or each_s is None:
            return LessDone(self.predictor).left_s(track, view)
        return max(amount * each_s - track.executed_by(view.now), LEAST_S)


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
