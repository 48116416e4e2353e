"""`dovetail trace describe` and `dovetail trace generate`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail import traces
from dovetail.cli.simulation.trace import trace
from dovetail.core.errors import BadInput


def typed(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(trace, words, input=stdin, catch_exceptions=True)


def test_what_is_generated_can_be_piped_into_describe() -> None:
    made = typed("generate", "--jobs", "50")
    assert made.exit_code == 0
    assert made.stdout.startswith("job_id,submit_s,duration_s,gpus,user\n")
    told = typed("describe", "-", "--cluster", "8x8", stdin=made.stdout)
    assert told.exit_code == 0
    assert "standard input (dovetail)" in told.stdout
    assert "50 submitted" in told.stdout
    assert "on 64 GPUs" in told.stdout


def test_every_option_of_generate_reaches_the_recipe(tmp_path: Path) -> None:
    out = tmp_path / "jobs.jsonl.gz"
    words = "--jobs 9 --load 0.5 --cluster 2x4 --mean-duration 60 --c2 2 --gangs 1:1,2:1 --seed 5"
    more = "--burstiness 3 --daily-cycle 0.5 --users 2 --user-spread 0.5 --deadline-factor 2"
    assert typed("generate", *words.split(), *more.split(), "--out", str(out)).exit_code == 0
    recipe = traces.Recipe(
        9, 8, 0.5, 60, 2, ((1, 1.0), (2, 1.0)), 3, 0.5, 2, 0.5, deadline_factor=2, seed=5
    )
    assert traces.read(out).arrivals == traces.generate(recipe)


def test_describe_prints_figures_as_json(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,duration_s,gpus\n0,60,2\nx,1,1\n5,60,2\n")
    told = typed("describe", str(path), "--skip-bad-rows", "--json")
    figures = json.loads(told.stdout)
    assert (figures["jobs"], figures["bad_rows"], figures["sizes"][0]["gpus"]) == (2, 1, "2")
    assert ":3: column 'submit_s': 'x' is not a" in told.stderr


def test_durations_of_a_pollux_workload_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("name,time,application,num_replicas\na,1,ncf,2\n")
    (tmp_path / "d.csv").write_text("application,seconds\nncf,30\n")
    told = typed("describe", str(tmp_path / "w.csv"), "--durations", str(tmp_path / "d.csv"))
    assert "mean 30 s" in told.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["describe", "nowhere.csv"],
        ["generate", "--gangs", "1-2"],
        ["generate", "--gangs", "1:2:3"],
        ["generate", "--jobs", "0"],
        ["generate", "--cluster", "8by8"],
        ["generate", "--jobs", "1", "--out", "jobs.xlsx"],
    ],
)
def test_a_mistake_is_bad_input(words: list[str]) -> None:
    assert isinstance(typed(*words).exception, BadInput)


@pytest.mark.parametrize(
    "words",
    [
        ["describe"],
        ["describe", "x.csv", "--format", "slurm"],
        ["generate", "--jobs", "many"],
        ["generate", "--gpus", "8", "--cluster", "8x8"],
    ],
)
def test_a_wrong_option_is_bad_usage(words: list[str]) -> None:
    assert typed(*words).exit_code == 2
