"""The default study rule on families of curves that its prior has not seen.

    python -m benchmarks study_families

For each family the prior was fitted without it (`python -m tools.study_prior --leave-out-each`, kept in
left_out_priors.json); the families that are made to mislead, and those that were drawn when the rule was
done (tools/study_prior/unseen_families.py), are in no fit at all. Drawn and trained
curves are made anew, the same every time; the recorded ones are left out where they are not at hand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import cache, partial
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from tools.study_prior import unseen_families
from tools.study_prior.drawn_families import Family as Draw
from tools.study_prior.drawn_families import tasks
from tools.study_prior.families import ADVERSE, NAMES, RECORDED, Family, to_judge_by
from tools.study_prior.states import MOST_TRIALS, Timed, timed

from benchmarks.lines import Line
from dovetail.tune.comparison import Terms, race
from dovetail.tune.extrapolation import Prior, shipped
from dovetail.tune.recorded import Task

PRIORS = Path(__file__).with_name("left_out_priors.json")
DATA = Path(__file__).parents[2] / "shared" / "data"
OF_CLAIRVOYANT, OF_FIFO = 0.58, 0.8
TASKS = 12  # of a drawn family: they differ more from each other than draws of one do
_DRAWS = 48  # of a family, at least two of a task


def measured() -> Iterator[Line]:
    """Left out of the fit: the share of the clairvoyant's speed; made to mislead: that of fifo's."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a processor each
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for name in NAMES:
            if name not in RECORDED or (DATA / RECORDED[name]).exists():
                yield left_out(to_judge_by(name, DATA, TASKS), _DRAWS, pool)
        for name in ADVERSE:
            yield misleading(to_judge_by(name, DATA, TASKS), _DRAWS, pool)
        for family in unseen(unseen_families.NATURAL):
            yield left_out(family, _DRAWS, pool)
        for family in unseen(unseen_families.ADVERSE):
            yield misleading(family, _DRAWS, pool, unseen_families.SMALL)


def unseen(families: Sequence[Draw]) -> list[Family]:
    return [Family(own.__name__, tasks(own, TASKS)) for own in families]


def left_out(family: Family, draws: int, pool: Executor) -> Line:
    runs = _runs(prior_without(family.name), family, draws, pool)
    share = _mean([one.clairvoyant / one.ours for one in runs])
    return Line(
        f"{family.name} left out ({len(runs)} draws)",
        f"{share:.2f} of the clairvoyant, {_mean([one.fifo / one.ours for one in runs]):.2f} x fifo",
        f"at least {OF_CLAIRVOYANT} of the clairvoyant",
        share >= OF_CLAIRVOYANT,
    )


def misleading(family: Family, draws: int, pool: Executor, trials: int = MOST_TRIALS) -> Line:
    runs = _runs(shipped(), family, draws, pool, trials)
    share = _mean([one.fifo / one.ours for one in runs])
    killed = sum(pool.map(partial(_best_killed, trials), family.tasks))
    return Line(
        f"{family.name} ({len(runs)} draws)",
        f"{share:.2f} of fifo, {killed} killed",
        f"at least {OF_FIFO} of fifo, none killed",
        share >= OF_FIFO and not killed,
    )


def _best_killed(trials: int, task: Task) -> bool:
    return race(task, 0, ["default"], Terms(trials)).runs["default"].best_killed


def prior_without(name: str) -> Prior:
    """Fitted without this family; the shipped one, for families that are in no fit."""
    return Prior(_left_out()[name]) if name in NAMES else shipped()


@cache
def _left_out() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PRIORS.read_text())
    return found


def _runs(
    prior: Prior, family: Family, draws: int, pool: Executor, trials: int = MOST_TRIALS
) -> list[Timed]:
    seeds = range(max(2, draws // len(family.tasks)))
    found = pool.map(partial(timed, prior, seeds=seeds, trials=trials), family.tasks)
    return [one for of_task in found for one in of_task]


def _mean(ratios: Sequence[float]) -> float:
    return exp(fmean(map(log, ratios)))
