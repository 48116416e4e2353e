"""`dovetail predict`: how long, how sure, because of what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.cli.jobs.predict import predict
from dovetail.core.errors import BadInput

HEADER = "submit_s,duration_s,gpus,user,name\n"
ROWS = "".join(f"{600 * n},{100 + n % 3},1,ann,train\n" for n in range(20))


def asked(folder: Path, rows: str, *words: str) -> str:
    trace = folder / "jobs.csv"
    trace.write_text(HEADER + rows)
    done = CliRunner().invoke(
        predict,
        ["--trace", str(trace), "--predictor", "recent-mean", *words],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    return done.output


def test_it_says_how_long_how_sure_and_because_of_what(tmp_path: Path) -> None:
    said = asked(tmp_path, ROWS, "--user", "ann", "--name", "train", "--gpus", "1")
    assert said.startswith("About 1 min 41 s; between ")
    assert "in four cases of five" in said
    assert "19 runs of train by ann: lately about 1 min 41 s" in said
    assert "as wide as 18 jobs that ended lately needed" in said


def test_a_command_has_the_name_that_it_would_be_submitted_with(tmp_path: Path) -> None:
    said = asked(
        tmp_path, ROWS.replace("train", "train.py"), "--user", "ann", "--", "python", "train.py"
    )
    assert "19 runs of train.py by ann" in said


def test_others_jobs_are_told_apart_from_ones_own(tmp_path: Path) -> None:
    said = asked(tmp_path, ROWS, "--user", "bob", "--gpus", "1")
    assert "19 jobs of all users" in said


def test_as_json_the_same_in_figures(tmp_path: Path) -> None:
    found = json.loads(asked(tmp_path, ROWS, "--json", "--user", "ann", "--name", "train"))
    assert found["low"] <= found["seconds"] <= found["high"]
    assert (found["predictor"], found["level"], found["finished"]) == ("recent-mean", 0.8, 19)


@pytest.mark.parametrize("way", ["boosted", "mixture"])
@pytest.mark.parametrize("jobs", [1, 2, 99, 130])
def test_few_jobs_that_all_take_the_same_are_no_trouble(
    tmp_path: Path, jobs: int, way: str
) -> None:
    pytest.importorskip("sklearn")
    rows = "".join(f"{600 * n},60,1,ann,train\n" for n in range(jobs))
    words = ("--json", "--predictor", way, "--user", "ann", "--name", "train")
    found = json.loads(asked(tmp_path, rows, *words))
    assert found["seconds"] == pytest.approx(60.0, rel=0.05)
    assert found["low"] <= found["seconds"] <= found["high"]
    assert found["because"][0].startswith(f"{max(jobs - 1, 1)} run")


BATCH = "".join(f"{n // 12},{seconds},1,ann,tr\n" for n, seconds in enumerate(range(205, 705, 20)))
SWEEPS = "".join(
    f"0,{4 if n % 2 else 1},1,ann,{'longer' if n % 2 else 'brief'}\n" for n in range(12)
)
AFTER_LONG = "".join(f"{n},3000,1,ann,long\n" for n in range(6)) + "9000,1,1,ann,brief\n" * 12


@pytest.mark.parametrize("way", ["recent-mean", "mixture"])
@pytest.mark.parametrize(
    ("rows", "name"),
    [(BATCH, "tr"), (SWEEPS, "longer"), (AFTER_LONG, "brief"), (BATCH * 6, "tr")],
)
def test_jobs_that_came_together_leave_room_on_both_sides_of_the_answer(
    tmp_path: Path, rows: str, name: str, way: str
) -> None:
    """What was guessed of them before any had ended says nothing of what is said after it."""
    if way == "mixture":
        pytest.importorskip("sklearn")
    words = ("--json", "--predictor", way, "--user", "ann", "--name", name, "--gpus", "1")
    last = "400000,400,1,bob,other\n"
    found = json.loads(asked(tmp_path, rows + last, *words))
    own = sorted(float(row.split(",")[1]) for row in rows.split() if row.endswith(name))
    assert found["seconds"] == pytest.approx(own[len(own) // 2], rel=0.3)
    assert 0 < found["low"] < found["seconds"] < found["high"] < 3 * found["seconds"]
    assert found["finished"] == rows.count("\n")


def test_with_trees_the_first_job_of_a_name_is_held_against_all_others(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    rows = "".join(f"{600 * n},{100 + n % 30},1,ann,train\n" for n in range(160))
    words = ("--json", "--predictor", "mixture", "--user", "ann", "--name", "new", "--gpus", "1")
    found = json.loads(asked(tmp_path, rows, *words))
    assert found["high"] < 3 * found["seconds"]


def test_nothing_runs_longer_than_its_time_limit(tmp_path: Path) -> None:
    words = ("--user", "ann", "--name", "train", "--gpus", "1", "--time-limit")
    found = json.loads(asked(tmp_path, ROWS, "--json", *words, "40s"))
    assert found["low"] <= found["seconds"] == found["high"] == 40.0
    said = asked(tmp_path, ROWS, *words, "40s")
    assert said.startswith("40 s: its time limit ends it then, before it is done.\n")
    assert "it would need about 1 min 40 s" in said
    assert "between" not in said
    assert "wide" not in said
    tight = asked(tmp_path, ROWS, *words, "101s")
    assert "its time limit of 1 min 41 s, at which it is stopped" in tight
    assert "time limit" not in asked(tmp_path, ROWS, *words, "10h")


def test_whose_job_it_is_suffices(tmp_path: Path) -> None:
    assert "19 jobs by ann" in asked(tmp_path, ROWS, "--user", "ann")


def test_a_trace_that_is_missing_is_told_first(tmp_path: Path) -> None:
    done = CliRunner().invoke(predict, ["--trace", str(tmp_path / "none.csv")])
    assert isinstance(done.exception, BadInput)
    assert "none.csv" in str(done.exception)


def test_a_job_must_be_named(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(HEADER + ROWS)
    done = CliRunner().invoke(predict, ["--trace", str(trace)])
    assert done.exit_code == 2
    assert "say which job" in done.output


@pytest.mark.parametrize("way", ["boosted", "mixture"])
def test_without_scikit_learn_one_line_says_how_to_get_it(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    done = CliRunner().invoke(predict, ["--predictor", way, "--gpus", "1"])
    assert "pip install 'dovetail[predict]'" in str(done.exception)


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        ("history-mean:guess_s=5", "About 1 min 41 s."),
        ("user-estimate:guess_s=300", "About 5 min."),
    ],
)
def test_every_predictor_of_the_catalogue_may_be_asked(
    tmp_path: Path, way: str, answer: str
) -> None:
    said = asked(tmp_path, ROWS, "--user", "ann", "--name", "train", "--predictor", way)
    assert said.startswith(f"{answer}\nBy {way}, because of\n")


def test_one_that_knows_the_truth_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the true durations, which only a simulation knows"):
        asked(tmp_path, ROWS, "--user", "ann", "--predictor", "oracle")
