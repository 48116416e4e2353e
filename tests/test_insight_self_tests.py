"""The measurements measured: on made-up inputs where the right answer is known beforehand."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from dovetail.insight.decision import decision
from dovetail.insight.features import SUBMIT, Features, features_of
from dovetail.insight.predictive import predictive
from dovetail.insight.sampling import indices, leading, saltelli, whole_power_of_two
from dovetail.insight.shapley import coalitions, shapley
from dovetail.insight.worth import DecisionWorth
from dovetail.traces.synthetic.recipe import Recipe, generate
from insight_traces import CLUSTER, busy, only_the_user_matters

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="needs scikit-learn")


def test_where_only_the_user_matters_only_the_user_is_found_to_matter() -> None:
    found = predictive(features_of(only_the_user_matters()), quick=True).importance
    assert found[0].group == "user"
    assert found[0].share >= 0.95
    assert {own.group for own in found[1:]} == {"size", "tenant", "calendar", "recent jobs"}
    for other in found[1:]:
        assert other.low <= 0.0 <= other.high, other


def with_badges(features: Features, together: bool) -> Features:
    """Every user also has a badge: the same column under another name."""
    columns = {"badge": features.columns["user"], "user": features.columns["user"]}
    groups = {"user": ("badge", "user")} if together else {"badge": ("badge",), "user": ("user",)}
    return replace(
        features,
        names=tuple(columns),
        groups=groups,
        levels=dict.fromkeys(columns, SUBMIT),
        categorical=frozenset(columns),
        columns=columns,
    )


def test_a_duplicated_feature_hides_alone_but_not_in_its_group() -> None:
    features = features_of(only_the_user_matters())
    alone = predictive(with_badges(features, together=False), quick=True).importance
    together = predictive(with_badges(features, together=True), quick=True).importance
    assert min(own.mean for own in alone) < 0.6 * together[0].mean
    assert together[0].group == "user"
    assert together[0].low > 0.5


def test_shapley_values_add_up_and_a_dummy_gets_nothing() -> None:
    members = tuple("abcdefg")
    chance = np.random.default_rng(1)
    worth = {some: float(chance.normal(0.0, 1e4)) for some in coalitions(members[:-1])}
    values = np.array([worth[some - {"g"}] for some in coalitions(members)])
    shares = shapley(members, values)
    assert shares.sum() == pytest.approx(values[-1] - values[0], abs=1e-9)
    assert shares[-1] == 0.0
    assert all(shares[:-1] != 0.0)


def with_a_dummy(features: Features) -> Features:
    columns = {**features.columns, "dummy": np.ones(len(features.duration))}
    return replace(
        features,
        names=(*features.names, "dummy"),
        groups={**features.groups, "dummy": ("dummy",)},
        levels={**features.levels, "dummy": SUBMIT},
        columns=columns,
    )


def test_simulated_shapley_values_add_up_and_a_dummy_gets_nothing() -> None:
    trace = busy()
    features = with_a_dummy(features_of(trace))
    asked = ("user", "size", "dummy")
    found = decision(trace, CLUSTER, features=features, groups=asked, quick=True)
    mean = {own.name: own.mean_jct_s for own in found.outcomes}
    worth = {own.group: own for own in found.shapley}
    total = sum(own.seconds for own in found.shapley)
    assert total == pytest.approx(mean["nothing known"] - mean["all known"], abs=1e-9)
    assert (worth["dummy"].seconds, worth["dummy"].low, worth["dummy"].high) == (0.0, 0.0, 0.0)
    assert worth["user"].seconds > 0.05 * mean["nothing known"]
    assert found.shapley[0].group == "user"


def test_sobol_indices_of_a_sum_are_the_shares_of_its_variances() -> None:
    factor = np.array([1.0, 2.0, 3.0, 4.0])
    found = indices(saltelli(4, 1024, seed=0) @ factor, seed=0)
    assert found is not None
    share = factor**2 / (factor**2).sum()
    assert found.first == pytest.approx(share, abs=0.02)
    assert found.total == pytest.approx(share, abs=0.02)


def ishigami(x: np.ndarray) -> np.ndarray:
    one, two, three = np.moveaxis(2 * np.pi * x - np.pi, -1, 0)
    curved: np.ndarray = np.sin(one) + 7 * np.sin(two) ** 2 + 0.1 * three**4 * np.sin(one)
    return curved


def test_sobol_indices_of_ishigami_are_those_of_the_closed_form() -> None:
    found = indices(ishigami(saltelli(3, 4096, seed=0)), seed=0)
    assert found is not None
    assert found.first == pytest.approx([0.314, 0.442, 0.0], abs=0.02)
    assert found.total == pytest.approx([0.558, 0.442, 0.244], abs=0.02)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("samples", [16, 64])
def test_no_factor_explains_more_alone_than_with_others_in_any_draw(
    seed: int, samples: int
) -> None:
    chance = np.random.default_rng(seed)
    points = saltelli(4, samples, seed)
    noisy = points @ np.array([4.0, 1.0, 1.0, 0.0]) + chance.normal(size=points.shape[:2])
    found = indices(noisy, seed)
    assert found is not None
    assert (found.first <= found.total).all()
    assert (found.first_draws <= found.total_draws).all()


def test_who_leads_is_said_only_beyond_chance() -> None:
    draws = np.array([[1.0] * 100, [0.5] * 96 + [2.0] * 4, [0.0] * 100])
    assert leading(("a", "b", "c"), draws) == ("a",)
    draws[1, 80:] = 2.0
    assert leading(("a", "b", "c"), draws) == ("a", "b")


def test_points_that_got_nowhere_are_left_out_of_the_indices() -> None:
    values = saltelli(2, 64, seed=0) @ np.array([1.0, 2.0])
    whole = indices(values, seed=0)
    part = indices(whole_power_of_two(np.delete(values, 5, axis=1)), seed=0)
    assert whole is not None
    assert part is not None
    assert part.total == pytest.approx(whole.total, abs=0.1)


def worth_of_durations(load: float, c2: float) -> tuple[DecisionWorth, float]:
    """What the oracle saves against knowing nothing, as a part of the completion time."""
    trace = generate(Recipe(jobs=400, gpus=16, load=load, c2=c2, gangs=((1, 0.7), (2, 0.3))))
    found = decision(trace, CLUSTER, groups=("size", "user"), quick=True)
    mean = {own.name: own.mean_jct_s for own in found.outcomes}
    return found, 1.0 - mean["oracle"] / mean["nothing known"]


def test_knowing_durations_is_worth_nothing_where_they_are_all_equal() -> None:
    _, equal = worth_of_durations(load=1.5, c2=0.0)
    _, spread = worth_of_durations(load=1.5, c2=10.0)
    assert equal == pytest.approx(0.0, abs=1e-9)
    assert spread > 0.2


def test_nothing_is_worth_anything_on_an_empty_cluster() -> None:
    idle, gain = worth_of_durations(load=0.01, c2=10.0)
    assert gain == pytest.approx(0.0, abs=1e-9)
    for own in (*idle.shapley, *idle.ablation):
        assert own.seconds == pytest.approx(0.0, abs=1e-6)
    assert idle.stops_paying_at is None
    assert any("hardly a job waits" in why for why in idle.not_measured)
