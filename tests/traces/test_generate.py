"""The generator keeps what its recipe promises: load, spread, bursts, and the same jobs again."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import inf, nan
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.models.workload import Arrival
from dovetail.traces import Recipe, Trace, describe, generate
from dovetail.traces.clusters.cluster_text import read_cluster


def c2(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values) / mean**2


def durations(arrivals: list[Arrival]) -> list[float]:
    return [arrival.work_s for arrival in arrivals]


def gaps(arrivals: list[Arrival]) -> list[float]:
    return [later.at - earlier.at for earlier, later in pairwise(arrivals)]


def test_the_same_recipe_makes_the_same_jobs() -> None:
    assert generate(Recipe(jobs=100, seed=7)) == generate(Recipe(jobs=100, seed=7))
    assert generate(Recipe(jobs=100, seed=7)) != generate(Recipe(jobs=100, seed=8))


def test_the_jobs_of_a_seed_never_change() -> None:
    first, second = generate(Recipe(jobs=2, c2=1.0))
    assert (first.job.id, first.job.gpus, first.job.user) == ("1", 1, "u19")
    assert first.at == pytest.approx(140.37813216394352, rel=1e-12)
    assert second.at == pytest.approx(559.9406762729948, rel=1e-12)


def test_durations_change_neither_arrivals_nor_gangs() -> None:
    one, other = generate(Recipe(jobs=50, c2=1)), generate(Recipe(jobs=50, c2=20))
    assert [(a.at, a.job) for a in one] == [(a.at, a.job) for a in other]


@pytest.mark.parametrize("load", [0.3, 0.8, 1.2])
def test_the_load_on_the_cluster_is_as_asked_for(load: float) -> None:
    made = generate(Recipe(jobs=20_000, load=load, c2=1))
    found = describe(Trace(made), read_cluster("8x8")).load
    assert found == pytest.approx(load, rel=0.05)


@pytest.mark.parametrize("wanted", [0.05, 0.3, 0.5, 0.7, 1.0, 2.0, 10.0])
def test_mean_and_spread_of_durations_are_as_asked_for(wanted: float) -> None:
    found = durations(generate(Recipe(jobs=40_000, c2=wanted, mean_duration_s=100)))
    assert sum(found) / len(found) == pytest.approx(100, rel=0.06)
    assert c2(found) == pytest.approx(wanted, rel=0.15)


def test_a_spread_of_zero_makes_all_durations_equal() -> None:
    assert set(durations(generate(Recipe(jobs=20, c2=0, mean_duration_s=5)))) == {5.0}


def test_users_that_differ_leave_the_overall_spread_as_it_was() -> None:
    made = generate(Recipe(jobs=40_000, c2=10, user_spread=1.5))
    assert c2(durations(made)) == pytest.approx(10, rel=0.2)
    means = {user: _mean(made, user) for user in ("u1", "u2", "u3", "u4")}
    assert max(means.values()) > 2 * min(means.values())


def _mean(made: list[Arrival], user: str) -> float:
    own = [arrival.work_s for arrival in made if arrival.job.user == user]
    return sum(own) / len(own)


@pytest.mark.parametrize("wanted", [0.0, 1.0, 8.0])
def test_bursts_of_arrivals_are_as_asked_for(wanted: float) -> None:
    found = c2(gaps(generate(Recipe(jobs=20_000, burstiness=wanted))))
    assert found == pytest.approx(wanted, rel=0.15, abs=1e-9)


def test_a_daily_cycle_brings_more_jobs_in_the_first_half_of_each_day_and_keeps_the_load() -> None:
    made = generate(Recipe(jobs=15_000, daily_cycle=1.0, burstiness=0))
    early = sum((arrival.at % 86_400) < 43_200 for arrival in made) / len(made)
    assert early == pytest.approx(0.5 + 1 / 3.14159, abs=0.01)
    assert all(later >= 0 for later in gaps(made))
    assert made[-1].at == pytest.approx(
        generate(Recipe(jobs=15_000, burstiness=0))[-1].at, rel=0.01
    )


def test_gangs_and_users_come_as_often_as_they_should() -> None:
    made = generate(Recipe(jobs=20_000, gangs=((1, 3.0), (8, 1.0)), users=3))
    sizes = Counter(arrival.job.gpus for arrival in made)
    users = Counter(arrival.job.user for arrival in made)
    assert sizes[8] / len(made) == pytest.approx(0.25, abs=0.02)
    assert users["u1"] / users["u3"] == pytest.approx(3, rel=0.1)


def test_deadlines_and_users_are_left_out_or_put_in() -> None:
    without, *_ = generate(Recipe(jobs=5, users=0))
    assert (without.job.user, without.job.deadline) == ("", None)
    made, *_ = generate(Recipe(jobs=5, deadline_factor=2.0))
    assert made.job.deadline == made.at + 2.0 * made.work_s


@pytest.mark.parametrize(
    "wrong",
    [
        {"jobs": 0},
        {"gpus": 0},
        {"load": 0},
        {"load": nan},
        {"load": inf},
        {"mean_duration_s": -1},
        {"c2": -1},
        {"c2": nan},
        {"burstiness": -0.5},
        {"daily_cycle": 1.1},
        {"users": -1},
        {"gangs": ()},
        {"gangs": ((0, 1.0),)},
        {"gangs": ((1, 0.0),)},
        {"gangs": ((1, -1.0), (2, 2.0))},
        {"gangs": ((1, nan),)},
        {"deadline_factor": 0.0},
    ],
)
def test_a_recipe_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="cannot make a trace with"):
        Recipe(**wrong)


def test_a_spread_too_small_to_draw_and_one_smaller_than_that_of_users_are_refused() -> None:
    with pytest.raises(BadInput, match=r"0 or 0\.01 up"):
        generate(Recipe(c2=0.001))
    with pytest.raises(BadInput, match="lower the spread or raise c2"):
        generate(Recipe(c2=0.1, user_spread=2.0))
