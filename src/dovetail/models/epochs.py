"""The true course of a job that trains an application epoch by epoch, in rounds (Pollux' simulator).

Within a round a job goes on at the rate of its present epoch; when an epoch is over is known to the
second, as there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf, nextafter
from typing import Final, final

from dovetail.core.model import Interruption, Job, JobId, Node, Placement, Seconds
from dovetail.models.applications import Application, Counts, packed
from dovetail.models.course import Course, Milestone, Told
from dovetail.models.workload import Arrival

MEASURED: Final = "measured"  # what a sample is worth is as the gradients say
POLLUX_ROUND_S: Final = 60.0
FIXED: Final = "fixed"  # a job keeps the batch of its workload
ADAPTIVE: Final = "adaptive"  # or chooses it itself, by its goodput
SHARED: Final = "shared"  # likewise, knowing the steps that all jobs of its application have seen
LINEAR: Final = "linear"  # every sample is worth the same


@dataclass(frozen=True, slots=True)
class RoundRules:
    """`round_s` 0: no rounds, and times are not whole seconds."""

    round_s: Seconds = POLLUX_ROUND_S
    restart_s: Seconds = 30.0  # also before the first start
    convergence: str = MEASURED


@dataclass(frozen=True, slots=True)
class KindTables:
    """Applications as measured on several GPU kinds (Sia's simulator), and what goes with each."""

    applications: Mapping[str, Mapping[str, Application]]  # by name, then by kind
    slowdowns: Mapping[str, float]  # real runs over those that were measured
    restarts: Mapping[str, Seconds]


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A job of a workload: what it trains, its batch, and what it asked for. Makes its course."""

    application: Application
    batch: int
    gpus: int
    rules: RoundRules
    by_kind: Mapping[str, Application] = field(default_factory=dict)
    slowdown: float = 1.0

    def __call__(self) -> EpochCourse:
        return EpochCourse(self)

    @property
    def work_s(self) -> Seconds:
        """What it takes on the GPUs it asked for, undisturbed."""
        return self.reference()[-1]

    def gains(self, batch: int) -> Sequence[float]:
        application = self.application
        if self.rules.convergence == LINEAR:
            return (batch / application.limits.initial,) * application.epochs
        return application.gains(batch)

    def rates(self, counts: Counts) -> list[float]:
        """Progress a second, by epoch."""
        gpus = sum(counts)
        split = self.application.split(self.batch, gpus)
        step_s = self.application.optimisation_s(counts, split)
        return [gain / step_s for gain in self.gains(gpus * split.local * (split.aside + 1))]

    def reference(self) -> list[Seconds]:
        """Seconds of work by the end of each epoch, where it has what it asked for; 0 first."""
        rates, done = self.rates(packed(self.gpus)), self.application.curves.progress
        parts = [
            (end - begin) / rate
            for begin, end, rate in zip((0.0, *done), done, rates, strict=False)
        ]
        return list(accumulate(parts, initial=0.0))


@dataclass(frozen=True, slots=True)
class Training:
    """Every application there is, and the rules by which jobs train them."""

    applications: Mapping[str, Application]
    rules: RoundRules
    tables: KindTables | None = None

    def on(self, name: str, kind: str) -> Application | None:
        """As it was measured on that GPU kind."""
        if self.tables is None:
            return self.applications.get(name)
        return self.tables.applications.get(name, {}).get(kind)

    def run(self, name: str, batch: int, gpus: int) -> TrainingRun:
        application = self.applications.get(name)
        if application is None:
            known = ", ".join(self.applications)
            raise ValueError(f"there is no application {name!r}; there are {known}")
        limits = application.limits
        if not limits.initial <= batch <= limits.largest:
            raise ValueError(
                f"{name} was measured with batches of {limits.initial} to {limits.largest}, not {batch}"
            )
        tables = self.tables
        if tables is None:
            return TrainingRun(application, batch, gpus, self.rules)
        rules = replace(self.rules, restart_s=tables.restarts.get(name, self.rules.restart_s))
        kinds, slowdown = tables.applications[name], tables.slowdowns.get(name, 1.0)
        return TrainingRun(application, batch, gpus, rules, kinds, slowdown)

    def arrival(self, job_id: JobId, at: Seconds, run: TrainingRun) -> Arrival:
        """A job that may have any number of GPUs its batch can be split over."""
        application = run.application
        job = Job(
            job_id,
            run.gpus,
            model=f"{application.name}@{run.batch}",
            min_gpus=1,
            max_gpus=max(run.gpus, application.most_gpus(run.batch)),
            interruption=Interruption(0.0, run.rules.restart_s, 0.0),
            amount=float(application.epochs),
        )
        return Arrival(at, job, run.work_s, course=run)


class CourseOfEpochs:
    """Where a run is in its epochs, whatever the rate at which it goes there."""

    heeds_leaving: Final = False  # it goes as fast beside others

    def __init__(self, run: TrainingRun) -> None:
        self._run: Final = run
        self._done: Final = run.application.curves.progress
        self._reference: Final = run.reference()
        self._usual_rates: Final = run.rates(packed(run.gpus))
        self._epoch = 0
        self._progress = 0.0
        self._began = False

    def meet(self, others: Sequence[Course | None], rate: float) -> None:
        """As fast beside others as alone."""

    def lose(self, work_s: Seconds) -> None:
        left = max(self._work_s() - work_s, 0.0)
        epoch = min(bisect_right(self._reference, left) - 1, len(self._done) - 1)
        begun = self._done[epoch - 1] if epoch else 0.0
        self._epoch = epoch
        self._progress = begun + (left - self._reference[epoch]) * self._usual_rates[epoch]

    def _work_s(self) -> Seconds:
        if self._epoch == len(self._done):
            return self._reference[-1]
        begun = self._done[self._epoch - 1] if self._epoch else 0.0
        since = (self._progress - begun) / self._usual_rates[self._epoch]
        return self._reference[self._epoch] + since

    def _begins(self, at: Seconds) -> Seconds:
        """When it is at work: later restarts than the first are a matter of its interruption."""
        if self._began:
            return at
        self._began = True
        return at + self._run.rules.restart_s


@final
class EpochCourse(CourseOfEpochs):
    """A run whose batch is given: its rate follows from its GPUs."""

    def __init__(self, run: TrainingRun) -> None:
        super().__init__(run)
        self._rates: Sequence[float] = self._usual_rates
        self._at: Seconds = 0.0  # it is at work from then on, with that progress
        self._over_at: Seconds = 0.0  # the present epoch, if nothing changes

    @property
    def speed(self) -> float:
        return self._rates[self._epoch] / self._usual_rates[self._epoch]

    def begin(self, at: Seconds, placement: Placement, nodes: Sequence[Node]) -> Milestone:
        self._rates = self._run.rates(tuple([mask.bit_count() for _, mask in placement.slices]))
        self._at = self._begins(at)
        return self._next()

    def reach(self, at: Seconds) -> tuple[Told, Milestone]:
        self._progress = self._done[self._epoch]
        self._epoch += 1
        self._at = self._over_at
        return Told(float(self._epoch), {}), self._next()

    def halt(self, at: Seconds) -> Seconds:
        before = self._work_s()
        rate, goal = self._rates[self._epoch], self._done[self._epoch]
        while self._at < at:
            until = min(self._round_end(self._at), at)
            self._progress = min(self._progress + rate * (until - self._at), goal)
            self._at = until
        return self._work_s() - before

    def _round_end(self, at: Seconds) -> Seconds:
        round_s = self._run.rules.round_s
        return at + round_s - at % round_s if round_s else inf

    def _next(self) -> Milestone:
        """When the present epoch is over."""
        rate, goal = self._rates[self._epoch], self._done[self._epoch]
        at, progress, ends = self._at, self._progress, self._epoch + 1 == len(self._done)
        if not self._run.rules.round_s:
            self._over_at = at + (goal - progress) / rate
            return Milestone(self._over_at, ends)
        while progress + rate * (self._round_end(at) - at) < goal:
            until = self._round_end(at)
            progress += rate * (until - at)
            at = until
        self._over_at = at + round((goal - progress) / rate)
        # At the very begin of a round it is over only after what is decided then.
        is_begin = self._over_at == at == self._round_end(at) - self._run.rules.round_s
        return Milestone(nextafter(at, inf) if is_begin else self._over_at, ends)
