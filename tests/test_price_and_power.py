"""The benchmark of hours and power limits counts as it says, on small tables of its own."""

from __future__ import annotations

import sys
from math import pi, sin
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import price_and_power

from dovetail.models.hourly import HOUR_S, Hourly

WEEKS = Hourly(
    [300 + 100 * sin(2 * pi * h / 24) + 60 * sin(2 * pi * h / 70) for h in range(24 * 14)], "carbon"
)
SHORT = Hourly([5.0, 1.0, 4.0, 2.0, 9.0], "carbon")


def test_a_fifth_of_the_carbon_is_saved_and_the_bounds_are_below() -> None:
    *runs, suspending, in_one_go = price_and_power.shifted(WEEKS, 12 * HOUR_S)
    assert len(runs) == 3
    assert all(line.holds for line in runs)
    parts = [float(line.measured.split("%")[0]) for line in (runs[0], suspending, in_one_go)]
    assert parts[1] <= parts[0] + 0.05
    assert parts[1] <= parts[2]


def test_the_least_possible_takes_the_cheapest_hours_of_the_window() -> None:
    assert price_and_power.least_suspended(SHORT, 0.0, 2 * HOUR_S, 2 * HOUR_S) == 3.0 * HOUR_S
    assert price_and_power.least_in_one_go(SHORT, 0.0, 2 * HOUR_S, 2 * HOUR_S) == 5.0 * HOUR_S
    half = price_and_power.least_in_one_go(SHORT, 0.0, 1.5 * HOUR_S, HOUR_S)
    assert half == pytest.approx((1.0 + 0.5 * 4.0) * HOUR_S)


def test_limits_are_judged_by_energy_and_time_of_all_models(tmp_path: Path) -> None:
    good, slow = tmp_path / "good.csv", tmp_path / "slow.csv"
    good.write_text("model,power_limit,time,watts\nnet,300,10,250\nnet,200,10.5,180\n")
    slow.write_text("model,power_limit,time,watts\nnet,300,10,250\nnet,200,10.5,240\n")
    lines = list(price_and_power.limited({"A": f"A={good}", "B": f"B={slow}"}))
    assert lines[0].measured == "energy -24.4%, time +5.0%"
    assert [line.holds for line in lines] == [True, False, True]
