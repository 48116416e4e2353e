"""Gavel's own programs with pairs (its classes `…WithPacking`), beside ours, on the jobs of its traces.

DOVETAIL_GAVEL names the folder `scheduler` of its repository; cvxpy and ECOS must be there. Its classes
take only sets of pairs that are complete, so pairs of different sizes are given with a speed of 0.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import combinations
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from benchmarks.lines import Line
from dovetail.experiments.experiment import Experiment
from dovetail.models.leases import pair_steps_per_s, steps_per_s
from dovetail.models.speed_table import SpeedTable
from dovetail.models.workload import Arrival
from dovetail.policies.gavel.problem import AllocationProblem, RateClaim
from dovetail.policies.gavel.solving import allocated

KINDS, COUNTS = ("v100", "p100", "k80"), (8.0, 16.0, 12.0)
SPEC = dict(zip(KINDS, COUNTS, strict=True))
APART = 1e-6
TIMES_S = (6840.0, 19800.0, 32760.0)  # when Gavel asked its policy in the run of b100


def measured(experiment: Experiment) -> Iterator[Line]:
    """The objective of both, for the jobs that have come by then; as much left as they had."""
    if "DOVETAIL_GAVEL" not in os.environ:
        print(
            "     DOVETAIL_GAVEL names no copy of Gavel: its own programs with pairs are left out"
        )
        return
    scheduler = Path(os.environ["DOVETAIL_GAVEL"])
    sys.path[:0] = [str(scheduler), str(scheduler / "policies")]
    table = experiment.speed_table
    assert table is not None
    for at in TIMES_S:
        there = [arrival for arrival in experiment.arrivals if arrival.at <= at][-60:]
        yield from _compared(_posed(there, table, at))


def _posed(there: list[Arrival], table: SpeedTable, at: float) -> AllocationProblem:
    chance, claims, sorts = Random(f"left/{at}"), [], {}
    for arrival in there:
        job = arrival.job
        rates = tuple(steps_per_s(table, job, kind) for kind in KINDS)
        left, sort = (job.amount or 1.0) * chance.uniform(0.2, 1.0), f"{job.gpus} {job.model}"
        sorts[sort] = job
        claim = RateClaim(job.id, job.gpus, rates, rates[0], left=left, age_s=at - arrival.at)
        claims.append(claim._replace(sort=sort))
    side_by_side = {}
    for one, first in sorts.items():
        for other, second in sorts.items():
            if first.gpus == second.gpus:
                both = [pair_steps_per_s(table, first, second, kind) for kind in KINDS]
                firsts, seconds = tuple(own for own, _ in both), tuple(own for _, own in both)
                side_by_side[one, other] = firsts, seconds
    return AllocationProblem(KINDS, COUNTS, tuple(claims), at=at, side_by_side=side_by_side)


def _compared(problem: AllocationProblem) -> Iterator[Line]:
    theirs = _Theirs(problem)
    for objective, value in theirs.objectives.items():
        began = process_time()
        ours = allocated(problem, objective, aware=True).objective
        own_s, began = process_time() - began, process_time()
        found = value()
        times = (process_time() - began) / own_s
        assert ours is not None
        what = f"Gavel's {objective} with pairs, {len(problem.claims)} jobs: {times:.0f} times its speed"
        apart = abs(ours / found - 1.0)
        yield Line(what, f"{apart:.1e}", f"{APART:g}", apart < APART)


@dataclass(frozen=True)
class _Theirs:
    """The problem in Gavel's words."""

    problem: AllocationProblem

    @cached_property
    def _pair(self) -> Callable[[int, int | None], Any]:
        made: Callable[[int, int | None], Any] = import_module("job_id_pair").JobIdPair
        return made

    @cached_property
    def _alone(self) -> Mapping[Any, RateClaim]:
        return {self._pair(int(claim.job_id), None): claim for claim in self.problem.claims}

    @cached_property
    def _rates(self) -> Mapping[Any, Mapping[str, Any]]:
        found: dict[Any, Mapping[str, Any]] = {
            own: dict(zip(KINDS, claim.rates, strict=True)) for own, claim in self._alone.items()
        }
        nothing = (0.0,) * len(KINDS)
        for one, other in combinations(self.problem.claims, 2):
            both = self.problem.side_by_side.get((one.sort, other.sort), (nothing, nothing))
            rows = zip(KINDS, zip(*both, strict=True), strict=True)
            name = self._pair(int(one.job_id), int(other.job_id))
            found[name] = {kind: list(pair) for kind, pair in rows}
        return found

    def _done(self, allocation: Mapping[Any, Mapping[str, float]]) -> Mapping[Any, float]:
        """Steps a second of each job."""
        done = dict.fromkeys(self._alone, 0.0)
        for name, row in allocation.items():
            for number, own in enumerate(name.singletons()):
                for kind in KINDS:
                    rate = self._rates[name][kind]
                    done[own] += row[kind] * (rate[number] if name.is_pair() else rate)
        return done

    @property
    def objectives(self) -> Mapping[str, Callable[[], float]]:
        return {"max-min": self.max_min, "finish-time": self.finish_time, "max-sum": self.max_sum}

    def max_min(self) -> float:
        policy = import_module("max_min_fairness").MaxMinFairnessPolicyWithPacking("ECOS")
        weights = dict.fromkeys(self._alone, 1.0)
        done = self._done(policy.get_allocation(self._rates, self._sizes, weights, SPEC))
        return min(
            done[own] * claim.gpus / self._usual(claim) for own, claim in self._alone.items()
        )

    def finish_time(self) -> float:
        policy = import_module("finish_time_fairness").FinishTimeFairnessPolicyWithPacking("ECOS")
        weights = dict.fromkeys(self._alone, 1.0)
        ages = {own: claim.age_s for own, claim in self._alone.items()}
        left = {own: claim.left for own, claim in self._alone.items()}
        given = (self._rates, self._sizes, weights, ages, left, SPEC)
        done = self._done(policy.get_allocation(*given))
        return max(
            (claim.age_s + claim.left / done[own]) / (claim.left / self._isolated(claim))
            for own, claim in self._alone.items()
        )

    def max_sum(self) -> float:
        module = import_module("max_sum_throughput")
        policy = module.ThroughputNormalizedByCostSumWithPackingSLOs("ECOS")
        return sum(self._done(policy.get_allocation(self._rates, self._sizes, SPEC)).values())

    @cached_property
    def _sizes(self) -> Mapping[Any, int]:
        return {own: int(claim.gpus) for own, claim in self._alone.items()}

    @staticmethod
    def _usual(claim: RateClaim) -> float:
        rows = zip(claim.rates, COUNTS, strict=True)
        return sum(rate * count for rate, count in rows) / sum(COUNTS)

    def _isolated(self, claim: RateClaim) -> float:
        parts = [count / len(self.problem.claims) / claim.gpus for count in COUNTS]
        whole = max(sum(parts), 1.0)
        return sum(rate * part / whole for rate, part in zip(claim.rates, parts, strict=True))
