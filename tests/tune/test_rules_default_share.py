"""The default rule has the share of the clairvoyant's speed that it promises (docs/decisions/0015).

The shared curves are not part of this repository: without them those tests are left out, and curves
made here stand in.
"""

from __future__ import annotations

import sys
from functools import cache
from math import exp, log
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from dovetail.tune.comparison import Terms, geometric_mean, race
from dovetail.tune.extrapolation import shipped
from dovetail.tune.recorded import Curve, Task, read_curves

sys.path.append(str(Path(__file__).parents[2]))

from tools.study_prior.states import share

DATA = Path(__file__).parents[3] / "shared" / "data"
if not DATA.exists():  # a checkout in another place: look beside the folder the tests run in
    DATA = Path.cwd().parent / "shared" / "data"
needs_curves = pytest.mark.skipif(not DATA.exists(), reason="the shared curves are not here")
SETS = [("hpo_lcbench_surrogate/curves_200cfg.parquet", 4), ("hpo_taskset/curves.parquet", 12)]
PROMISED = 0.60
# Four times 24 draws of the curves made here gave 0.68 to 0.76; weighing by rank alone has 0.60.
OF_THOSE_MADE = 0.65


@cache
def shared_tasks(name: str) -> list[Task]:
    pytest.importorskip("pyarrow", reason="reading the shared curves needs pyarrow")
    return read_curves(DATA / name)


def crossing(name: str, settings: int = 64, steps: int = 52) -> Task:
    """Power laws with a little noise; who begins low does not always end low."""
    chance = Random(name)
    return Task(name, tuple(_power_law(chance, steps) for _ in range(settings)))


def _power_law(chance: Random, steps: int) -> Curve:
    end, fall, speed = chance.random(), chance.uniform(0.2, 2), chance.uniform(0.2, 1.2)
    return tuple(end + fall * age**-speed + chance.gauss(0, 0.005) for age in range(1, steps + 1))


def mean_share(tasks: list[Task], seeds: int) -> float:
    return exp(fmean(log(share(shipped(), task, range(seeds))) for task in tasks))


@needs_curves
@pytest.mark.parametrize(("name", "seeds"), SETS, ids=["lcbench", "taskset"])
def test_on_the_shared_curves_it_has_six_tenths_of_the_clairvoyants_speed(
    name: str, seeds: int
) -> None:
    assert mean_share(shared_tasks(name), seeds) >= PROMISED


def test_on_crossing_power_laws_it_has_more_than_ranks_alone_would_give() -> None:
    assert mean_share([crossing(str(number)) for number in range(6)], 4) >= OF_THOSE_MADE


def test_the_share_is_that_of_a_whole_replay_in_which_nobody_is_killed() -> None:
    task = crossing("whole")
    races = [race(task, seed, ["default"], Terms()) for seed in range(3)]
    ratios = [one.clairvoyant.to_target / one.runs["default"].to_target for one in races]
    assert share(shipped(), task, range(3)) == pytest.approx(geometric_mean(ratios))
    for one in races:
        assert one.runs["default"].steps == 32 * task.steps
        assert not one.runs["default"].best_killed


@needs_curves
@pytest.mark.parametrize("name", [name for name, _ in SETS], ids=["lcbench", "taskset"])
def test_on_the_shared_curves_nobody_is_killed(name: str) -> None:
    for task in shared_tasks(name)[::4]:
        ours = race(task, 0, ["default"], Terms()).runs["default"]
        assert (ours.steps, ours.best_killed) == (32 * task.steps, False)
