"""MArk: which instances are bought for a forecast."""

import pytest

from dovetail.serving.planners.mark import InstanceKind, batch_within, planned

SMALL = InstanceKind("small", 10.0, 1.0, 60.0)
LARGE = InstanceKind("large", 35.0, 3.0, 60.0)


@pytest.mark.parametrize(
    ("demand", "expected"),
    [(40.0, {"large": 1, "small": 1}), (8.0, {"small": 1}), (70.0, {"large": 2}), (0.0, {})],
)
def test_instances_are_bought_where_a_request_is_cheapest(
    demand: float, expected: dict[str, int]
) -> None:
    assert planned([demand] * 6, [SMALL, LARGE]).running == expected


def test_what_runs_need_not_be_launched_and_what_is_not_needed_is_released() -> None:
    plan = planned([20.0] * 6, [SMALL, LARGE], {"small": 3})
    assert plan.running == {"small": 2}
    assert plan.launched == {}
    assert plan.released == {"small": 1}


def test_a_peak_ahead_is_bought_for_now() -> None:
    plan = planned([5.0, 5.0, 5.0, 45.0, 5.0, 5.0], [SMALL])
    assert plan.running == {"small": 5}


def test_a_peak_that_is_far_ahead_is_not() -> None:
    plan = planned([5.0] * 8 + [500.0], [SMALL])
    assert plan.running == {"small": 1}


def test_a_batch_fills_up_and_is_done_in_time() -> None:
    takes = [0.004 + 0.002 * b for b in range(1, 33)]
    assert batch_within(1000.0, 0.050, takes) == 15  # 14 ms until it is full, then 34 ms
    assert batch_within(1.0, 0.050, takes) == 1
    assert batch_within(1.0, 0.001, takes) == 0
