"""Sia's integer program: which configuration each job gets, solved by HiGHS, which comes with SciPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from dovetail.models.goodput import Floats

NONE: Final = -1  # no configuration


@dataclass(frozen=True, eq=False)
class Program:
    """Jobs in rows, configurations in columns."""

    cost: Floats  # [job, configuration]; infinite where it may not be
    without: float  # what a job without any costs
    gpus: NDArray[np.int64]  # [configuration]
    kind: NDArray[np.int64]  # [configuration]: number of its GPU kind
    room: NDArray[np.int64]  # [kind]: GPUs there are
    kept: NDArray[np.int64]  # [job]: the configuration that it must keep, or NONE


class Choices(NamedTuple):
    """The configuration of each job, what all of them cost, and how far off the best that can be."""

    configuration: NDArray[np.int64]  # [job]
    cost: float
    gap: float  # as a part of the cost
    out_of_time: bool


def costs(speedup: Floats, held: NDArray[np.int64], kept: Floats, power: float) -> Floats:
    """What each configuration costs: its goodput as a multiple of the job's least, less where the job
    would restart, to a negative power. Nought is no goodput."""
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.where(speedup > 0, speedup, np.inf).min(axis=1, keepdims=True)
        ratio = speedup / least
        moves = (np.arange(speedup.shape[1]) != held[:, None]) & (held >= 0)[:, None]
        ratio = np.where(moves, ratio * kept[:, None], ratio)
        found = np.round(ratio**power, 2)
    return np.where(np.isfinite(found) & (speedup > 0), found, np.inf)


def solved(program: Program, seconds: float, gap: float = 1e-4) -> Choices:
    """The cheapest choice; when time is up, the best so far, and how much better one might be."""
    jobs = len(program.cost)
    job, column = np.nonzero(_allowed(program))
    chosen = np.full(jobs, NONE)
    if not len(job):
        return Choices(chosen, program.without * jobs, 0.0, False)
    found = _handed_in(program, job, column, seconds, gap)
    if found.x is None:
        chosen = filled(program, program.kept)
        bound = float(program.cost.min(axis=1, initial=program.without).sum())
    else:
        taken = np.asarray(found.x) > 0.5
        chosen[job[taken]] = column[taken]
        bound = program.without * jobs + float(found.mip_dual_bound)
    cost = total(program, chosen)
    off = max(cost - bound, 0.0) / max(abs(cost), 1e-9)
    return Choices(chosen, cost, off, found.status == 1)


def total(program: Program, chosen: NDArray[np.int64]) -> float:
    """What that choice costs."""
    some = chosen != NONE
    taken = program.cost[np.nonzero(some)[0], chosen[some]]
    return float(taken.sum() + program.without * np.count_nonzero(~some))


def _allowed(program: Program) -> NDArray[np.bool_]:
    """Those that are worth a variable."""
    allowed = (program.cost < program.without) & (program.gpus <= program.room[program.kind])
    holds = program.kept != NONE
    allowed[holds] = False
    allowed[np.nonzero(holds)[0], program.kept[holds]] = True
    return allowed


def _handed_in(
    program: Program, job: NDArray[np.int64], column: NDArray[np.int64], seconds: float, gap: float
) -> Any:
    """One variable for each pair of a job and a configuration it may have."""
    jobs, kinds, count = len(program.cost), len(program.room), len(job)
    rows = np.concatenate((job, jobs + program.kind[column]))
    values = np.concatenate((np.ones(count), program.gpus[column]))
    at = np.tile(np.arange(count), 2)
    matrix = csr_array((values, (rows, at)), shape=(jobs + kinds, count))
    least = np.where(program.kept != NONE, 1.0, 0.0)
    return milp(
        np.minimum(program.cost[job, column], 1e6) - program.without,
        constraints=LinearConstraint(
            matrix,
            np.concatenate((least, np.zeros(kinds))),
            np.concatenate((np.ones(jobs), program.room)),
        ),
        integrality=np.ones(count),
        bounds=Bounds(0.0, 1.0),
        options={"time_limit": seconds, "mip_rel_gap": gap},
    )


def filled(program: Program, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """That choice, and for each job without any the cheapest that still fits."""
    chosen, room = chosen.copy(), program.room.copy()
    holds = np.nonzero(chosen != NONE)[0]
    np.subtract.at(room, program.kind[chosen[holds]], program.gpus[chosen[holds]])
    for job in np.nonzero(chosen == NONE)[0] if room.any() else ():
        fits = (program.gpus <= room[program.kind]) & (program.cost[job] < program.without)
        if fits.any():
            best = int(np.argmin(np.where(fits, program.cost[job], np.inf)))
            chosen[job] = best
            room[program.kind[best]] -= program.gpus[best]
    return chosen
