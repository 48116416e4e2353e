"""The true course of a job that chooses its batch itself, as in Pollux' and Sia's simulators.

It goes on as in `epochs`, piece by piece: to the end of the epoch or of the round, whichever comes
first. After each piece it learns from the step times and gradients that it has seen, tells what is
new, and chooses its batch again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, final

from dovetail.core.model import Node, Placement, Seconds
from dovetail.models.applications import Application, Counts, lowest_rotation
from dovetail.models.course import Milestone, Told
from dovetail.models.epochs import CourseOfEpochs, TrainingRun
from dovetail.models.goodput import BatchRange, GradientNoise
from dovetail.models.goodput_agent import BatchAgent
from dovetail.models.goodput_fit import SeenStep
from dovetail.models.shared_steps import SharedSteps
from dovetail.models.workload import Arrival

MOST_GPUS: Final = 64  # nobody has measured more


@dataclass(frozen=True, slots=True)
class AdaptiveRun:
    """A job of a workload that may choose its batch. Makes its course."""

    run: TrainingRun
    wanted: int | None = None  # a batch that it uses everywhere
    shared: SharedSteps | None = None  # what all jobs of the application have seen, if they say so

    def __call__(self) -> AdaptiveCourse:
        return AdaptiveCourse(self)

    def on(self, kind: str) -> Application:
        return self.run.by_kind.get(kind, self.run.application)

    def batches(self, kind: str, counts: Counts) -> BatchRange:
        """What it can use there; by kind no more on a GPU than was measured on such a placement."""
        limits = self.on(kind).limits
        if not self.run.by_kind:
            return BatchRange(*limits)
        return BatchRange(*limits._replace(local_most=_local_most(self.on(kind), counts)))


def _local_most(application: Application, counts: Counts) -> int:
    """The largest batch of a GPU that was measured there, or with as many GPUs and nodes or more."""
    exactly = application.measured.get(lowest_rotation(counts))
    if exactly is not None:
        return exactly.locals[-1]
    nodes, gpus = len(counts), sum(counts)
    points = application.scattered.points
    return int(max([one[2] for one in points if one[0] >= nodes and one[1] >= gpus]))


class _Piece(NamedTuple):
    """Work at one rate, until the epoch or the round is over."""

    begins: Seconds
    ends: Seconds
    rate: float
    ends_epoch: bool
    seen: SeenStep
    noise: GradientNoise


@final
class AdaptiveCourse(CourseOfEpochs):
    """A run that chooses its batch by what it knows of itself."""

    def __init__(self, own: AdaptiveRun) -> None:
        super().__init__(own.run)
        self._own: Final = own
        self._agent: Final = BatchAgent(own.wanted, own.shared)
        self._kind = ""
        self._counts: Counts = ()
        self._piece: _Piece | None = None
        self._news = False

    @property
    def speed(self) -> float:
        return 0.0 if self._piece is None else self._piece.rate / self._usual_rates[self._epoch]

    def begin(self, at: Seconds, placement: Placement, nodes: Sequence[Node]) -> Milestone:
        at = self._begins(at)
        self._kind = nodes[placement.slices[0].node].kind
        self._counts = tuple([mask.bit_count() for _, mask in placement.slices])
        return self._go_on(at)

    def reach(self, at: Seconds) -> tuple[Told, Milestone]:
        piece = self._piece
        assert piece is not None
        self._end(piece, at)
        metrics = self._agent.told() if self._news else {}
        self._news = False
        step = float(self._epoch)
        return Told(step, metrics), self._go_on(at)

    def halt(self, at: Seconds) -> Seconds:
        before, piece = self._work_s(), self._piece
        if piece is not None and at > piece.begins:
            self._end(piece._replace(ends=at, ends_epoch=False), at)
        self._piece = None
        return self._work_s() - before

    def _go_on(self, at: Seconds) -> Milestone:
        """The next piece, with the batch that is best by all that is known."""
        own, gpus = self._own, sum(self._counts)
        application, batches = own.on(self._kind), own.batches(self._kind, self._counts)
        local, aside = self._agent.choose(self._kind, len(self._counts), gpus, batches)
        time = application.step_time(self._counts, local)
        sqr, var = application.noise(gpus * local * (aside + 1), self._epoch)
        scale = gpus * local * (aside + 1) / application.limits.initial
        step_s = time.step_s + (time.step_s - time.sync_s) * aside
        rate = (var + sqr) / (var / scale + sqr) / step_s / own.run.slowdown
        seen = SeenStep(len(self._counts), gpus, local, time.step_s - time.sync_s, time.step_s)
        ends, ends_epoch = self._until(at, rate)
        self._piece = _Piece(at, ends, rate, ends_epoch, seen, GradientNoise(sqr, var))
        return Milestone(ends, ends_epoch and self._epoch + 1 == len(self._done))

    def _until(self, at: Seconds, rate: float) -> tuple[Seconds, bool]:
        """When the epoch or the round is over, and whether the epoch is."""
        round_s, goal = self._run.rules.round_s, self._done[self._epoch]
        if not round_s:
            return at + (goal - self._progress) / rate, True
        end = at + round_s - at % round_s
        if self._progress + rate * (end - at) < goal:
            return end, False
        return at + round((goal - self._progress) / rate), True

    def _end(self, piece: _Piece, at: Seconds) -> None:
        """Count what was done in it, and learn from it."""
        if piece.ends > piece.begins:
            limits = BatchRange(*self._own.on(self._kind).limits)
            news = self._agent.saw(self._kind, piece.seen, piece.noise, limits)
            self._news = self._news or news
        goal = self._done[self._epoch]
        if piece.ends_epoch:
            self._progress = goal
            self._epoch += 1
        else:
            self._progress = min(self._progress + piece.rate * (at - piece.begins), goal)


def adaptive(arrival: Arrival, most_gpus: int = MOST_GPUS) -> Arrival:
    """The same job, free to choose its batch and any number of GPUs that it can be split over."""
    run = arrival.course
    if not isinstance(run, TrainingRun):
        return arrival
    limits, one_gpu = run.application.limits, run.application.one_gpu
    most = 1 if one_gpu else min(limits.largest // limits.local_least, most_gpus)
    job = replace(arrival.job, gpus=1, min_gpus=1, max_gpus=most)
    return replace(arrival, job=job, course=AdaptiveRun(run, limits.largest if one_gpu else None))


def sharing(arrivals: Iterable[Arrival]) -> list[Arrival]:
    """The same jobs; those of one application know what any of them has seen."""
    known: dict[str, SharedSteps] = {}
    found = []
    for arrival in arrivals:
        course = arrival.course
        if isinstance(course, AdaptiveRun):
            shared = known.setdefault(course.run.application.name, SharedSteps())
            arrival = replace(arrival, course=replace(course, shared=shared))
        found.append(arrival)
    return found


def by_kind(arrival: Arrival) -> Arrival:
    """The same job with the batch of its workload, as fast as was measured on each GPU kind."""
    run = arrival.course
    if not isinstance(run, TrainingRun) or not run.by_kind:
        return arrival
    return replace(arrival, course=AdaptiveRun(run, run.batch))
