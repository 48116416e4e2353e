"""The default study rule on families of curves that its prior has not seen.

    python -m benchmarks study_families

For each family the prior was fitted without it (`python -m tools.study_prior --leave-out-each`, kept in
left_out_priors.json); the families that are made to mislead are in no fit at all. Drawn and trained
curves are made anew, the same every time; the recorded ones are left out where they are not at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from tools.study_prior.families import ADVERSE, NAMES, RECORDED, Family, to_judge_by
from tools.study_prior.states import Timed, timed

from benchmarks.lines import Line
from dovetail.tune.comparison import Terms, race
from dovetail.tune.extrapolation import Prior, shipped

PRIORS = Path(__file__).with_name("left_out_priors.json")
DATA = Path(__file__).parents[2] / "shared" / "data"
OF_CLAIRVOYANT, OF_FIFO = 0.58, 0.8
_DRAWS = 48  # of a family, at least two of a task


def measured() -> Iterator[Line]:
    """Left out of the fit: the share of the clairvoyant's speed; made to mislead: that of fifo's."""
    for name in NAMES:
        if name not in RECORDED or (DATA / RECORDED[name]).exists():
            yield left_out(to_judge_by(name, DATA), _DRAWS)
    for name in ADVERSE:
        yield misleading(to_judge_by(name, DATA, tasks=6), _DRAWS)


def left_out(family: Family, draws: int) -> Line:
    runs = _runs(prior_without(family.name), family, draws)
    share = _mean([one.clairvoyant / one.ours for one in runs])
    return Line(
        f"{family.name} left out ({len(runs)} draws)",
        f"{share:.2f} of the clairvoyant, {_mean([one.fifo / one.ours for one in runs]):.2f} x fifo",
        f"at least {OF_CLAIRVOYANT} of the clairvoyant",
        share >= OF_CLAIRVOYANT,
    )


def misleading(family: Family, draws: int) -> Line:
    runs = _runs(shipped(), family, draws)
    share = _mean([one.fifo / one.ours for one in runs])
    killed = sum(
        race(task, 0, ["default"], Terms()).runs["default"].best_killed for task in family.tasks
    )
    return Line(
        f"{family.name} ({len(runs)} draws)",
        f"{share:.2f} of fifo, {killed} killed",
        f"at least {OF_FIFO} of fifo, none killed",
        share >= OF_FIFO and not killed,
    )


def prior_without(name: str) -> Prior:
    return Prior(_left_out()[name])


@cache
def _left_out() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PRIORS.read_text())
    return found


def _runs(prior: Prior, family: Family, draws: int) -> list[Timed]:
    seeds = range(max(2, draws // len(family.tasks)))
    return [one for task in family.tasks for one in timed(prior, task, seeds)]


def _mean(ratios: Sequence[float]) -> float:
    return exp(fmean(map(log, ratios)))
