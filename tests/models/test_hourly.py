"""Prices and carbon by the hour."""

from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.errors import BadInput
from dovetail.models.hourly import HOUR_S, Hourly, of_every_hour

TABLES = st.lists(st.floats(-5, 5), min_size=2, max_size=30)


@given(values=TABLES, parts=st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_a_total_is_the_sum_over_small_steps(values: list[float], parts: list[float]) -> None:
    table = Hourly(values)
    start, end = sorted(part * HOUR_S * len(values) for part in parts)
    step = (end - start) / 2000
    summed = sum(table.at(min(start + (i + 0.5) * step, end)) * step for i in range(2000))
    assert table.total(start, end) == pytest.approx(summed, abs=2 * step * 10 + 1e-9)


def test_a_table_of_a_day_is_taken_for_every_day() -> None:
    day = Hourly([1.0] * 12 + [3.0] * 12)
    assert day.at(30 * HOUR_S) == 1.0
    assert day.at(40 * HOUR_S) == 3.0
    assert day.total(0, 96 * HOUR_S) == pytest.approx(96 * 2.0 * HOUR_S)
    assert day.total(35 * HOUR_S, 37 * HOUR_S) == pytest.approx(4.0 * HOUR_S)


def test_a_single_value_never_changes() -> None:
    table = Hourly([0.2])
    assert table.total(10, 1e9) == pytest.approx(0.2 * (1e9 - 10))
    assert table.constant


def test_a_run_beyond_the_table_is_told_which_hour_is_missing() -> None:
    with pytest.raises(BadInput, match="price has 3 hours and hour 7 is needed"):
        Hourly([1.0, 2.0, 3.0], "price").total(0, 7.5 * HOUR_S)


def test_a_missing_hour_is_named() -> None:
    with pytest.raises(BadInput, match="no value for hour 2"):
        of_every_hour([(0.0, 1.0), (HOUR_S, 1.0), (3 * HOUR_S, 1.0)], "price")
    with pytest.raises(BadInput, match="no value for hour 1"):
        of_every_hour([(0.0, 1.0), (HOUR_S, nan)], "price")


def test_the_first_hour_may_have_begun_before_the_run() -> None:
    table = Hourly([1.0] * 12 + [3.0] * 12, begins=-11.5 * HOUR_S)
    assert table.at(0.0) == 1.0
    assert table.changes_after(0.0) == 0.5 * HOUR_S
    assert table.at(0.5 * HOUR_S) == 3.0
    assert table.total(0.0, HOUR_S) == pytest.approx(2.0 * HOUR_S)
    assert Hourly([1.0, 2.0, 3.0], begins=-HOUR_S).ends == 2 * HOUR_S
