"""`dovetail study replay`, as a user types it."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest

from dovetail.tune.rules import BUILTIN
from typed_here import Said, Type, typing

KEYS = [
    *("policy", "tasks", "runs", "speedup_geomean", "speedup_max", "ci95", "best_done_speedup"),
    *("missed", "best_killed", "steps", "switches", "peak_suspended", "ceiling_geomean"),
]


@pytest.fixture
def typed_anywhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    return typing(monkeypatch, capsys)


@pytest.fixture
def typed(typed_anywhere: Type) -> Type:
    return partial(typed_anywhere, "study", "replay")


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks of 12 configurations that fall to limits of their own."""
    chance = Random(4)
    lines = ["task,config,step,value,accuracy,seconds"]
    for task in ("one", "two"):
        for config in range(12):
            limit, speed = chance.random(), chance.uniform(0.5, 2)
            for step in range(1, 10):
                loss = limit + step**-speed
                lines.append(f"{task},{config},{step},{loss},{1 - loss / 2},{chance.random()}")
    path = tmp_path_factory.mktemp("curves") / "curves.csv"
    path.write_text("\n".join(lines))
    return path


def rows(said: Said) -> list[dict[str, object]]:
    assert (said.code, said.err) == (0, "")
    found: list[dict[str, object]] = json.loads(said.out)
    return found


SMALL = ("--trials", 8, "--slots", 2, "--seeds", 3)


def test_json_is_a_list_in_the_order_asked_for_with_the_keys_promised(
    typed: Type, curves: Path
) -> None:
    found = rows(typed(curves, "--policies", "hermes,fifo,asha-stop", *SMALL, "--json"))
    assert [row["policy"] for row in found] == ["hermes", "fifo", "asha-stop"]
    assert all(list(row) == KEYS for row in found)
    assert [(row["tasks"], row["runs"]) for row in found] == [(2, 6)] * 3
    fifo = found[1]
    assert (fifo["speedup_geomean"], fifo["ci95"], fifo["steps"]) == (1.0, [1.0, 1.0], 72.0)


def test_the_same_command_says_the_same_twice(typed: Type, curves: Path) -> None:
    words = (curves, "--policies", "hermes,pbt", *SMALL, "--json")
    assert typed(*words) == typed(*words)


def test_the_table_fits_a_hundred_columns_and_says_what_its_columns_mean(
    typed: Type, curves: Path
) -> None:
    policies = "fifo,successive-halving:pause=true,asha-promote:eta=3:rungs=1/2/3/4/5/6/7"
    said = typed(curves, "--policies", policies, *SMALL)
    assert (said.code, said.err) == (0, "")
    assert max(map(len, said.out.splitlines())) <= 100
    for word in (
        "× fifo",
        "95 %",
        "missed",
        "killed",
        "switches",
        "paused",
        "share: of the ceiling",
    ):
        assert word in said.out


def test_a_rule_that_never_reaches_the_target_has_no_mean(typed: Type, curves: Path) -> None:
    words = (curves, "--policies", "round-robin", *SMALL, "--deadline", 0.5)
    (row,) = rows(typed(*words, "--json"))
    assert (row["speedup_geomean"], row["ci95"], row["missed"]) == (None, None, 6)
    assert "–" in typed(*words).out


def test_tasks_steps_metric_and_seconds_can_be_chosen(typed: Type, curves: Path) -> None:
    words = (curves, "--policies", "fifo", *SMALL, "--json")
    (one,) = rows(typed(*words, "--tasks", "two", "--steps", 4))
    assert (one["tasks"], one["runs"], one["steps"]) == (1, 3, 32.0)
    (other,) = rows(typed(*words, "--metric", "accuracy", "--direction", "max"))
    assert other["ceiling_geomean"] == rows(typed(*words))[0]["ceiling_geomean"]
    assert rows(typed(*words, "--seconds"))[0]["ceiling_geomean"] != other["ceiling_geomean"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--policies", "hermse"], "there is no study policy 'hermse'; did you mean 'hermes'?"),
        (["--policies", "xyz"], "'xyz'; `dovetail study policies` lists them all"),
        (["--policies", "fifo,fifo"], "--policies names 'fifo' twice"),
        (["--policies", ","], "--policies names none"),
        (["--policies", "fifo", "--trials", "13"], "has 12 configurations, fewer than the 13"),
        (["--policies", "fifo", "--slots", "0"], "--slots 0: give at least 1"),
        (["--policies", "fifo", "--switch-cost", "-1"], "--switch-cost -1: give steps, 0 or more"),
        (["--policies", "fifo", "--tasks", "six"], "there is no task 'six'; it has one, two"),
        (["--policies", "fifo", "--steps", "10"], "has 9 steps"),
        (["--policies", "fifo", "--metric", "f1"], "there is no column 'f1'"),
        (["--policies", "fifo", "--deadline", "0"], "--deadline 0: give steps of time"),
    ],
)
def test_a_mistake_is_one_line(typed: Type, curves: Path, words: list[str], told: str) -> None:
    said = typed(curves, "--trials", "8", *words)
    assert said.code != 0
    assert told in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_a_policy_that_cannot_be_loaded_is_one_line(
    typed: Type, curves: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dovetail.tune.rules.pop", None)
    said = typed(curves, "--policies", "pop,fifo", *SMALL)
    assert said.code == 1
    assert "study policy 'pop' cannot be loaded (ModuleNotFoundError: import of" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("policy", [name for name in BUILTIN if name != "fifo"])
def test_the_largest_numbers_there_are_raise_no_warning(
    typed: Type, tmp_path: Path, policy: str, recwarn: pytest.WarningsRecorder
) -> None:
    chance, lines = Random(1), ["config,step,value"]
    for config in range(12):
        for step in range(1, 10):
            value = chance.choice([1e308, -1e308, 5e307, 1.7e308, config + 1 / step])
            lines.append(f"{config},{step},{value}")
    (tmp_path / "huge.csv").write_text("\n".join(lines))
    said = typed(tmp_path / "huge.csv", "--policies", f"fifo,{policy}", *SMALL)
    assert (said.code, said.err) == (0, "")
    assert not [own for own in recwarn if own.category is RuntimeWarning]


def test_a_file_that_is_not_there_is_one_line(typed: Type, tmp_path: Path) -> None:
    said = typed(tmp_path / "none.csv", "--policies", "fifo")
    assert said.code == 1
    assert said.err.endswith("none.csv: No such file or directory\n")


def test_the_policies_of_studies_are_told_with_their_parameters(
    typed_anywhere: Type,
) -> None:
    said = typed_anywhere("study", "policies", "asha-promote")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("asha-promote\n")
    assert "  eta=3\n" in said.out
    (one,) = json.loads(typed_anywhere("study", "policies", "hermes", "--json").out)
    assert one["parameters"]["reading"] == "cumulative"
