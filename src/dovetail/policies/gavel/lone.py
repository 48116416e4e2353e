"""Shares of jobs alone on their GPUs: only the kinds join them, so each is eliminated by itself."""

from __future__ import annotations

from typing import Final

import numpy as np

from dovetail.policies.gavel.central import Array


class LoneColumns:
    """A column for each job and kind, job by job."""

    def __init__(self, rates: Array, gpus: Array, counts: Array, able: Array) -> None:
        self.rates: Final = rates
        self.gpus: Final = gpus
        self.counts: Final = counts
        self.jobs, self.kinds = rates.shape
        self.able: Final = able.ravel()
        self.each: Final = np.ones(self.kinds)  # sums up a job's row
        self.column: Final = gpus[:, None]

    def begin(self) -> Array:
        able = self.able.reshape(self.rates.shape)
        asked = self.gpus @ able
        part = 0.5 * np.minimum(self.counts / np.maximum(asked, 1e-300), 1.0 / self.kinds)
        shares: Array = np.maximum(able * part, 1e-6 * able).ravel()
        return shares

    def sums(self, x: Array) -> Array:
        shares = x.reshape(self.rates.shape)
        own, used = shares @ self.each, self.gpus @ shares
        return np.concatenate([own, used, (self.rates * shares) @ self.each])

    def prices(self, y: Array) -> Array:
        jobs, kinds = self.jobs, self.kinds
        own, cap, fair = y[:jobs, None], y[jobs : jobs + kinds], y[jobs + kinds :, None]
        found: Array = (own + self.column * cap + self.rates * fair).ravel()
        return found

    def system(self, d: Array, ratio: Array, slopes: Array, bend: float, moves: bool) -> LoneSystem:
        return LoneSystem(self, d, ratio, slopes, bend, moves)


class LoneSystem:
    """Two by two for each job, and the kinds.

    A job's need is taken about its mean rate: what it needs and the time it has are then no longer
    nearly the same constraint where it is equally fast everywhere.
    """

    def __init__(
        self,
        columns: LoneColumns,
        weights: Array,
        ratio: Array,
        slopes: Array,
        bend: float,
        moves: bool,
    ) -> None:
        self._columns, self._slopes, self._moves = columns, slopes, moves
        rates, gpus, each, jobs = columns.rates, columns.column, columns.each, columns.jobs
        kinds = self._kinds = columns.kinds
        d = weights.reshape(rates.shape)
        own, need = ratio[:jobs], ratio[jobs + kinds :]
        dd = d @ each
        mean = self._mean = (rates * d) @ each / dd
        about = self._about = rates - mean[:, None]
        tilt = about * d
        ww = (about * tilt) @ each + need
        bulk = ww + mean * mean * own
        det = dd * bulk + own * ww
        self._i11, self._i12, self._i22 = bulk / det, own * mean / det, (dd + own) / det
        u1, u2 = self._u1, self._u2 = gpus * d, gpus * tilt
        i12 = self._i12[:, None]
        self._v1 = self._i11[:, None] * u1 + i12 * u2
        self._v2 = i12 * u1 + self._i22[:, None] * u2
        joint = self._joint = np.zeros((kinds + 1, kinds + 1))
        joint[:kinds, :kinds] = -(u1.T @ self._v1 + u2.T @ self._v2)
        joint.flat[: kinds * (kinds + 1) : kinds + 2] += (
            columns.gpus @ u1 + ratio[jobs : jobs + kinds]
        )
        joint[kinds, kinds] = 1.0
        if moves:
            cross = slopes @ self._v2
            joint[:kinds, kinds], joint[kinds, :kinds] = cross, -cross
            joint[kinds, kinds] = float(slopes * slopes @ self._i22) + bend

    def solve(self, right: Array, last: float) -> tuple[Array, Array, float]:
        jobs, kinds = self._columns.jobs, self._kinds
        r1, r3 = right[:jobs], right[jobs + kinds :] - self._mean * right[:jobs]
        w1, w2 = self._i11 * r1 + self._i12 * r3, self._i12 * r1 + self._i22 * r3
        known = np.zeros(kinds + 1)
        known[:kinds] = right[jobs : jobs + kinds] - w1 @ self._u1 - w2 @ self._u2
        if self._moves:
            known[kinds] = last - float(self._slopes @ w2)
        found = np.linalg.solve(self._joint, known)
        y2, dt = found[:kinds], float(found[kinds])
        u, y3 = w1 - self._v1 @ y2, w2 - self._v2 @ y2
        if self._moves:
            u += (self._i12 * self._slopes) * dt
            y3 += (self._i22 * self._slopes) * dt
        at = u[:, None] + self._columns.column * y2 + self._about * y3[:, None]
        return at.ravel(), np.concatenate([u - self._mean * y3, y2, y3]), dt
