"""Search spaces: what parameters may be, conditions, grids, and how mistakes are told."""

from __future__ import annotations

import json
from collections import Counter
from math import log10
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.errors import BadInput
from dovetail.tune.described import dump_space, read_space
from dovetail.tune.space import Choice, Float, Integer, Log, Settings, Space

UNITS = [index / 1000 for index in range(1001)]
OPTIMIZERS = Choice("sgd", "adam")


def told(given: Any) -> str:
    with pytest.raises(BadInput) as caught:
        read_space(given)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 300
    return sentence


# ------------------------------------------------------------------------------------- one parameter


def test_a_float_covers_its_range_evenly() -> None:
    found = [Float(-1, 3).at(unit) for unit in UNITS]
    assert (found[0], found[250], found[1000]) == (-1, 0, 3)


def test_a_log_float_gives_each_order_of_magnitude_the_same_room() -> None:
    found = [float(Log(1e-4, 1e-1).at(unit)) for unit in UNITS]
    assert [log10(found[index]) for index in (0, 333, 667, 1000)] == pytest.approx(
        [-4, -3, -2, -1], abs=0.01
    )
    assert all(1e-4 <= value <= 1e-1 for value in found)


def test_a_whole_number_is_each_of_its_values_equally_often() -> None:
    found = Counter(Integer(1, 4).at(unit) for unit in UNITS[:-1])
    assert found == {1: 250, 2: 250, 3: 250, 4: 250}
    assert {Integer(16, 64, step=16).at(unit) for unit in UNITS} == {16, 32, 48, 64}
    assert {Integer(1, 8, step=3).at(unit) for unit in UNITS} == {1, 4, 7}


def test_a_whole_number_on_a_log_scale_prefers_the_small_ones() -> None:
    found = Counter(Integer(1, 7, log=True).at(unit) for unit in UNITS)
    assert set(found) == {1, 2, 3, 4, 5, 6, 7}
    assert found[1] == pytest.approx(333, abs=2)  # 1 to 2 of 1 to 8
    assert found[2] + found[3] == pytest.approx(333, abs=2)  # 2 to 4
    assert {Integer(16, 256, step=16, log=True).at(unit) for unit in UNITS} == set(
        range(16, 257, 16)
    )


def test_a_float_with_a_step_has_a_few_values() -> None:
    assert sorted({Float(0, 0.3, step=0.1).at(unit) for unit in UNITS}) == pytest.approx(
        [0, 0.1, 0.2, 0.3]
    )
    assert sorted({Float(0, 1, step=0.4).at(unit) for unit in UNITS}) == pytest.approx(
        [0, 0.4, 0.8]
    )


def test_a_choice_may_mix_texts_numbers_and_truth_values() -> None:
    found = Counter(Choice("a", 2, True, 0.5).at(unit) for unit in UNITS[:-1])
    assert found == {"a": 250, 2: 250, True: 250, 0.5: 250}


# -------------------------------------------------------------------------------------- conditions

NESTED = Space(
    {
        "beta": Float(0.8, 0.999, when={"optimizer": "adam"}),  # told before its parent
        "optimizer": Choice("sgd", "adam", "rmsprop"),
        "momentum": Float(0, 0.99, when={"optimizer": ["sgd", "rmsprop"]}),
        "nesterov": Choice(True, False, when={"optimizer": "sgd"}),
        "warm": Integer(1, 3, when={"nesterov": True}),
    }
)


def test_a_parameter_counts_only_under_its_condition() -> None:
    assert list(NESTED.at([0.5, 0.0, 0.5, 0.0, 0.0])) == [
        *("optimizer", "momentum", "nesterov", "warm")
    ]
    assert list(NESTED.at([0.5, 0.0, 0.5, 0.9, 0.0])) == ["optimizer", "momentum", "nesterov"]
    assert list(NESTED.at([0.5, 0.5, 0.5, 0.5, 0.5])) == ["beta", "optimizer"]
    assert NESTED.at([0.5, 0.9, 0.0, 0.5, 0.5]) == {"optimizer": "rmsprop", "momentum": 0}


def test_a_condition_may_be_on_a_whole_number() -> None:
    space = Space({"layers": Integer(1, 3), "skip": Float(0, 1, when={"layers": [2, 3]})})
    assert "skip" not in space.at([0, 0.5])
    assert "skip" in space.at([0.5, 0.5])


def test_a_child_counts_no_earlier_than_its_parent() -> None:
    space = Space(
        {
            "decay": Choice("none", "step", from_step=20),
            "factor": Float(0, 1, when={"decay": "step"}),
            "late": Float(0, 1, from_step=25, when={"decay": "step"}),
            "lr": Log(1e-4, 1),
        }
    )
    assert space.from_steps() == {"decay": 20, "factor": 20, "late": 25, "lr": 0}


# -------------------------------------------------------------------------------------------- grids


def test_a_grid_goes_through_every_combination_the_last_fastest() -> None:
    space = Space({"a": Choice("x", "y"), "b": Integer(1, 3)})
    assert [tuple(own.values()) for own in space.grid()] == [
        *[("x", 1), ("x", 2), ("x", 3), ("y", 1), ("y", 2), ("y", 3)]
    ]


def test_a_grid_takes_as_many_values_of_a_range_as_it_is_told() -> None:
    space = Space({"lr": Log(1e-3, 1e-1), "p": Float(0, 1)})
    found = list(space.grid(3))
    assert [own["p"] for own in found[:3]] == [0, 0.5, 1]
    assert sorted({float(own["lr"]) for own in found}) == pytest.approx([1e-3, 1e-2, 1e-1])
    assert space.grid_size(3) == 9


def test_what_does_not_count_makes_no_combinations() -> None:
    space = Space({"o": OPTIMIZERS, "beta": Integer(1, 5, when={"o": "adam"})})
    assert space.grid_size() == len(list(space.grid())) == 6


def test_a_grid_without_end_is_not_counted_to_the_end() -> None:
    space = Space({"n": Integer(1, 10**9), **{f"c{i}": Integer(0, 9) for i in range(30)}})
    assert space.grid_size() == 10_001
    deep = Space({"o": OPTIMIZERS, "n": Integer(1, 10**9, when={"o": "adam"})})
    assert deep.grid_size() == 10_001


# ----------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "space: there is nothing to search; give at least one parameter"),
        ("lr", "space: write the name of each parameter and what it may be"),
        ({"lr": 3}, "space.lr: say what it may be: {float: [0, 1]}"),
        ({"lr": {}}, "space.lr: say what it may be by one of"),
        ({"lr": {"float": [0, 1], "int": [0, 1]}}, "space.lr: say what it may be by one of"),
        ({"lr": {"float": [1, 0]}}, "space.lr: from 1 to 0 there is nothing; the low bound"),
        ({"lr": {"int": [3, 3]}}, "space.lr: from 3 to 3 there is one value only"),
        ({"lr": {"float": [0, "inf"]}}, "space.lr: 'inf' is not a number"),
        ({"lr": {"float": [0, float("inf")]}}, "space.lr: the bound inf is not finite"),
        ({"lr": {"float": [-1e308, 1e308]}}, "space.lr: from -1e+308 to 1e+308 is too wide"),
        ({"lr": {"float": [0, True]}}, "space.lr: True is not a number"),
        ({"lr": {"float": [0]}}, "space.lr: give the lowest and the highest value: float: ["),
        ({"lr": {"log": [0, 1]}}, "space.lr: a log scale cannot begin at 0; give a low bound abov"),
        ({"n": {"int": [-1, 4], "log": True}}, "space.n: a log scale cannot begin at -1"),
        ({"n": {"int": [0.5, 4]}}, "space.n: 0.5 is not a whole number"),
        ({"n": {"int": [0, 2**60]}}, f"space.n: {2**60} is out of range"),
        ({"n": {"int": [1, 4], "step": 5}}, "space.n.step: the step 5 is larger than the range"),
        ({"p": {"float": [0, 1], "step": 2}}, "space.p.step: the step 2 is larger than the range"),
        ({"p": {"float": [0, 1], "step": 0}}, "space.p.step: the step 0 must be above 0"),
        ({"p": {"float": [1, 2], "log": True, "step": 1}}, "space.p.step: a float on a log scale"),
        ({"p": {"float": [1, 2], "log": "maybe"}}, "space.p.log: write true or false"),
        ({"o": {"choice": []}}, "space.o: a choice of nothing; give at least one value"),
        ({"o": {"choice": "sgd"}}, "space.o: give the values as a list"),
        ({"o": {"choice": ["a", "a"]}}, "space.o: 'a' is there twice; remove one"),
        ({"o": {"choice": [1, True]}}, "space.o: True is there twice; remove one"),
        ({"o": {"choice": [["a"]]}}, "space.o: a list cannot be chosen"),
        ({"o": {"choice": [None]}}, "space.o: nothing cannot be chosen"),
        ({"o": {"choice": [float("nan")]}}, "space.o: nan cannot be chosen"),
        ({"o": {"choice": ["a"], "stpe": 1}}, "space.o.stpe: there is no such field"),
        ({"o": {"choice": ["a"], "from_step": -1}}, "space.o.from_step: from_step -1 is not a who"),
        ({"a b": {"int": [1, 2]}}, "space.'a b': this name cannot be used in {…}"),
        ({"2x": {"int": [1, 2]}}, "space.2x: this name cannot be used in {…}"),
        ({"x" * 101: {"int": [1, 2]}}, f"space.'{'x' * 30}': a name has 100 characters at most"),
        ({"settings": {"int": [1, 2]}}, "space.settings: {settings} has a meaning of its own"),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused(given: Any, sentence: str) -> None:
    assert told(given).startswith(sentence)


@pytest.mark.parametrize(
    ("when", "sentence"),
    [
        ({"opt": "adam"}, "space.x.when: there is no parameter 'opt'; there is o, lr"),
        ({"o": "adamw"}, "space.x.when: o is never 'adamw'; it is sgd, adam"),
        ({"o": []}, "space.x.when: o is never nothing; it is sgd, adam"),
        ({"lr": 0.5}, "space.x.when: lr is a number of any size; a condition needs a choice"),
        ({"x": 1}, "space.x.when: the conditions go round in a circle: x → x"),
        ("adam", "space.x.when: write {other: value}, or {other: [value, value]}"),
    ],
)
def test_a_condition_that_cannot_hold_is_refused(when: Any, sentence: str) -> None:
    others = {"o": {"choice": ["sgd", "adam"]}, "lr": {"float": [0, 1]}}
    assert told({**others, "x": {"int": [1, 3], "when": when}}).startswith(sentence)


def test_a_circle_of_conditions_is_shown() -> None:
    circle = {
        "a": {"int": [1, 2], "when": {"b": 1}},
        "b": {"int": [1, 2], "when": {"c": 1}},
        "c": {"int": [1, 2], "when": {"a": 1}},
    }
    sentence = told(circle)
    assert "the conditions go round in a circle: " in sentence
    assert sentence.count("→") == 3


def test_in_python_mistakes_are_told_where_they_are_made() -> None:
    with pytest.raises(BadInput, match="from 1 to 0 there is nothing"):
        Float(1, 0)
    with pytest.raises(BadInput, match="a choice of nothing"):
        Choice()
    with pytest.raises(BadInput, match=r"b\.when: there is no parameter 'a'"):
        Space({"b": Float(0, 1, when={"a": 1})})


# ------------------------------------------------------------------------------------ as plain values


def test_texts_from_a_file_are_numbers_where_they_look_like_it() -> None:
    space = read_space(
        {
            "lr": {"log": ["1e-4", "1e-1"]},
            "units": {"int": ["16", "1e3"], "log": "true", "step": "16"},
            "decay": {"choice": ["0.1", "3", "fp16", "true", "1_0", "nan"], "from_step": "20"},
            "size": {"choice": ["1", "2"], "text": "true"},
            "x": {"float": ["0", ".5"], "when": {"decay": ["3", "fp16"], "size": "2"}},
        }
    )
    assert space.parameters["lr"] == Log(1e-4, 1e-1)
    assert space.parameters["units"] == Integer(16, 1000, step=16, log=True)
    assert space.parameters["decay"] == Choice(0.1, 3, "fp16", True, "1_0", "nan", from_step=20)
    assert space.parameters["size"] == Choice("1", "2")
    assert space.conditions["x"] == {"decay": (3, "fp16"), "size": ("2",)}


def test_a_float_may_also_say_that_it_is_on_a_log_scale() -> None:
    assert read_space({"lr": {"float": [1, 9], "log": True}}) == Space({"lr": Log(1, 9)})


SETTINGS = st.one_of(
    st.booleans(), st.integers(-9, 9), st.floats(-9, 9), st.text(max_size=5), st.just("0.5")
)
BOUNDS = st.tuples(st.integers(1, 50), st.integers(51, 99))
PARAMETERS = st.one_of(
    BOUNDS.map(lambda own: Float(*own)),
    BOUNDS.map(lambda own: Float(own[0], own[1], step=1)),
    BOUNDS.map(lambda own: Log(*own, from_step=3)),
    BOUNDS.map(lambda own: Integer(*own)),
    BOUNDS.map(lambda own: Integer(own[0], own[1], step=own[1] - own[0], log=True)),
    st.lists(SETTINGS, min_size=1, max_size=4, unique_by=lambda own: own).map(lambda v: Choice(*v)),
)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    found = {f"p{index}": draw(PARAMETERS) for index in range(draw(st.integers(1, 4)))}
    parent = draw(st.sampled_from([Choice("1", "x"), Choice(1, 2.5, "x"), Choice(True, "true")]))
    some = draw(st.lists(st.sampled_from(parent.values), min_size=1, unique=True))
    return Space({**found, "parent": parent, "child": Integer(1, 5, when={"parent": some})})


@given(spaces())
def test_a_space_survives_being_sent_as_json(space: Space) -> None:
    again = read_space(json.loads(json.dumps(dump_space(space))))
    assert again == space
    assert again.conditions == space.conditions


@given(spaces(), st.data())
def test_every_point_of_the_cube_has_settings_of_the_space(
    space: Space, data: st.DataObject
) -> None:
    units = [data.draw(st.floats(0, 1)) for _ in space.parameters]
    settings = space.at(units)
    for name, value in settings.items():
        own = space.parameters[name]
        if isinstance(own, Choice):
            assert value in own.values
        else:
            assert own.low <= value <= own.high  # type: ignore[operator]


# ------------------------------------------------------------------------------ settings set right


@pytest.mark.parametrize(
    ("parameter", "before", "wished", "found"),
    [
        (Float(0, 1), 0.9, 1.08, 1.0),
        (Log(1e-4, 1e-1), 1e-4, 0.8e-4, 1e-4),
        (Float(0, 1, step=0.25), 0.5, 0.6, 0.75),
        (Float(0, 1, step=0.25), 1.0, 1.2, 1.0),
        (Integer(16, 256, step=16), 64, 77, 80),
        (Integer(16, 256, step=16), 32, 26, 16),
        (Integer(16, 256, step=16), 16, 13, 16),
        (Integer(1, 8), 5, 5, 5),
        (Choice(0.1, 0.5), 0.5, 0.4, 0.1),
        (Choice(64, 16, 32), 32, 38, 64),
        (Choice(0.1, 0.5), 0.5, 0.5, 0.5),
        (Choice("sgd", "adam"), "sgd", "sgd", "sgd"),
        (Choice(0, "auto", 3), 3, 2.4, 0),
    ],
    ids=str,
)
def test_a_changed_setting_becomes_one_of_the_space(
    parameter: Any, before: Any, wished: Any, found: Any
) -> None:
    settings = Space({"a": parameter}).repaired({"a": wished}, {"a": before}, lambda: 0.0)
    assert settings == {"a": pytest.approx(found) if isinstance(found, float) else found}
    assert type(settings["a"]) is type(found)


def test_parameters_come_and_go_with_their_conditions() -> None:
    space = Space({"kind": OPTIMIZERS, "beta": Float(0, 1, when={"kind": "adam"})})
    sgd: Settings = {"kind": "sgd"}
    adam: Settings = {"kind": "adam", "beta": 0.3}
    assert space.repaired({"kind": "adam"}, sgd, lambda: 0.25) == {"kind": "adam", "beta": 0.25}
    assert space.repaired({"kind": "sgd", "beta": 0.3}, adam, lambda: 0.0) == {"kind": "sgd"}


@given(spaces(), st.data())
def test_whatever_is_wished_the_settings_are_of_the_space(
    space: Space, data: st.DataObject
) -> None:
    values = st.one_of(st.floats(-1e9, 1e9), st.integers(-1000, 1000), st.booleans(), st.text())
    wished = {name: data.draw(values) for name in space.parameters if data.draw(st.booleans())}
    found = space.repaired(wished, space.at([0.5] * len(space.parameters)), lambda: 0.5)
    assert space.repaired(found, found, lambda: 0.5) == found
    assert list(found) == [name for name in space.parameters if space.counts(name, found)]
