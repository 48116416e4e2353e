"""Models that are chosen by what is learned of them, and models that vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.serving.latency import AffineLatency
from dovetail.serving.planners.bandits import Exp3, Exp4
from dovetail.serving.planners.cocktail import fewest, majority_accuracy
from dovetail.serving.request import Request
from dovetail.serving.rules import make
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingOutcome, ServingScene, simulate
from dovetail.serving.traffic.catalogue import make as traffic

SLO_S = 0.1
PLAIN = ServedModel("m", AffineLatency(0.02), SLO_S, 8, accuracy=0.7, least_accuracy=0.8)
OTHERS = tuple(
    ServedModel(name, AffineLatency(seconds), SLO_S, 8, accuracy=accuracy)
    for name, seconds, accuracy in (("a", 0.01, 0.78), ("b", 0.02, 0.76), ("c", 0.05, 0.72))
)
FOUR = replace(PLAIN, variants=OTHERS)


def run(
    policy: str, model: ServedModel = FOUR, text: str = "poisson:rate=40:seconds=100"
) -> ServingOutcome:
    scene = ServingScene({"m": model}, [Node("n", 8)])
    return simulate(scene, policy, traffic(text).requests("m", model.slo_s, 1))


# -------------------------------------------------------------------------------------------- choosing


def regret(times: int, seed: int) -> float:
    """What always asking the better of two, right 9 and 5 of 10 times, would have had more."""
    chance, accuracy = Random(seed), {"good": 0.9, "bad": 0.5}
    learner, had = Exp3(list(accuracy), 0.05, Random(seed + 1)), 0.0
    for _ in range(times):
        name = learner.chosen()
        reward = float(chance.random() < accuracy[name])
        learner.heard(name, reward)
        had += reward
    return 0.9 * times - had


def test_the_regret_of_exp3_grows_slower_than_the_requests() -> None:
    early, late = (sum(regret(times, seed) for seed in range(10)) for times in (500, 8000))
    assert late < 16 * early / 3
    assert late / 10 / 8000 < 0.04  # of which 0.01 is for trying: half of 5 %, 0.4 each


def test_the_weight_of_who_is_wrong_falls() -> None:
    learner = Exp4(["a", "b"], 0.5)
    for _ in range(10):
        learner.heard({"a": True, "b": False})
    assert learner.weights == {"a": 1.0, "b": pytest.approx(0.0067, rel=0.01)}


# ---------------------------------------------------------------------------------------------- voting


def test_three_that_are_right_four_times_of_five_are_right_nine_times_of_ten() -> None:
    assert majority_accuracy([0.8] * 3) == pytest.approx(0.8**3 + 3 * 0.8**2 * 0.2)
    assert majority_accuracy([0.7]) == pytest.approx(0.7)


@pytest.mark.parametrize("accuracies", [(0.9, 0.6, 0.5), (0.7, 0.8, 0.9, 0.6, 0.55)])
def test_a_majority_is_right_as_often_as_all_outcomes_say(accuracies: Sequence[float]) -> None:
    whole = sum(
        prod(own if right else 1 - own for own, right in zip(accuracies, outcome, strict=True))
        for outcome in product((True, False), repeat=len(accuracies))
        if sum(outcome) > len(accuracies) / 2
    )
    assert majority_accuracy(accuracies) == pytest.approx(whole)


def test_the_fewest_models_are_asked_that_reach_the_target() -> None:
    accuracies = {"a": 0.78, "b": 0.76, "c": 0.72, "d": 0.7}
    assert fewest(accuracies, 0.75) == ["a"]
    assert fewest(accuracies, 0.8) == ["a", "b", "c"]
    assert fewest(accuracies, 0.99) == ["a", "b", "c"]
    assert fewest({"a": 0.9, "b": 0.4, "c": 0.4}, 0.99) == ["a"]


def test_an_ensemble_is_right_more_often_than_its_best_and_costs_more() -> None:
    several = run("voted").summary()
    best = run("voted", replace(FOUR, least_accuracy=0.75)).summary()
    assert best["accuracy"] == pytest.approx(0.78, abs=0.02)
    expected = majority_accuracy([0.78, 0.76, 0.72])
    assert several["accuracy"] == pytest.approx(expected, abs=0.02)
    assert several["accuracy"] > best["accuracy"]
    assert several["cost"] > best["cost"]


def test_the_best_model_is_found_by_whether_its_answers_are_right() -> None:
    bad = tuple(replace(own, accuracy=0.3) for own in OTHERS)
    row = run("voted:choose=exp3", replace(FOUR, variants=bad, accuracy=0.9)).summary()
    assert row["accuracy"] > 0.8
    weighed = run("voted:choose=exp4", replace(FOUR, variants=bad, accuracy=0.9)).summary()
    assert weighed["accuracy"] == pytest.approx(0.9, abs=0.03)


def test_who_has_not_answered_by_the_deadline_does_not_vote() -> None:
    slow = replace(FOUR, variants=(OTHERS[0], replace(OTHERS[1], latency=AffineLatency(5.0))))
    found = simulate(ServingScene({"m": slow}, [Node("n", 8)]), "voted", [Request(0.0, "m", SLO_S)])
    whole = found.tally.whole()
    assert whole.good == 1
    assert whole.latency.most == pytest.approx(SLO_S)


def test_a_choice_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="choose=best: it is one of exp3, exp4, cocktail"):
        make("voted:choose=best")
