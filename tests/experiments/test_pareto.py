"""`dovetail compare --objective`: figures, and who is on the Pareto front."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.experiments.pareto import OBJECTIVES, on_front
from html_page import embedded_in
from typed_here import Type, typing

JOBS = """job_id,submit_s,duration_s,gpus,deadline_s,priority
a,0,7200,4,9000,3
b,60,14400,8,20000,2
c,300,600,1,1200,5
d,310,540,1,1200,1
"""
CLUSTER = '[[nodes]]\ncount = 1\ngpus = 8\nkind = "A"\nidle_watts = 300\ngpu_watts = 350\n'
POLICIES = "fifo,srtf,las,edf"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    return typing(monkeypatch, capsys)


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    cluster = ("--cluster", tmp_path / "cluster.toml")
    return ["compare", tmp_path / "jobs.csv", *cluster, "--policies", POLICIES]


# ---------------------------------------------------------------------------------------- the front


def test_the_front_are_those_that_nobody_beats_in_both() -> None:
    points = [(0.0, 5.0), (1.0, 3.0), (1.0, 4.0), (2.0, 3.0), (3.0, 1.0), (3.0, 1.0)]
    assert on_front(points) == [True, True, False, False, True, True]
    assert on_front([]) == []
    assert on_front([(0.1 + 0.2, 1.0), (0.3, 1.0)]) == [True, True]  # the same but for rounding


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=20))
def test_everybody_who_is_not_on_the_front_is_beaten_by_somebody_who_is(
    points: list[tuple[float, float]],
) -> None:
    front = [point for point, is_on in zip(points, on_front(points), strict=True) if is_on]
    assert front
    for x, y in points:
        assert any(a <= x * (1 + 1e-6) and b <= y * (1 + 1e-6) for a, b in front)


# --------------------------------------------------------------------------------------- as typed


def test_cost_is_told_against_lateness_in_json(typed: Type, words: list[object]) -> None:
    said = typed(*words, "--price", 0.2, "--objective", "cost", "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    front = on_front([(one["tardiness_s"], one["total_cost"]) for one in found])
    assert [one["pareto"] for one in found] == front
    assert True in front
    assert False in front
    plain = json.loads(typed(*words, "--price", 0.2, "--json").out)
    assert all("pareto" not in one for one in plain)


def test_the_table_has_costs_lateness_and_the_front(typed: Type, words: list[object]) -> None:
    said = typed(*words, "--price", 0.2, "--objective", "cost")
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 100
    titles = next(line for line in lines if "energy cost" in line)
    assert re.split("  +", titles) == [
        *("policy", "energy cost", "lateness cost", "total", "lateness", "misses", "front"),
    ]
    rows = lines[lines.index(titles) + 2 :][:4]
    on = [row.split()[0] for row in rows if row.endswith("yes")]
    assert f"front: {', '.join(on)} (nobody is better in both" in said.out


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_every_objective_has_a_table_and_a_chart(
    typed: Type, words: list[object], tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    said = typed(*words, "--price", 0.2, "--carbon", 300, "--objective", name, "--out", out)
    assert said.code == 0, said.err
    assert max(map(len, said.out.splitlines())) <= 100
    summaries = json.loads((out / "summary.json").read_text())
    objective = OBJECTIVES[name]
    front = embedded_in((out / "report.html").read_text())["front"]
    assert front["title"] == objective.title
    assert front["points"] == [
        [one[objective.against.key], one[objective.figure.key], one["pareto"]] for one in summaries
    ]
    assert front["y"] == [objective.figure.label, objective.figure.unit]
    single = json.loads((out / "srtf" / "summary.json").read_text())
    assert single["pareto"] == summaries[1]["pareto"]


def test_without_an_objective_the_report_has_no_such_chart(
    typed: Type, words: list[object], tmp_path: Path
) -> None:
    typed(*words, "--out", tmp_path / "out")
    assert embedded_in((tmp_path / "out" / "report.html").read_text())["front"] is None


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--objective", "luck"], "--objective 'luck' is not known; there are cost, energy,"),
        (["--objective", "cost"], "--objective cost: it is not known what electricity costs;"),
        (["--objective", "co2"], "--objective co2: it is not known what carbon is in electricity"),
        (["--objective", "energy", "--cluster", "1x8"], "--objective energy: it is not known what"),
    ],
)
def test_an_objective_that_nothing_is_known_of_is_one_line(
    typed: Type, words: list[object], more: list[str], says: str
) -> None:
    said = typed(*words, *more)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"dovetail: {says}")
    assert said.err.count("\n") == 1
