"""Random, grid and Sobol: each trial follows from the seed and its number."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail import sobol
from dovetail.core.errors import BadInput
from dovetail.tune import sampling
from dovetail.tune.space import Choice, Float, Integer, Log, Settings, Space

SPACE = Space(
    {
        "lr": Log(1e-4, 1e-1),
        "units": Integer(16, 256, step=16),
        "optimizer": Choice("sgd", "adam"),
        "beta": Float(0.8, 0.999, when={"optimizer": "adam"}),
    }
)


def trials(name: str, count: int, seed: int = 0, space: Space = SPACE) -> list[Settings]:
    suggest = sampling.make(name, seed, count)
    return [suggest(space, number, ()) for number in range(count)]


@pytest.mark.parametrize("name", ["random", "sobol"])
def test_the_same_seed_gives_the_same_trials_and_another_gives_others(name: str) -> None:
    assert trials(name, 20) == trials(name, 20)
    assert trials(name, 20, seed=1)[3] != trials(name, 20)[3]
    assert len({str(own) for own in trials(name, 100)}) == 100


@pytest.mark.parametrize("name", ["random", "sobol", "grid"])
def test_conditions_hold_in_every_trial(name: str) -> None:
    found = trials(name, 96)
    assert {own["optimizer"] for own in found} == {"sgd", "adam"}
    assert all(("beta" in own) == (own["optimizer"] == "adam") for own in found)


def test_random_trials_are_the_same_in_every_process_and_version() -> None:
    assert trials("random", 2, seed=7, space=Space({"n": Integer(0, 999), "p": Float(0, 1)})) == [
        {"n": 344, "p": 0.8868047986673147},
        {"n": 997, "p": 0.4468040651392152},
    ]


# -------------------------------------------------------------------------------------------- Sobol


def test_the_sequence_begins_as_everybody_knows_it() -> None:
    first = [[own / 2**32 for own in sobol.point(number, 3)] for number in range(8)]
    assert first == [
        [0, 0, 0],
        [0.5, 0.5, 0.5],
        [0.75, 0.25, 0.25],
        [0.25, 0.75, 0.75],
        [0.375, 0.375, 0.625],
        [0.875, 0.875, 0.125],
        [0.625, 0.125, 0.875],
        [0.125, 0.625, 0.375],
    ]


def test_it_is_the_sequence_of_joe_and_kuo_in_every_dimension() -> None:
    qmc = pytest.importorskip(
        "scipy.stats.qmc", reason="scipy has a Sobol sequence to compare with"
    )
    theirs = qmc.Sobol(sobol.MOST_DIMENSIONS, scramble=False, bits=32).random(64)
    for number, point in enumerate(theirs.tolist()):
        assert [own / 2**32 for own in sobol.point(number, sobol.MOST_DIMENSIONS)] == point


@given(st.integers(0, 10**6), st.integers(0, 7))
def test_every_side_of_the_cube_is_covered_evenly_whatever_the_seed(seed: int, power: int) -> None:
    points = [sobol.shifted_point(seed, number, 5) for number in range(2**power)]
    for side in zip(*points, strict=True):
        assert Counter(int(unit * 2**power) for unit in side) == Counter(range(2**power))


def test_the_first_two_sides_are_even_together() -> None:
    points = [sobol.shifted_point(3, number, 2) for number in range(64)]
    squares = Counter((int(x * 8), int(y * 8)) for x, y in points)
    assert set(squares.values()) == {1}
    assert len(squares) == 64


def test_sobol_says_how_many_parameters_it_can_take() -> None:
    wide = Space({f"p{index}": Float(0, 1) for index in range(33)})
    with pytest.raises(BadInput, match="sobol knows 32 dimensions, and the space has 33; use rand"):
        sampling.planned("sobol", wide, 10)


# --------------------------------------------------------------------------------------------- grids


def test_a_grid_of_countable_values_is_all_of_them() -> None:
    space = Space({"a": Choice("x", "y"), "b": Integer(1, 3)})
    assert sampling.planned("grid", space, None) == sampling.planned("grid", space, 50) == 6
    assert trials("grid", 6, space=space) == list(space.grid())
    assert sampling.planned("grid", space, 4) == 4


def test_a_range_gets_as_many_values_as_the_trials_allow() -> None:
    space = Space({"lr": Log(1e-3, 1e-1), "p": Float(0, 1), "o": Choice("a", "b")})
    assert sampling.planned("grid", space, 20) == 18  # 3 x 3 x 2
    assert {own["p"] for own in trials("grid", 18, space=space)} == {0, 0.5, 1}


def test_a_grid_that_is_too_large_or_too_small_is_told() -> None:
    space = Space({f"p{index}": Float(0, 1) for index in range(4)})
    with pytest.raises(
        BadInput, match="the smallest grid of this space has 16 trials, more than 9"
    ):
        sampling.planned("grid", space, 9)
    with pytest.raises(BadInput, match="ranges without steps; say how many trials"):
        sampling.planned("grid", space, None)
    with pytest.raises(BadInput, match="more than 10,000 trials"):
        sampling.planned("grid", Space({"n": Integer(1, 10**9)}), None)
    with pytest.raises(BadInput, match="the grid has no trial 6; it has 6"):
        sampling.make("grid")(Space({"n": Integer(1, 6)}), 6, ())


# ------------------------------------------------------------------------------------------- by name


def test_a_sampler_that_is_not_there_is_told_by_name() -> None:
    with pytest.raises(BadInput, match="there is no sampler 'sobl'; did you mean sobol"):
        sampling.make("sobl")
    with pytest.raises(
        BadInput, match="there is no sampler 'x'; there is random, grid, sobol, tpe"
    ):
        sampling.make("x")
    with pytest.raises(BadInput, match="goes on for ever; say how many trials"):
        sampling.planned("random", SPACE, None)


def test_samplers_that_learn_are_imported_only_when_used() -> None:
    heavy = "{'optuna', 'numpy', 'torch', 'scipy', 'cmaes'} & set(sys.modules)"
    code = f"import sys, dovetail.tune.sampling as s; s.make('sobol'); print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
