"""The problem as arrays, and the programs that are made of it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from operator import mul
from typing import TYPE_CHECKING

import numpy as np

from dovetail.policies.gavel.central import Array, Central, CentralProgram, Needs, solve
from dovetail.policies.gavel.lone import LoneColumns
from dovetail.policies.gavel.problem import Allocation, AllocationProblem

if TYPE_CHECKING:
    from dovetail.policies.gavel.pairing import Pairing


class RateTable:
    """Rates by job and kind, scaled to 1 on the kind on which the job is fastest.

    A job that can run nowhere is left out: it would keep everybody else from having a share.
    """

    def __init__(self, problem: AllocationProblem, until: float = inf) -> None:
        self.problem = problem
        self.until = until
        up = problem.counts
        claims = self.claims = [c for c in problem.claims if any(map(mul, c.rates, up))]
        self.rates: Array = np.array([claim.rates for claim in claims], dtype=float)
        self.gpus: Array = np.array([claim.gpus for claim in claims], dtype=float)
        self.counts: Array = np.array(problem.counts, dtype=float)
        self.fastest: Array = self.rates.max(axis=1)
        self.scaled: Array = self.rates / self.fastest[:, None]
        able: Array = (self.rates > 0.0) * (self.counts > 0.0).astype(float)
        self.columns = LoneColumns(self.scaled, self.gpus, self.counts, able)
        self._pairing = self._pairs_of(problem)

    def _pairs_of(self, problem: AllocationProblem) -> Pairing | None:
        """None: nobody shares GPUs."""
        if not problem.side_by_side:
            return None
        # Imported here: it needs scipy, and most programs need it not.
        from dovetail.policies.gavel.pairing import Pairing

        pairing = Pairing(problem, self.claims, self.columns, self.fastest)
        return pairing if len(pairing.all.first) else None

    def column(self, field: str) -> Array:
        """One figure of every job."""
        return np.array([getattr(claim, field) for claim in self.claims], dtype=float)

    def alone(self) -> Array:
        """Steps a second with an equal part of the cluster, as `greedy.isolated` gives it."""
        parts = self.counts / len(self.claims) / self.gpus[:, None]
        parts /= np.maximum(parts.sum(axis=1), 1.0)[:, None]
        rates: Array = (self.rates * parts).sum(axis=1)
        return rates

    def usual_part(self) -> Array:
        """How much of its best rate each job has on the cluster's mixture of kinds, for each of its
        GPUs: what shares are measured by."""
        mixture = self.scaled @ self.counts / self.counts.sum()
        part: Array = mixture / self.gpus
        return part

    def most(self, growth: Array, base: Array | None = None) -> Central:
        """The largest t such that every job has at least base + t · growth of its best rate."""
        unit = growth.max()
        slopes, bend = growth / unit, np.zeros_like(growth)
        begin = bend if base is None else base

        found = self._solve(lambda t: (begin + t * slopes, slopes, bend), 0.0, slope=-1.0)
        return replace(found, figure=found.figure / unit)

    def least(self, work: Array, spans: Array, ages: Array) -> Central:
        """The least t such that every job has at least work / (t · span - age) of its best rate."""
        # Nobody is faster than at its best, so t is no less than (age + work) / span; a little room
        # below that lets the search come to it from both sides.
        floor = float(((ages + 0.7 * work) / spans).max())

        def needs(t: float) -> tuple[Array, Array, Array]:
            rest = t * spans - ages
            need = work / rest
            slope = -need * spans / rest
            return need, slope, -2.0 * slope * spans / rest

        start = float(((ages + work / self.alone() * self.fastest) / spans).max()) * 1.5 + 1e-9
        return self._solve(needs, start, slope=1.0, floor=floor)

    def within(self, base: Array, worth: Array | None = None) -> Central:
        """Every job has at least so much of its best rate, and the worth of all shares is largest: of
        a step a second on each kind. Without a worth, the middle of all that is allowed."""
        flat, base = np.zeros_like(base), np.where(base > 0.0, base, -1.0)  # -1: nothing is asked
        if worth is None:
            return self._solve(lambda t: (base, flat, flat), 0.0)
        worth = self.fastest[:, None] * worth  # of a job's best rate
        unit = float(np.abs(self.scaled * worth).max())
        return self._solve(lambda t: (base, flat, flat), 0.0, worth=worth / unit, unit=unit)

    def _solve(
        self,
        needs: Needs,
        start: float,
        slope: float = 0.0,
        floor: float = -inf,
        worth: Array | None = None,
        unit: float = 1.0,
    ) -> Central:
        costs = None if worth is None else -(self.scaled * worth).ravel()
        program = CentralProgram(self.columns, needs, start, floor, slope, costs)
        if self._pairing is None:
            found = solve(program, self.until)
        else:
            found = self._pairing.solve(program, worth, self.until)
        return found if worth is None else replace(found, figure=found.worth * unit)

    def allocation(self, found: Central, objective: float | None) -> Allocation:
        """With nothing for jobs that can run nowhere."""
        shares = {claim.job_id: (0.0,) * len(self.counts) for claim in self.problem.claims}
        clipped = np.clip(found.shares, 0.0, 1.0)
        rows: Array = clipped[: self.rates.size].reshape(self.rates.shape)
        for claim, row in zip(self.claims, rows, strict=True):
            shares[claim.job_id] = tuple(row.tolist())
        if self._pairing is not None:
            shares |= self._pairing.shares(self.claims, found, clipped)
        return Allocation(shares, objective, found.gap, not found.solved)
