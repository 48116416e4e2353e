"""The programs of Gavel's family by an interior-point method, which takes the centre of all optima.

Shares x of columns, each of a job (or of two beside each other) on one GPU kind, and one figure t that
is to be small:

    minimise   cost · x + slope · t
    such that  every job's time <= 1,  every kind's GPUs <= counts,  every job's steps >= need(t).

What the columns are and how their system is solved is `ShareColumns`' matter: where each column is of
one job only the kinds join the jobs (`lone`), and five thousand jobs take tens of milliseconds. The
primal-dual method of Mehrotra; where many allocations are equally good it ends in the middle of them,
not at a corner in which some job has no share of a kind that others have for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from time import monotonic
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
# need_i at t, and its first and second derivatives. Convex, or the least t is not found.
Needs: TypeAlias = Callable[[float], tuple[Array, Array, Array]]

CLOSE: Final = 1e-8  # gap and violations, in proportion, at which it is solved
_GOOD: Final = 1e-7  # and that is taken where no step leads any further
_STEPS: Final = 100
_PATIENCE: Final = 12  # steps that lead no further
_BACK: Final = 0.995  # how far to the wall one step may go


class ShareSystem(Protocol):
    """The linear system of one step."""

    def solve(self, right: Array, last: float) -> tuple[Array, Array, float]:
        """What the prices come to in the columns, the prices, and t, for these right-hand sides."""


class ShareColumns(Protocol):
    """What shares can be had. Constraints are in this order: jobs' time, kinds' GPUs, jobs' steps."""

    @property
    def jobs(self) -> int: ...

    @property
    def counts(self) -> Array:
        """GPUs of each kind."""

    @property
    def able(self) -> Array:
        """By column: 0 where it cannot be at all."""

    def begin(self) -> Array:
        """Shares well inside: everybody has half of an equal part."""

    def sums(self, x: Array) -> Array:
        """What these shares come to in every constraint."""

    def prices(self, y: Array) -> Array:
        """What these prices of the constraints come to in every column."""

    def system(
        self, d: Array, ratio: Array, slopes: Array, bend: float, moves: bool
    ) -> ShareSystem:
        """With these weights of the columns and of the slacks; `slopes` are of the needs along t."""


@dataclass(frozen=True, slots=True)
class Central:
    """What was found: the shares, t, and how far from the optimum it may be, in proportion."""

    shares: Array
    figure: float
    prices: Array  # of the needs: 0 for a job that could have more without anybody having less
    gap: float
    solved: bool
    limits: Array  # prices of all jobs' time, then of all kinds' GPUs
    worth: float  # of all shares, by their costs
    columns: ShareColumns  # that the shares are of


@dataclass(frozen=True, slots=True)
class CentralProgram:
    """One of the programs above. Rates are scaled to 1 at most; `needs` goes with that."""

    columns: ShareColumns
    needs: Needs
    start: float  # the first t to be tried,
    floor: float = -inf  # which stays above this
    slope: float = 0.0  # -1: t is to be large; 1: small; 0: there is none
    costs: Array | None = None  # by column
    close: float = CLOSE


@dataclass(slots=True)
class _Point:
    """Shares with the slacks behind them, the prices of all of these, and t."""

    v: Array
    w: Array
    t: float


def solve(program: CentralProgram, until: float = inf) -> Central:
    """The central optimum, or the best there is when the clock of `monotonic` says `until`."""
    method = _Method(program)
    point = method.begin()
    best, least, stalled = point, inf, 0
    with np.errstate(all="ignore"):  # what is no number ends the search: see `isfinite`
        for _ in range(_STEPS):
            newton = _Newton(method, point)
            gap = newton.distance()
            stalled = 0 if gap < least else stalled + 1
            if gap < least:
                best, least = point, gap
            if (
                gap < program.close
                or stalled > _PATIENCE
                or not isfinite(gap)
                or monotonic() > until
            ):
                break
            try:
                point = newton.step()
            except np.linalg.LinAlgError:  # no step can be told any more
                break
    return method.found(best, least, least < max(_GOOD, program.close))


class _Method:
    """What stays the same from step to step."""

    def __init__(self, program: CentralProgram) -> None:
        self.program: Final = program
        columns = self.columns = program.columns
        able, counts = columns.able, columns.counts
        jobs, kinds = columns.jobs, len(counts)
        self.width: Final = len(able)
        self.needs_from: Final = jobs + kinds
        self.costs: Final = np.zeros(self.width) if program.costs is None else program.costs
        self.able: Final = np.concatenate([able, np.ones(2 * jobs + kinds)])
        self.absent: Final = 1.0 - self.able
        self.size: Final = int(able.sum()) + 2 * jobs + kinds
        # Slacks are added to what is limited, and taken from what is needed.
        self.sign: Final = np.ones(2 * jobs + kinds)
        self.sign[jobs + kinds :] = -1.0
        self.right: Final = np.concatenate([np.ones(jobs), counts, np.zeros(jobs)])
        self.scale: Final = np.ones(2 * jobs + kinds)
        self.scale[jobs : jobs + kinds] += counts

    def begin(self) -> _Point:
        x, start = self.columns.begin(), self.program.start
        self.right[self.needs_from :] = self.program.needs(start)[0]
        slack = np.maximum(self.sign * (self.right - self.columns.sums(x)), 0.1)
        return _Point(np.concatenate([x, slack]), np.ones(len(self.able)), start)

    def found(self, point: _Point, gap: float, solved: bool) -> Central:
        x, prices, needs = point.v[: self.width], point.w[self.width :], self.needs_from
        worth = -float(self.costs @ x)
        limits, columns = prices[:needs], self.columns
        return Central(x, point.t, prices[needs:], gap, solved, limits, worth, columns)


class _Newton:
    """One step of the method: predictor, corrector, and how far each may go."""

    def __init__(self, method: _Method, point: _Point) -> None:
        self._m, self._p = method, point
        program, columns, width = method.program, method.columns, method.width
        x, slack = point.v[:width], point.v[width:]
        z, y = point.w[:width], point.w[width:]
        need, slopes, bend = program.needs(point.t)
        method.right[method.needs_from :] = need
        self._rp = method.right - columns.sums(x) - method.sign * slack
        self._rd = (method.costs + columns.prices(method.sign * y) - z) * columns.able
        fair, self._bend = y[method.needs_from :], 0.0
        self._rt = 0.0
        if program.slope:
            self._rt, self._bend = program.slope + float(slopes @ fair), float(fair @ bend)
        self._mu = float(point.v @ point.w) / method.size
        self._worth = abs(program.slope * point.t) + abs(float(method.costs @ x))
        self._d, self._ratio = x / z, slack / y
        self._system = columns.system(
            self._d, self._ratio, slopes, self._bend, program.slope != 0.0
        )

    def distance(self) -> float:
        """The gap and the violations, in proportion."""
        gap = self._mu * self._m.size / (1.0 + self._worth)
        primal, dual = np.abs(self._rp / self._m.scale).max(), np.abs(self._rd).max()
        return float(max(gap, primal, dual, abs(self._rt)))

    def _direction(self, right: Array) -> _Point:
        """Where this right-hand side of complementarity leads."""
        m, width = self._m, self._m.width
        v = right / self._p.w
        v *= m.able
        v[:width] -= self._d * self._rd
        at, y, dt = self._system.solve(
            self._rp - m.columns.sums(v[:width]) - m.sign * v[width:], -self._rt
        )
        y *= m.sign
        v[:width] += self._d * at
        v[width:] += self._ratio * y
        w = np.concatenate([self._rd - at * m.columns.able, -y])
        return _Point(v, w, dt)

    def step(self) -> _Point:
        """The point after this step."""
        p = self._p
        product = p.v * p.w
        ahead = self._direction(-product)
        primal, dual = self._reach(ahead, 1.0)
        after = float((p.v + primal * ahead.v) @ (p.w + dual * ahead.w)) / self._m.size
        aim = min((after / self._mu) ** 3, 1.0) * self._mu
        move = self._direction(aim - product - ahead.v * ahead.w)
        primal, dual = self._reach(move, _BACK)
        return _Point(p.v + primal * move.v, p.w + dual * move.w, p.t + primal * move.t)

    def _reach(self, move: _Point, back: float) -> tuple[float, float]:
        """How far shares and prices may go until the first of them is 0."""
        p, floor = self._p, self._m.program.floor
        primal, dual = _room(p.v + self._m.absent, move.v), _room(p.w, move.w)
        if p.t + move.t <= floor:
            primal = min(primal, (floor - p.t) / move.t)
        primal, dual = min(1.0, back * primal), min(1.0, back * dual)
        if self._bend:  # where t bends the needs, both go equally far
            primal = dual = min(primal, dual)
        return primal, dual


def _room(value: Array, change: Array) -> float:
    """The largest step that leaves all of it at least 0."""
    least = float((change / value).min())
    return -1.0 / least if least < 0.0 else inf
