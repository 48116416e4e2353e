"""The default rule on families of curves that its prior was not fitted to: the short form of
`python -m benchmarks study_families`."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import study_families as table
from tools.study_prior import drawn_families, trained_families, unseen_families
from tools.study_prior.families import ADVERSE, NAMES, to_judge_by

HERE = ThreadPoolExecutor(1)
NOWHERE = Path("nowhere")
FEW = ("power_laws", "exponentials", "broken_power_laws")  # the table has all, and says who misses


def test_every_family_has_a_prior_that_was_fitted_without_it() -> None:
    for name in NAMES:
        assert table.prior_without(name).outer.size


def test_drawn_families_are_the_same_every_time_and_finite() -> None:
    drawn = (drawn_families, unseen_families)
    for family in (own for part in drawn for own in (*part.NATURAL, *part.ADVERSE)):
        first, again = drawn_families.tasks(family, 1), drawn_families.tasks(family, 1)
        assert first == again
        assert np.isfinite(first[0].curves).all()


def test_what_is_learned_from_is_not_what_it_is_judged_by() -> None:
    judged = {task.name for task in drawn_families.tasks(drawn_families.power_laws, 12)}
    learned = {task.name for task in drawn_families.tasks(drawn_families.power_laws, 12, 100)}
    assert not judged & learned


def test_linear_models_are_really_trained_and_some_diverge_or_learn_nothing() -> None:
    pytest.importorskip("sklearn", reason="the data are scikit-learn's")
    tasks = trained_families.linear_models()
    assert len(tasks) == 5
    for task in tasks:
        curves = np.array(task.curves)
        assert curves.shape == (64, 52)
        assert (curves.min(axis=1) < 0.7 * curves[:, 0]).any()
        assert (curves[:, -1] > curves[:, 0] * 0.95).any()


@pytest.mark.parametrize("name", FEW)
def test_on_a_family_left_out_it_has_its_share_of_the_clairvoyants_speed(name: str) -> None:
    line = table.left_out(to_judge_by(name, NOWHERE, tasks=3), draws=12, pool=HERE)
    assert line.holds, line


@pytest.mark.parametrize("name", ADVERSE)
def test_where_curves_mislead_it_has_most_of_fifos_speed_and_kills_nobody(name: str) -> None:
    line = table.misleading(to_judge_by(name, NOWHERE, tasks=4), draws=16, pool=HERE)
    assert line.holds, line


def test_in_a_small_study_leaders_that_come_to_rest_mislead_it_no_more() -> None:
    """Not looked at while the rule was made; before, it had 0.69 of fifo's speed."""
    family = table.unseen([unseen_families.saturating_leaders])[0]
    line = table.misleading(family, draws=24, pool=HERE, trials=unseen_families.SMALL)
    assert line.holds, line
