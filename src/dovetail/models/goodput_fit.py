"""The law of a job's step times, fitted to those it has seen itself (Pollux, OSDI 2021).

What has not been seen is taken to cost nothing, so that a job is tried on more GPUs: one that has
never had two knows no time of synchronising.
"""

from __future__ import annotations

from functools import lru_cache
from math import log
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import minimize

from dovetail.models.goodput import Floats, StepTimes

_LEAST: Final = 1e-8  # of a parameter; of a time, too, whose logarithm is taken
_BEGIN: Final = (0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001)
_FOR_OVERLAP: Final = 1e-3  # how much a large gamma, and a steep beta, must explain to be believed
_FOR_BETA: Final = 1e-2
_GAMMA: Final = 6
_OF_TIMES: Final = (log(_LEAST), log(1e6))  # the search goes by logarithms: times differ by powers
_OF_GAMMA: Final = (0.0, log(10.0))
_SEARCH: Final = {"maxiter": 100, "ftol": 1e-7}
_ROUND: Final = 1e-8  # (a ten-thousandth) squared
_SPREAD_AT_LEAST: Final = 1.1  # times what one node takes, where several were never seen


class SeenStep(NamedTuple):
    """A step that was timed: where, with which batch on each GPU, and how long in seconds."""

    nodes: int
    gpus: int
    local: int
    computing: float
    step: float


@lru_cache(maxsize=4096)
def fitted(seen: tuple[SeenStep, ...]) -> StepTimes:
    """The law that explains them best, by the root mean square of the errors' logarithms."""
    columns = np.array(seen, dtype=float).T
    values = np.array(_BEGIN)
    for at, value in _unseen(columns).items():
        values[at] = value
    free = [at for at in range(len(values)) if at not in _unseen(columns)]
    known = _Seen.of(columns)

    def misfit(logs: Floats) -> tuple[float, Floats]:
        values[free] = np.exp(logs)
        miss, slope = _misfit(values, known)
        return miss, slope[free] * values[free]

    bounds = [_OF_GAMMA if at == _GAMMA else _OF_TIMES for at in free]
    # Not L-BFGS-B, which hands its seven numbers to threads of BLAS: 40 times as long for the same.
    found = minimize(
        misfit, np.log(values[free]), jac=True, bounds=bounds, method="SLSQP", options=_SEARCH
    )
    values[free] = np.exp(found.x)
    if not np.any(columns[0] > 1):
        values[2:4] = np.maximum(values[2:4], values[4:6] * _SPREAD_AT_LEAST)
    return StepTimes(*[float(value) for value in values])


def _unseen(columns: Floats) -> dict[int, float]:
    """The parameters of which nothing was seen, and what is taken for them: nothing."""
    nodes, gpus, local, computing = columns[:4]
    held: dict[int, float] = {}
    if len(np.unique(local)) == 1:
        held[0] = float(np.mean(computing)) / 2  # the other half grows with the batch
    if not np.any(nodes > 1):
        held |= {2: _LEAST, 3: _LEAST}
    if not np.any((nodes == 1) & (gpus > 1)):
        held |= {4: _LEAST, 5: _LEAST}
    if not np.any(gpus > 2):
        held |= {3: _LEAST, 5: _LEAST}
    return held


class _Seen(NamedTuple):
    """The steps in the columns that the misfit needs."""

    local: Floats
    spread: Floats  # 1 where several nodes took part
    close: Floats  # 1 where several GPUs of one node did
    beyond_two: Floats  # GPUs
    log_computing: Floats
    log_step: Floats

    @classmethod
    def of(cls, columns: Floats) -> _Seen:
        nodes, gpus, local, computing, step = columns
        spread, close = nodes > 1, (nodes == 1) & (gpus > 1)
        logs = np.log(np.maximum([computing, step], _LEAST))
        beyond = np.maximum(gpus - 2, 0.0)
        return cls(local, spread.astype(float), close.astype(float), beyond, logs[0], logs[1])


def _misfit(values: Floats, seen: _Seen) -> tuple[float, Floats]:
    """How badly the parameters explain what was seen, and which way that changes."""
    alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma = values
    computing = alpha_c + beta_c * seen.local
    alpha, beta = (
        alpha_n * seen.spread + alpha_r * seen.close,
        beta_n * seen.spread + beta_r * seen.close,
    )
    synchronising = np.maximum(alpha + beta * seen.beyond_two, _LEAST)
    log_computing, log_sync = np.log(computing), np.log(synchronising)
    log_both = np.logaddexp(gamma * log_computing, gamma * log_sync) / gamma
    part = np.exp(gamma * (log_computing - log_both))  # of computing in a step
    miss_computing, by_computing = _root_mean_square(log_computing - seen.log_computing)
    miss_step, by_step = _root_mean_square(log_both - seen.log_step)
    to_computing = (by_computing + by_step * part) / computing
    to_sync = by_step * (1.0 - part) / synchronising
    steep_n, steep_r = beta_n / alpha_n, beta_r / alpha_r
    misfit = miss_computing + miss_step + _FOR_OVERLAP * (gamma - 1.0) ** 2
    misfit += _FOR_BETA * (steep_n**2 + steep_r**2)
    slope = np.array(
        [
            to_computing.sum(),
            to_computing @ seen.local,
            to_sync @ seen.spread - 2 * _FOR_BETA * steep_n**2 / alpha_n,
            to_sync @ (seen.spread * seen.beyond_two) + 2 * _FOR_BETA * steep_n / alpha_n,
            to_sync @ seen.close - 2 * _FOR_BETA * steep_r**2 / alpha_r,
            to_sync @ (seen.close * seen.beyond_two) + 2 * _FOR_BETA * steep_r / alpha_r,
            by_step @ (part * log_computing + (1.0 - part) * log_sync - log_both) / gamma
            + 2 * _FOR_OVERLAP * (gamma - 1.0),
        ]
    )
    return misfit, slope


def _root_mean_square(errors: Floats) -> tuple[float, Floats]:
    """It, and its slope along each error; round at the bottom, where the search would stick else."""
    size = float(np.sqrt(errors @ errors / len(errors) + _ROUND))
    return size, errors / (len(errors) * size)
