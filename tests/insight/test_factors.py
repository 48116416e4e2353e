"""What moves the gain over FIFO, on made-up worlds."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.core.errors import BadInput
from dovetail.insight.factors import factors, kendall
from dovetail.insight.made_up import FACTORS, LOAD, TAIL, FactorDesign, gains, world
from dovetail.insight.sampling import trajectories

MIDDLE = np.full(len(FACTORS), 0.5)


def at(name: str, part: float) -> np.ndarray:
    place = [factor.name for factor in FACTORS].index(name)
    return np.where(np.arange(len(FACTORS)) == place, part, MIDDLE)


@pytest.mark.parametrize("name", [LOAD, TAIL])
def test_a_fuller_cluster_and_a_heavier_tail_leave_more_to_gain(name: str) -> None:
    points = np.stack([at(name, 0.0), at(name, 0.75)])
    found = gains(FactorDesign(FACTORS, points, ("srtf",), 150, tuple(range(6))))
    little, much = found[:, :, 0].mean(axis=1)
    assert much < little <= 0.05  # the gain is the logarithm of a ratio: lower is better


def test_an_elementary_effect_of_a_plane_is_its_slope() -> None:
    slopes = np.array([1.0, -2.0, 0.5])
    paths = trajectories(3, 5, seed=1)
    assert paths.points.min() >= 0.0
    assert paths.points.max() <= 1.0
    assert paths.effects(paths.points @ slopes) == pytest.approx(np.tile(slopes, (5, 1)))


def test_rankings_agree_from_1_to_minus_1() -> None:
    order = np.array([0.0, 1.0, 2.0])
    assert kendall(order, order * 3) == 1.0
    assert kendall(order, -order) == -1.0


def test_load_is_asked_of_what_the_gpus_really_do() -> None:
    fast, mixed = world({"load": 0.8}, 400, 0), world({"load": 0.8, "GPU mix": 0.5}, 400, 0)
    assert mixed.arrivals[-1].at == pytest.approx(fast.arrivals[-1].at / 0.75)
    assert {node.kind for node in mixed.nodes} == {"gpu", "slow"}


def test_a_policy_that_is_not_there_is_a_mistake_of_the_user() -> None:
    with pytest.raises(BadInput, match="srft"):
        factors(policies=("srft",))


def test_fifo_alone_has_nothing_to_be_compared_with() -> None:
    assert factors(policies=("fifo",)).not_measured
