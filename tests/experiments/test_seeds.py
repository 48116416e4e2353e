"""How much of a difference between policies is chance; and how each user has fared."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import dovetail as dt
from dovetail.models.failures import NodeFailures
from typed_here import Type, typing

ROOT = Path(__file__).parents[2]
JOBS = str(ROOT / "examples" / "jobs.csv")
WORDS = ("--cluster", "2x8")


@pytest.fixture
def type_(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    return typing(monkeypatch, capsys)


def test_seeds_give_the_same_intervals_as_from_python(type_: Type) -> None:
    said = type_("compare", JOBS, *WORDS, "--policies", "fifo,srtf", "--seeds", 4, "--json")
    rows = {row["policy"]: row for row in json.loads(said.out)}
    found = dt.compare(dt.read_trace(JOBS), "2x8", ["fifo", "srtf"], seeds=4)
    for policy in ("fifo", "srtf"):
        own = found.figure(policy, "mean_jct_s")
        assert own.low < own.mean < own.high
        row = rows[policy]
        told = (row["mean_jct_s_low"], row["mean_jct_s"], row["mean_jct_s_high"])
        assert told == (own.low, own.mean, own.high)


def test_the_table_says_who_has_least_and_whether_that_may_be_chance(type_: Type) -> None:
    said = type_("compare", JOBS, *WORDS, "--policies", "fifo,srtf,las", "--seeds", 5)
    lines = said.out.splitlines()
    assert lines[0].split()[:3] == ["policy", "mean", "JCT"]
    assert all("±" in line for line in lines[2:5])
    assert max(map(len, lines)) <= 100
    assert "least mean JCT: srtf; seed by seed" in lines
    assert any(line.startswith("  las has ") and "may be chance" in line for line in lines)


def test_what_is_about_one_run_is_refused_beside_seeds(type_: Type, tmp_path: Path) -> None:
    for option in (("--by", "user"), ("--csv", "all"), ("--out", tmp_path), ("--objective", "jct")):
        words = ("--policies", "fifo,srtf", "--seeds", 2, *option)
        said = type_("compare", JOBS, *WORDS, *words)
        assert (said.code, said.out) == (2, "")
        assert f"{option[0]} is about one run of each policy; leave out --seeds" in said.err


def test_a_policy_that_fails_is_said_beside_those_that_do_not(type_: Type) -> None:
    words = ("--policies", "fifo,mlf:boundaries=x", "--seeds", 2)
    said = type_("compare", JOBS, *WORDS, *words)
    assert said.code != 0
    assert "Traceback" not in said.err


def test_nodes_have_the_same_luck_under_every_policy_and_in_every_run() -> None:
    trace = dt.read_trace(JOBS)
    luck = NodeFailures(mtbf_s=7200.0, repair_s=600.0)
    first, second = [
        dt.simulate(trace, "2x8", "fifo", failures=luck).figures["mean_jct_s"] for _ in range(2)
    ]
    assert first == second
    assert first != dt.simulate(trace, "2x8", "fifo").figures["mean_jct_s"]


def test_each_user_is_told_slow_down_fairness_and_gpu_hours(type_: Type) -> None:
    words = ("--policies", "fifo,srtf", "--by", "user")
    text = type_("compare", JOBS, *WORDS, *words).out
    assert "fifo, by user  jobs  done  mean JCT   wait  slow-down  fairness  GPU-hours" in text
    rows = json.loads(type_("compare", JOBS, *WORDS, *words, "--json").out)
    users = {row["user"]: row for row in rows[1]["by_user"]}
    assert users["bob"]["gpu_hours"] == 80.0
    assert users["ann"]["mean_slowdown"] == 1.0
    tenants = json.loads(
        type_("simulate", JOBS, *WORDS, "--policy", "srtf", "--by", "tenant", "--json").out
    )
    assert {row["tenant"] for row in tenants["by_tenant"]} == {"language", "vision"}


def test_any_column_is_printed_as_csv(type_: Type) -> None:
    words = ("--policies", "fifo,srtf", "--csv", "job_id,slowdown,fairness")
    rows = list(csv.DictReader(io.StringIO(type_("compare", JOBS, *WORDS, *words).out)))
    assert list(rows[0]) == ["policy", "job_id", "slowdown", "fairness"]
    assert len(rows) == 20
    one = type_("simulate", JOBS, *WORDS, "--policy", "fifo", "--csv", "all").out
    assert one.splitlines()[0].endswith("gpu_seconds,slowdown,fairness")
    said = type_("simulate", JOBS, *WORDS, "--policy", "fifo", "--csv", "job")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "there is no column 'job'; there are job_id, " in said.err


def test_the_file_of_jobs_has_slow_down_and_fairness(type_: Type, tmp_path: Path) -> None:
    type_("simulate", JOBS, *WORDS, "--policy", "fifo", "--out", tmp_path)
    assert (tmp_path / "jobs.csv").read_text().splitlines()[0].endswith(",slowdown,fairness")


def _with_one_too_large(folder: Path, *others: str) -> Path:
    trace = folder / "large.csv"
    trace.write_text("\n".join(["submit_s,duration_s,gpus", "0,5000,16", *others]) + "\n")
    return trace


def test_refused_jobs_are_told_beside_means_over_seeds(type_: Type, tmp_path: Path) -> None:
    trace = _with_one_too_large(tmp_path, "0,100,1", "5,200,1")
    words = (trace, "--cluster", "1x8", "--policies", "fifo,srtf", "--seeds", 3)
    said = type_("compare", *words)
    found = dt.compare(str(trace), "1x8", ["fifo", "srtf"], seeds=3)
    refused = sum(int(run["refused"]) for run in found.runs["fifo"])
    for policy in ("fifo", "srtf"):
        line = f"{policy}: of 9 jobs in 3 seeds {refused} refused"
        assert line in said.out.splitlines()
        assert line in str(found).splitlines()
    assert "job '1' can never start: it needs 16 GPUs" in said.out
    assert "job '1' can never start: it needs 16 GPUs" in type_("compare", *words, "--json").err


def test_the_mean_of_no_job_is_not_shown_as_zero(type_: Type, tmp_path: Path) -> None:
    trace = _with_one_too_large(tmp_path)
    words = (trace, "--cluster", "1x8", "--policies", "fifo,srtf")
    for more in ((), ("--seeds", 3)):
        said = type_("compare", *words, *more).out
        (row,) = [line for line in said.splitlines() if line.startswith("fifo ")]
        assert row.split()[1 if more else 2] == "-"
        assert "least mean JCT" not in said
    rows = json.loads(type_("compare", *words, "--seeds", 3, "--json").out)
    assert {(row["mean_jct_s"], row["mean_jct_s_low"]) for row in rows} == {(None, None)}
    found = dt.compare(str(trace), "1x8", ["fifo", "srtf"], seeds=3)
    assert str(found.figure("fifo", "mean_jct_s")) == "-"


def test_a_seed_without_a_finished_job_is_left_out_of_the_mean(tmp_path: Path) -> None:
    trace = _with_one_too_large(tmp_path, "0,100,1")
    found = dt.compare(str(trace), "1x8", ["fifo"], seeds=12)
    assert 0 in {run["finished"] for run in found.runs["fifo"]}
    own = found.figure("fifo", "mean_jct_s")
    assert (own.low, own.mean, own.high) == (100.0, 100.0, 100.0)
