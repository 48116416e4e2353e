"""The course of a job that works in leases: so many whole steps, then idle until leased again.

That is how Gavel's simulator has it: in a round of 360 s a job does as many whole steps as fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, final

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, Node, Placement, Seconds
from dovetail.models.course import Course, Milestone, Told
from dovetail.models.speed_table import Hardware, SpeedTable, model_type
from dovetail.models.workload import Arrival

_ROUNDING: Final = 1e-6  # of a step


def steps_per_s(table: SpeedTable, job: Job, kind: str) -> float:
    """As measured with all its GPUs, wherever they are; 0: not measured, so it cannot run there."""
    rows = table.speeds.get(model_type(job.model), {})
    return rows.get(Hardware(table.kind_of(kind), job.gpus), 0.0)


def pair_steps_per_s(table: SpeedTable, job: Job, other: Job, kind: str) -> tuple[float, float]:
    """Of both, side by side on the GPUs of one."""
    own = Hardware(table.kind_of(kind), job.gpus)
    return table.beside(model_type(job.model), model_type(other.model), own)


def lease_steps(rate: float, round_s: Seconds, left: float) -> float:
    """So many whole steps in one round; at least one, or it would never end."""
    return min(float(max(int(rate * round_s), 1)), left)


@dataclass(frozen=True)
class InTable:
    """Where to find how fast a job is beside others."""

    table: SpeedTable
    job: Job
    number: int  # in order of arrival

    def rate_beside(self, other: InTable, kind: str) -> float:
        """Steps a second, as measured with the earlier job first."""
        if self.number < other.number:
            return pair_steps_per_s(self.table, self.job, other.job, kind)[0]
        return pair_steps_per_s(self.table, other.job, self.job, kind)[1]


@dataclass(frozen=True)
class Leased:
    """Makes the course of a job with so many steps, which it does at these rates by GPU kind."""

    steps: int
    rates: Mapping[str, float]
    usual: float  # the rate at which its `work_s` is told
    round_s: Seconds
    measured: InTable | None = None  # None: it is as fast beside others as alone

    def __call__(self) -> LeasedCourse:
        return LeasedCourse(self)


@final
class LeasedCourse:
    """Every time it is given GPUs, or the same once more, it has one lease."""

    heeds_leaving: Final = False  # a lease is worked off at one rate

    def __init__(self, terms: Leased) -> None:
        self._terms: Final = terms
        self._left = float(terms.steps)
        self._rate = 0.0
        self._began = 0.0
        self._leased = 0.0  # steps of this lease that are not done yet
        self._done = 0.0  # and those that are
        self._mate: LeasedCourse | None = None  # the other, where it shares its GPUs

    @property
    def speed(self) -> float:
        return self._rate / self._terms.usual

    def meet(self, others: Sequence[Course | None], rate: float) -> None:
        self._mate = next((own for own in others if isinstance(own, LeasedCourse)), None)

    def begin(self, at: Seconds, placement: Placement, nodes: Sequence[Node]) -> Milestone:
        """A pair's lease is over when both have done their part, and so is a job that ends in it."""
        kind, mate = nodes[placement.slices[0].node].kind, self._mate
        self._mate = None
        self._rate = rate = self._rate_on(kind, mate)
        self._began, self._done = at, 0.0
        if not rate:
            self._leased = 0.0
            return Milestone(inf, False)
        self._leased = lease_steps(rate, self._terms.round_s, self._left)
        until = at + self._leased / rate
        if mate is not None:
            until = max(until, mate._until(at, kind, self))
        return Milestone(until, self._leased == self._left)

    def _rate_on(self, kind: str, mate: LeasedCourse | None) -> float:
        own = self._terms.measured
        other = None if mate is None else mate._terms.measured
        if own is not None and other is not None:
            return own.rate_beside(other, kind)
        return self._terms.rates.get(kind, 0.0)

    def _until(self, at: Seconds, kind: str, mate: LeasedCourse) -> Seconds:
        """When its own part of a lease beside the other would be done."""
        rate = self._rate_on(kind, mate)
        return at + lease_steps(rate, self._terms.round_s, self._left) / rate if rate else at

    def reach(self, at: Seconds) -> tuple[Told, Milestone]:
        self._do(self._leased)
        return Told(self._terms.steps - self._left, {}), Milestone(inf, False)

    def halt(self, at: Seconds) -> Seconds:
        worked_s = max(at - self._began, 0.0)
        self._do(min(self._leased, float(int(worked_s * self._rate + _ROUNDING))))
        self._leased = 0.0
        return self._done / self._terms.usual

    def _do(self, steps: float) -> None:
        self._done += steps
        self._left -= steps
        self._leased -= steps

    def lose(self, work_s: Seconds) -> None:
        self._left += round(work_s * self._terms.usual)


def in_leases(
    arrivals: Sequence[Arrival], table: SpeedTable, kinds: Sequence[str], round_s: Seconds
) -> list[Arrival]:
    """The same jobs, working in leases of whole steps; the scheduler knows how many steps they are."""

    def leased(number: int, arrival: Arrival) -> Arrival:
        job = arrival.job
        rates = {kind: steps_per_s(table, job, kind) for kind in kinds}
        usual = steps_per_s(table, job, table.reference)
        if not usual or not any(rates.values()):
            raise BadInput(
                f"job {job.id!r}: the speed table has no {job.model!r} on {job.gpus} "
                f"{table.reference if not usual else ' or '.join(kinds)}; leases need its steps a second"
            )
        steps = round(arrival.work_s * usual)
        course = Leased(steps, rates, usual, round_s, InTable(table, job, number))
        return replace(arrival, job=replace(job, amount=float(steps)), course=course)

    return [leased(number, arrival) for number, arrival in enumerate(arrivals)]
