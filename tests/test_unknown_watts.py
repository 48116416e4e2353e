"""Energy that nobody knows is not passed off as none: where watts are missing, one line says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from typed_box import Box
from typed_here import Type, typing

ENERGY_IS_0 = "no watts are known of {}: its energy counts as 0; name them under [watts]"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    return typing(monkeypatch, capsys)


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text("submit_s,duration_s\n0,3600\n")
    return tmp_path / "jobs.csv"


def costs_file(folder: Path, text: str) -> Path:
    (folder / "costs.toml").write_text(text)
    return folder / "costs.toml"


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("option", ["--price", "--carbon"])
def test_a_simulation_with_a_price_says_whose_watts_are_missing(
    typed: Type, jobs: Path, option: str, as_json: bool
) -> None:
    words = ["--cluster", "1x4", "--policy", "fifo", option, "0.2"]
    said = typed("simulate", jobs, *words, *(["--json"] if as_json else []))
    assert said.code == 0
    assert said.err.count(ENERGY_IS_0.format("gpu")) == 1
    assert not as_json or json.loads(said.out)["energy_kwh"] == 0


def test_a_comparison_says_which_kinds_the_costs_file_leaves_out(
    typed: Type, jobs: Path, tmp_path: Path
) -> None:
    file = costs_file(tmp_path, "price = 0.2\n[watts]\nH100 = [700]\n")
    words = ["--cluster", "1x4:H100+1x4:T4", "--policies", "fifo,srtf", "--costs", file]
    said = typed("compare", jobs, *words)
    assert said.err.count(ENERGY_IS_0.format("T4")) == 1


@pytest.mark.parametrize(
    ("text", "cluster", "told"),
    [
        ("price = 0.2\n[watts]\ngpu = [700]\n", "1x4", False),
        ("price = 0.2\n[per_hour]\ngpu = [3]\n", "1x4", False),
        ("carbon = 350\n[per_hour]\ngpu = [3]\n", "1x4", True),
    ],
)
def test_money_by_the_hour_stands_in_for_watts_unless_carbon_is_counted(
    typed: Type, jobs: Path, tmp_path: Path, text: str, cluster: str, told: bool
) -> None:
    words = ["--cluster", cluster, "--policy", "fifo", "--costs", costs_file(tmp_path, text)]
    assert ("no watts are known" in typed("simulate", jobs, *words).err) == told


def test_who_names_no_price_is_told_nothing(typed: Type, jobs: Path) -> None:
    said = typed("simulate", jobs, "--cluster", "1x4", "--policy", "fifo")
    assert "watts" not in said.err


def test_the_daemon_says_so_when_it_comes_up_and_when_costs_are_asked_for(tmp_path: Path) -> None:
    made = Box(tmp_path / "home")
    file = costs_file(tmp_path, "price = 0.2\n[watts]\nH100 = [700]\n")
    try:
        assert ENERGY_IS_0.format("cpu") in made.well("up", "--slots", 2, "--costs", file)
        said = made("costs")
        assert (said.code, said.err.count(ENERGY_IS_0.format("cpu"))) == (0, 1)
        assert "no watts" in made("doctor").out
    finally:
        made("down")
