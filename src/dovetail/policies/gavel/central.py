"""The programs of Gavel's family by an interior-point method, which takes the centre of all optima.

Shares x of jobs (rows) in GPU kinds (columns), and one figure t that is to be small:

    minimise   cost · x + slope · t
    such that  sum_j x_ij <= 1,  sum_i gpus_i x_ij <= counts_j,  sum_j rates_ij x_ij >= need_i(t).

Every job has two constraints of its own and only the kinds join them, so a step costs no more than a
few passes over the table: five thousand jobs take tens of milliseconds. The primal-dual method of
Mehrotra; where many allocations are equally good it ends in the middle of them, not at a corner in
which some job has no share of a kind that others have for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from time import monotonic
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
# need_i at t, and its first and second derivatives. Convex, or the least t is not found.
Needs: TypeAlias = Callable[[float], tuple[Array, Array, Array]]

_CLOSE: Final = 1e-8  # gap and violations, in proportion, at which it is solved
_GOOD: Final = 1e-7  # and that is taken where no step leads any further
_STEPS: Final = 100
_PATIENCE: Final = 12  # steps that lead no further
_BACK: Final = 0.995  # how far to the wall one step may go


@dataclass(frozen=True, slots=True)
class Central:
    """What was found: the shares, t, and how far from the optimum it may be, in proportion."""

    shares: Array
    figure: float
    prices: Array  # of the needs: 0 for a job that could have more without anybody having less
    gap: float
    solved: bool


@dataclass(frozen=True, slots=True)
class CentralProgram:
    """One of the programs above. Each row of rates is scaled to 1 at most; `needs` goes with that."""

    rates: Array
    gpus: Array
    counts: Array
    needs: Needs
    start: float  # the first t to be tried,
    floor: float = -inf  # which stays above this
    slope: float = 0.0  # -1: t is to be large; 1: small; 0: there is none
    costs: Array | None = None
    able: Array | None = None  # 0 where the job cannot be at all; None: everywhere


@dataclass(slots=True)
class _Point:
    """Shares and slacks (of jobs, of kinds, of needs), the prices of all constraints, t."""

    x: Array
    a: Array
    b: Array
    e: Array
    z: Array
    row: Array  # price of a job's time; its slack's is the same
    cap: Array  # of a kind
    fair: Array  # of a need
    t: float


def solve(program: CentralProgram, until: float = inf) -> Central:
    """The central optimum, or the best there is when the clock of `monotonic` says `until`."""
    able = np.ones_like(program.rates) if program.able is None else program.able
    costs = np.zeros_like(program.rates) if program.costs is None else program.costs
    point = _begin(program, able)
    best, stalled = Central(point.x.copy(), point.t, point.fair.copy(), inf, False), 0
    with np.errstate(all="ignore"):  # what is no number ends the search: see `isfinite`
        for _ in range(_STEPS):
            newton = _Newton(program, point, able, costs)
            gap = newton.distance()
            stalled = 0 if gap < best.gap else stalled + 1
            if gap < best.gap:
                best = Central(point.x.copy(), point.t, point.fair.copy(), gap, gap < _GOOD)
            if gap < _CLOSE or stalled > _PATIENCE or not isfinite(gap) or monotonic() > until:
                break
            if not newton.step():
                break
    return best


def _begin(program: CentralProgram, able: Array) -> _Point:
    """A point well inside: everybody has half of an equal part."""
    rates, gpus, counts = program.rates, program.gpus, program.counts
    asked = (gpus[:, None] * able).sum(axis=0)
    part = 0.5 * np.minimum(counts / np.maximum(asked, 1e-300), 1.0 / rates.shape[1])
    x = np.maximum(able * part, 1e-6 * able)
    need, _, _ = program.needs(program.start)
    ones = np.ones(len(gpus))
    return _Point(
        x,
        np.maximum(1.0 - x.sum(axis=1), 0.1),
        np.maximum(counts - (gpus[:, None] * x).sum(axis=0), 0.1),
        np.maximum((rates * x).sum(axis=1) - need, 0.1),
        np.ones_like(x),
        ones.copy(),
        np.ones(len(counts)),
        ones.copy(),
        program.start,
    )


class _Newton:
    """One step of the method: predictor, corrector, and how far each may go."""

    def __init__(self, program: CentralProgram, point: _Point, able: Array, costs: Array) -> None:
        self._program, self._p, self._able = program, point, able
        rates, gpus = program.rates, program.gpus
        x, z = point.x, point.z
        need, self._c, bend = program.needs(point.t)
        self._bend = float(point.fair @ bend)
        self._rp1 = 1.0 - x.sum(axis=1) - point.a
        self._rp2 = program.counts - gpus @ x - point.b
        self._rp3 = need - (rates * x).sum(axis=1) + point.e
        rd = (
            costs + point.row[:, None] + gpus[:, None] * point.cap - rates * point.fair[:, None] - z
        )
        self._rd = rd * able
        self._rt = program.slope + float(self._c @ point.fair) if program.slope else 0.0
        self._size = int(able.sum()) + 2 * len(gpus) + len(program.counts)
        self._mu = (
            float((x * z).sum() + point.a @ point.row + point.b @ point.cap)
            + float(point.e @ point.fair)
        ) / self._size
        self._worth = abs(program.slope * point.t) + abs(float((costs * x).sum()))
        self._factor()

    def distance(self) -> float:
        """The gap and the violations, in proportion."""
        gap = self._mu * self._size / (1.0 + self._worth)
        primal = max(np.abs(self._rp1).max(), np.abs(self._rp3).max())
        caps = (np.abs(self._rp2) / (1.0 + self._program.counts)).max()
        return float(max(gap, primal, caps, np.abs(self._rd).max(), abs(self._rt)))

    def _factor(self) -> None:
        """What both systems of this step share: two by two for each job, and the kinds.

        A job's need is taken about its mean rate: what it needs and the time it has are then no longer
        nearly the same constraint where it is equally fast everywhere.
        """
        p, program, gpus = self._p, self._program, self._program.gpus
        d = self._d = p.x / p.z * self._able
        dd = d.sum(axis=1)
        mean = self._mean = (program.rates * d).sum(axis=1) / dd
        about = self._about = program.rates - mean[:, None]
        own, need = self._own, self._need = p.a / p.row, p.e / p.fair
        ww = (about * about * d).sum(axis=1) + need
        det = dd * (ww + mean * mean * own) + own * ww
        self._i11, self._i12, self._i22 = (
            (ww + mean * mean * own) / det,
            own * mean / det,
            (dd + own) / det,
        )
        u1, u2 = self._u1, self._u2 = gpus[:, None] * d, gpus[:, None] * about * d
        self._v1 = self._i11[:, None] * u1 + self._i12[:, None] * u2
        self._v2 = self._i12[:, None] * u1 + self._i22[:, None] * u2
        self._joint = self._joined(gpus @ u1 + p.b / p.cap)

    def _joined(self, diagonal: Array) -> Array:
        """The system of the kinds and t."""
        kinds = len(diagonal)
        joint = np.zeros((kinds + 1, kinds + 1))
        joint[:kinds, :kinds] = np.diag(diagonal) - (self._u1.T @ self._v1 + self._u2.T @ self._v2)
        joint[kinds, kinds] = 1.0
        if self._program.slope:
            cross = self._c @ self._v2
            joint[:kinds, kinds], joint[kinds, :kinds] = cross, -cross
            joint[kinds, kinds] = float(self._c**2 @ self._i22) + self._bend
        return joint

    def _direction(self, rx: Array, ra: Array, rb: Array, re: Array) -> _Point:
        """Where these right-hand sides of complementarity lead."""
        p, gpus = self._p, self._program.gpus
        vx = (rx / p.z) * self._able - self._d * self._rd
        va, vb, ve = ra / p.row, rb / p.cap, re / p.fair
        u, y2, y3, dt = self._prices(
            self._rp1 - vx.sum(axis=1) - va,
            self._rp2 - gpus @ vx - vb,
            self._rp3 - (self._program.rates * vx).sum(axis=1) + ve,
        )
        at = u[:, None] + gpus[:, None] * y2 + self._about * y3[:, None]
        y1 = u - self._mean * y3
        return _Point(
            vx + self._d * at,
            va + self._own * y1,
            vb + (p.b / p.cap) * y2,
            ve - self._need * y3,
            self._rd - at * self._able,
            -y1,
            -y2,
            y3,
            dt,
        )

    def _prices(self, r1: Array, r2: Array, r3: Array) -> tuple[Array, Array, Array, float]:
        """Of jobs, of kinds, of needs; and t."""
        kinds, slope = len(r2), self._program.slope
        r3 = r3 - self._mean * r1
        w1, w2 = self._i11 * r1 + self._i12 * r3, self._i12 * r1 + self._i22 * r3
        right = np.empty(kinds + 1)
        right[:kinds] = r2 - (self._u1.T @ w1 + self._u2.T @ w2)
        right[kinds] = -self._rt - float(self._c @ w2) if slope else 0.0
        found: Array = np.linalg.solve(self._joint, right).astype(np.float64)
        y2, dt = found[:kinds], float(found[kinds])
        u = w1 - self._v1 @ y2 + self._i12 * self._c * dt
        return u, y2, w2 - self._v2 @ y2 + self._i22 * self._c * dt, dt

    def step(self) -> bool:
        """Go one step; False: none can be told any more."""
        if not np.isfinite(self._joint).all() or not np.linalg.det(self._joint):
            return False
        p = self._p
        ahead = self._direction(-p.x * p.z, -p.a * p.row, -p.b * p.cap, -p.e * p.fair)
        sigma = (self._after(ahead, *self._reach(ahead, 1.0)) / self._mu) ** 3
        aim = min(sigma, 1.0) * self._mu
        move = self._direction(
            aim - p.x * p.z - ahead.x * ahead.z,
            aim - p.a * p.row - ahead.a * ahead.row,
            aim - p.b * p.cap - ahead.b * ahead.cap,
            aim - p.e * p.fair - ahead.e * ahead.fair,
        )
        self._go(move, *self._reach(move, _BACK))
        return True

    def _reach(self, move: _Point, back: float) -> tuple[float, float]:
        """How far shares and prices may go until the first of them is 0."""
        p = self._p
        primal = min(_room(p.x, move.x), _room(p.a, move.a), _room(p.b, move.b), _room(p.e, move.e))
        if p.t + move.t <= self._program.floor:
            primal = min(primal, (self._program.floor - p.t) / move.t)
        dual = min(
            _room(p.z, move.z),
            _room(p.row, move.row),
            _room(p.cap, move.cap),
            _room(p.fair, move.fair),
        )
        primal, dual = min(1.0, back * primal), min(1.0, back * dual)
        if self._bend:  # where t bends the needs, both go equally far
            primal = dual = min(primal, dual)
        return primal, dual

    def _after(self, move: _Point, primal: float, dual: float) -> float:
        p = self._p
        total = ((p.x + primal * move.x) * (p.z + dual * move.z) * self._able).sum()
        total += (p.a + primal * move.a) @ (p.row + dual * move.row)
        total += (p.b + primal * move.b) @ (p.cap + dual * move.cap)
        total += (p.e + primal * move.e) @ (p.fair + dual * move.fair)
        return float(total) / self._size

    def _go(self, move: _Point, primal: float, dual: float) -> None:
        p = self._p
        p.x += primal * move.x
        p.a += primal * move.a
        p.b += primal * move.b
        p.e += primal * move.e
        p.t += primal * move.t
        p.z += dual * move.z
        p.row += dual * move.row
        p.cap += dual * move.cap
        p.fair += dual * move.fair


def _room(value: Array, change: Array) -> float:
    """The largest step that leaves all of it at least 0."""
    falling = change < 0.0
    return float((-value[falling] / change[falling]).min()) if falling.any() else inf
