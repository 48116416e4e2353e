"""The tool that fits the prior of the default study rule, on curves made for the test."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

from dovetail.tune.extrapolation import SIGNS, Prior, shipped
from dovetail.tune.recorded import Task

sys.path.append(str(Path(__file__).parents[2]))

from tools.study_prior import fitting
from tools.study_prior.__main__ import SHIPPED, main
from tools.study_prior.states import States, View, met


def a_task() -> Task:
    chance = Random(1)
    ends = [(chance.random(), chance.uniform(0.3, 1)) for _ in range(40)]
    return Task("a", tuple(tuple(e + age**-s for age in range(1, 25)) for e, s in ends))


def states_of(prior: Prior, **looked_at: int) -> States:
    return met(prior, a_task(), View(1.0, **looked_at), range(4), every=4)


def likelihood(told: object, states: States) -> float:
    """Mean log-likelihood, by the product's own weighing of signs."""
    prior = Prior(told)  # type: ignore[arg-type]
    logarithms = []
    for row in range(len(states)):
        odds = np.where(states.seen[row], prior.odds(states.signs[row]), prior.unseen)
        shares = np.exp(odds[states.eligible[row]])
        right = states.best[row][states.eligible[row]]
        logarithms.append(np.log(shares[right].sum() / shares.sum()))
    return float(np.mean(logarithms))


def test_a_state_holds_the_signs_of_those_seen_and_who_will_be_the_best() -> None:
    states = states_of(shipped(), trials=16, slots=2)
    assert len(states) > 10
    assert not states.signs[~states.seen].any()
    assert not states.eligible[:, 16:].any()
    assert (states.best & states.eligible).any(axis=1).all()
    unseen_of_all = 1 - states.seen.sum(axis=1) / 16
    told = states.signs[:, :, SIGNS.index("unseen")].max(axis=1)
    assert told == pytest.approx(unseen_of_all, abs=1e-6)


def test_a_view_shows_every_second_step_of_a_shorter_curve() -> None:
    seen = View(1.0, first=1, every=2, steps=10).of(a_task())
    assert seen.curves[3] == a_task().curves[3][1:10:2]


def test_a_fit_makes_what_happened_likelier_also_on_other_draws() -> None:
    first = Prior(fitting.at_first())
    fitted = fitting.fitted(met(first, a_task(), View(1.0), range(16), every=1), epochs=40)
    others = met(first, a_task(), View(1.0), range(100, 108), every=4)
    assert likelihood(fitted, others) > likelihood(fitting.at_first(), others) + 0.1


def test_an_average_weighs_as_its_members_do_on_average() -> None:
    states = states_of(shipped())
    members = [fitting.fitted(states, epochs=2, seed=seed) for seed in (0, 1)]
    odds = [Prior(told).odds(states.signs[0]) for told in members]
    assert Prior(fitting.averaged(members)).odds(states.signs[0]) == pytest.approx(
        (odds[0] + odds[1]) / 2
    )


def test_the_shipped_prior_is_written_as_it_stands() -> None:
    assert fitting.written(json.loads(SHIPPED.read_text())) == SHIPPED.read_text()


def test_without_the_recorded_curves_it_says_so_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path), "--processes", "1"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "--data" in told
