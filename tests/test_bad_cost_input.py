"""What is wrong with jobs, nodes and prices is one clear line, whichever way it comes in.

The ways: a trace of one's own, a folder in the form of ANDREAS, a request to plan, a job handed in,
a job asked about. The mistakes: no setting that can run, a negative time, a deadline in the past, a
GPU kind that is not there, an hour without a price. A solver that runs out of time says so.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from typed_box import Box, box  # noqa: F401
from typed_here import Said, Type, typing

CLUSTER = """
[[nodes]]
name = "big"
gpus = 4
kind = "A100"
idle_watts = 300
gpu_watts = 350

[[nodes]]
name = "small"
gpus = 2
kind = "T4"
idle_watts = 100
gpu_watts = 70
"""


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    return typing(monkeypatch, capsys)


def check_one_line(said: Said, says: str) -> None:
    assert said.code == 1
    assert said.out == ""
    assert said.err.startswith("dovetail: ")
    assert said.err.count("\n") == 1
    assert says in said.err


# ------------------------------------------------------------------------------ a trace of one's own


def own_trace(tmp_path: Path, columns: str, row: str) -> list[object]:
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    trace = tmp_path / "jobs.csv"
    trace.write_text(f"job_id,submit_s,duration_s,gpus{columns}\n{row}\n")
    return [trace, "--cluster", tmp_path / "cluster.toml"]


@pytest.mark.parametrize("command", ["simulate", "compare"])
@pytest.mark.parametrize(
    ("columns", "row", "says"),
    [
        ("", "j,0,-10,1", ":2: job 'j': column 'duration_s': '-10' is negative"),
        ("", "j,-5,10,1", ":2: job 'j': column 'submit_s': '-5' is negative"),
        (",estimate_s", "j,0,10,1,-9", ":2: job 'j': column 'estimate_s': '-9' is negative"),
        (",deadline_s", "j,50,10,1,20", ":2: job 'j': it is due at 20, before it comes at 50"),
        (",deadline_s", "j,50,10,1,-20", ":2: job 'j': column 'deadline_s': '-20' is negative"),
    ],
)
def test_a_bad_job_in_a_trace_is_named(
    typed: Type, tmp_path: Path, command: str, columns: str, row: str, says: str
) -> None:
    words = own_trace(tmp_path, columns, row)
    policy = ("--policy", "fifo") if command == "simulate" else ("--policies", "fifo,frugal")
    check_one_line(typed(command, *words, *policy), says)


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("policy", ["fifo", "frugal", "andreas-greedy"])
@pytest.mark.parametrize(
    ("columns", "row", "says"),
    [
        ("", "j,0,10,9", "job 'j' can never start: it needs 9 GPUs, and the largest possible"),
        (
            ",kinds",
            "j,0,10,1,H100",
            "job 'j' can never start: it needs 1 GPU of kind H100, and there is none of that kind; "
            "there is A100, T4",
        ),
    ],
)
def test_a_job_that_nothing_can_run_is_refused_by_name_and_the_others_are_run(
    typed: Type, tmp_path: Path, columns: str, row: str, says: str, policy: str, as_json: bool
) -> None:
    words = own_trace(tmp_path, columns, f"{row}\nok,0,10,1{',' * columns.count(',')}")
    said = typed("simulate", *words, "--policy", policy, *(["--json"] if as_json else []))
    assert said.code == 0
    lines = (said.err if as_json else said.out).splitlines()
    assert len([line for line in lines if line.startswith(says)]) == 1
    if as_json:
        summary = json.loads(said.out)
        assert (summary["finished"], summary["refused"]) == (1, 1)


@pytest.mark.parametrize("policy", ["fifo", "frugal"])
@pytest.mark.parametrize(
    ("prices", "says"),
    [
        ("hour,price\n0,0.1\n2,0.3\n", "has no value for hour 1; give one for every hour"),
        ("hour,price\n0,0.1\n1,\n", "give one for every hour"),
        ("hour,price\n0,0.1\n1,cheap\n", "cheap"),
        ("hour,price\n", "there is no price in it; give one for every hour"),
        ("hour,price\n0,0.1\n1,0.2\n", "has 2 hours"),
    ],
)
def test_an_hour_without_a_price_is_named(
    typed: Type, tmp_path: Path, prices: str, says: str, policy: str
) -> None:
    words = own_trace(tmp_path, "", "j,0,9000,1")
    (tmp_path / "prices.csv").write_text(prices)
    said = typed("simulate", *words, "--policy", policy, "--price", tmp_path / "prices.csv")
    check_one_line(said, says)


def test_the_node_that_needs_a_price_beyond_the_table_is_named(typed: Type, tmp_path: Path) -> None:
    words = own_trace(tmp_path, "", "j,0,9000,1")
    (tmp_path / "prices.csv").write_text("hour,price\n0,0.1\n1,0.2\n")
    for option in ("--price", "--carbon"):
        said = typed("simulate", *words, "--policy", "fifo", option, tmp_path / "prices.csv")
        check_one_line(said, "node 'big0' is in use until hour 2, and the ")


# ------------------------------------------------------------------------- a folder as of ANDREAS


def folder(tmp_path: Path, jobs: str, times: str, nodes: str, rates: str) -> Path:
    made = tmp_path / "instance"
    made.mkdir()
    for name, header, rows in (
        ("Lof_Selectjobs.csv", "ID,SubmissionTime,Deadline,TardinessWeight", jobs),
        ("SelectJobs_times.csv", "ID,GPUtype,nGPUs,ExecutionTime", times),
        ("tNodes.csv", "ID,GPUtype,nGPUs,cost", nodes),
        ("GPU-costs.csv", "GPUtype,nGPUs,cost", rates),
    ):
        (made / name).write_text(f"{header}\n{rows}\n")
    return made


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"times": "j,A,4,50"}, "job 'j' can run on no node here; SelectJobs_times.csv has 4 A"),
        ({"times": "x,A,1,50"}, "job 'j' can run on no node here; SelectJobs_times.csv has none"),
        ({"times": "j,B,1,50"}, "job 'j' can run on no node here; SelectJobs_times.csv has 1 B"),
        (
            {"times": "j,A,1,-50"},
            "job 'j': column 'ExecutionTime': '-50' is negative",
        ),
        ({"times": "j,A,1,0"}, "job 'j' has an option of 1 GPUs of kind 'A' for 0 s; give at"),
        (
            {"jobs": "j,-5,100,0.1"},
            "job 'j': column 'SubmissionTime': '-5' is negative",
        ),
        ({"jobs": "j,50,20,0.1"}, "Lof_Selectjobs.csv:2: job 'j' is due at 20, before it comes at"),
        (
            {"jobs": "j,0,100,-1"},
            "job 'j': column 'TardinessWeight': '-1' is negative",
        ),
        ({"nodes": "n,H100,2,0"}, "tNodes.csv:2: node 'n' has 2 GPUs of kind 'H100', and GPU-cost"),
        ({"nodes": "n,A,2,-1"}, "tNodes.csv:2: node 'n': column 'cost': '-1' is negative"),
        ({"rates": "A,2,0.2"}, "kind 'A' has no cost for 1 busy GPUs; add a row"),
    ],
)
@pytest.mark.parametrize(
    "words",
    [["simulate", "--policy", "frugal"], ["compare", "--policies", "fifo"], ["bound", "--simple"]],
)
def test_a_bad_job_or_node_of_a_folder_is_named(
    typed: Type, tmp_path: Path, changed: dict[str, str], says: str, words: list[str]
) -> None:
    good = {"jobs": "j,0,100,0.1", "times": "j,A,1,50", "nodes": "n,A,2,0"}
    made = folder(tmp_path, **{**good, "rates": "A,1,0.1\nA,2,0.2", **changed})
    check_one_line(typed(words[0], made, *words[1:]), says)


@pytest.mark.parametrize("policy", ["fifo", "frugal", "andreas-greedy"])
def test_a_folder_wants_every_hour_of_a_price_table_too(
    typed: Type, tmp_path: Path, policy: str
) -> None:
    made = folder(tmp_path, "j,0,100,0.1", "j,A,1,9000", "n,A,2,0", "A,1,0.1\nA,2,0.2")
    prices = tmp_path / "prices.csv"
    prices.write_text("hour,price\n0,0.1\n2,0.2\n")
    said = typed("simulate", made, "--policy", policy, "--price", prices)
    check_one_line(said, "has no value for hour 1; give one for every hour")
    prices.write_text("hour,price\n0,0.1\n1,0.2\n")
    said = typed("simulate", made, "--policy", policy, "--price", prices)
    check_one_line(said, "has 2 hours")


# -------------------------------------------------------------------------------- numbers too large

TOO_LARGE = ["1e308", "1e13", "inf", "nan"]


def check_too_large(said: Said, *says: str) -> None:
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith("dovetail: ")
    assert all(part in said.err for part in says), said.err


@pytest.mark.parametrize("number", TOO_LARGE)
@pytest.mark.parametrize("option", ["--price", "--carbon", "--switch-on-cost", "--move-cost"])
def test_a_price_too_large_to_count_with_is_refused(
    typed: Type, tmp_path: Path, option: str, number: str
) -> None:
    words = own_trace(tmp_path, "", "j,0,3600,1")
    said = typed("simulate", *words, "--policy", "fifo", "--json", option, number)
    check_too_large(said, option.strip("-").partition("-")[0])


@pytest.mark.parametrize("number", TOO_LARGE)
def test_an_hour_whose_price_is_too_large_is_refused(
    typed: Type, tmp_path: Path, number: str
) -> None:
    words = own_trace(tmp_path, "", "j,0,3600,1")
    (tmp_path / "prices.csv").write_text(f"hour,price\n0,0.1\n1,{number}\n")
    said = typed("simulate", *words, "--policy", "fifo", "--price", tmp_path / "prices.csv")
    check_too_large(said, "prices.csv:3", number)


@pytest.mark.parametrize("number", TOO_LARGE)
@pytest.mark.parametrize(
    "text",
    ["price = {}", "carbon = {}", "move = {}", "[watts]\nT4 = [{}]", "[per_hour]\nT4 = [{}]"],
)
def test_a_costs_file_with_too_large_a_number_is_refused(
    typed: Type, tmp_path: Path, text: str, number: str
) -> None:
    words = own_trace(tmp_path, "", "j,0,3600,1")
    (tmp_path / "costs.toml").write_text(text.format(number))
    said = typed("simulate", *words, "--policy", "fifo", "--costs", tmp_path / "costs.toml")
    check_too_large(said, "costs.toml: ")


@pytest.mark.parametrize("number", TOO_LARGE)
@pytest.mark.parametrize("name", ["idle_watts", "gpu_watts"])
def test_a_node_that_draws_too_much_is_refused(
    typed: Type, tmp_path: Path, name: str, number: str
) -> None:
    words = own_trace(tmp_path, "", "j,0,3600,1")
    (tmp_path / "cluster.toml").write_text(f"[[nodes]]\ngpus = 4\n{name} = {number}\n")
    said = typed("simulate", *words, "--policy", "fifo")
    check_too_large(said, "cluster.toml", name)


@pytest.mark.parametrize("number", TOO_LARGE)
def test_too_large_a_cost_of_lateness_is_refused(typed: Type, tmp_path: Path, number: str) -> None:
    words = own_trace(tmp_path, ",deadline_s,late_cost_per_s", f"j,0,3600,1,10,{number}")
    said = typed("simulate", *words, "--policy", "fifo")
    check_too_large(said, "job 'j'", "late_cost_per_s")
    made = folder(tmp_path, f"j,0,100,{number}", "j,A,1,50", "n,A,1,0", "A,1,0.1")
    check_too_large(typed("simulate", made, "--policy", "fifo"), "job 'j'", "TardinessWeight")


# -------------------------------------------------------------------------------- a request to plan


def request(**changed: Any) -> dict[str, Any]:
    job = {
        "SubmissionTime": "Tue 21 Jul 2020, 17.00.00",
        "Deadline": "Tue 21 Jul 2020, 19.00.00",
        "Priority": 3,
        "Epochs": "360",
        "ProfilingData": {"V100": {"1": 10.0, "2": 8.0}},
    }
    node = {"GPUtype": "V100", "free_nGPUs": 2, "total_nGPUs": 2, "cost": 0.0}
    return {
        "jobs": {name: {**job, **changed.get("job", {})} for name in ("a", "b")},
        "nodes": {"n1": {**node, **changed.get("node", {})}},
        "GPUcosts": changed.get("rates", {"V100": {"1": 1.0, "2": 1.5}}),
        "currentTime": "Tue 21 Jul 2020, 18.00.00",
    }


@pytest.mark.parametrize(
    ("changed", "code", "says"),
    [
        (
            {"job": {"ProfilingData": {"V100": {"4": 3.0}}}},
            454,
            "job 'a' has ProfilingData for no node of the request, only for 4 V100",
        ),
        (
            {"job": {"ProfilingData": {"T4": {"1": 3.0}}}},
            454,
            "job 'a' has ProfilingData for no node of the request, only for 1 T4",
        ),
        (
            {"job": {"ProfilingData": {"V100": {"1": -3.0}}}},
            400,
            "the time of job 'a' on 1 V100 is -3; give 0 or more",
        ),
        (
            {"job": {"ProfilingData": {"V100": {"1": 0}}}},
            454,
            "job 'a' takes 0 s on 1 V100; give more than 0 s",
        ),
        ({"job": {"Epochs": "-3"}}, 400, "Epochs of job 'a' is -3; give 0 or more"),
        (
            {"job": {"SubmissionTime": "Tue 21 Jul 2020, 20.00.00"}},
            400,
            "job 'a' is submitted after the currentTime",
        ),
        ({"rates": {"T4": {"1": 1.0}}}, 484, "node 'n1' has 2 GPUs"),
        ({"node": {"free_nGPUs": -1}}, 400, "free_nGPUs of node 'n1' is -1; give 0 or more"),
    ],
)
def test_a_bad_job_or_node_of_a_request_is_named_and_has_its_code(
    typed: Type, tmp_path: Path, changed: dict[str, Any], code: int, says: str
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request(**changed)))
    said = typed("plan", file)
    assert (said.code, json.loads(said.out)) == (1, {"ERROR CODE": code})
    assert said.err.startswith("dovetail: ")
    assert said.err.count("\n") == 1
    assert says in said.err


@pytest.mark.parametrize("text", ["[" * 5000, '{"a":' * 5000])
def test_a_request_that_is_nested_too_deeply_is_one_line(
    typed: Type, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "deep.json"
    file.write_text(text)
    check_one_line(typed("plan", file), "deep.json: its JSON is nested too deeply")


def test_a_deadline_in_the_past_is_planned_with_and_told(typed: Type, tmp_path: Path) -> None:
    """As the authors' service does: what is late already is to be run all the more."""
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request(job={"Deadline": "Tue 21 Jul 2020, 17.30.00"})))
    said = typed("plan", file)
    assert said.code == 0
    assert min(job["expected_tardiness"] for job in json.loads(said.out)["jobs"].values()) > 1
    assert "note: job 'a' is past its deadline already\n" in said.err


# ----------------------------------------------------------------------- handed in, and asked about


@pytest.mark.parametrize("command", ["submit", "whatif"])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--gpus", 9],
            "job 'true' could never run here: it needs 9 GPUs on one node, and the largest",
        ),
        (
            ["--kind", "H100"],
            "job 'true' could never run here: it needs 1 GPU of kind H100, and there is none of "
            "that kind; there is cpu",
        ),
        (["--deadline", "2020-01-01 12:00"], "deadline: 2020-01-01T12:00:00"),
        (["--deadline", "+-2h"], "deadline: '+-2h' is not a number of seconds"),
        (["--estimate", "-5"], "estimate: '-5' is negative"),
        (["--time-limit", "-5"], "time_limit: '-5' is negative"),
    ],
)
def test_a_bad_job_is_neither_taken_on_nor_answered_for(
    box: Box,  # noqa: F811
    command: str,
    options: list[object],
    says: str,
) -> None:
    said = box(command, *options, "--", "true")
    check_one_line(Said(*said), says)
    assert box.json("queue") == []


# ---------------------------------------------------------------------------------- out of time


def test_a_random_search_that_runs_out_of_time_tells_the_best_so_far(
    typed: Type, tmp_path: Path
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request()))
    for policy in ("andreas-random-greedy", "andreas-local-search", "andreas-path-relinking"):
        whole = typed("plan", file, "--policy", policy)
        assert "note: the best of 4 passes\n" in whole.err
        hurried = typed("plan", file, "--policy", f"{policy}:limit_s=1e-9")
        assert (whole.code, hurried.code) == (0, 0)
        assert "note: time is up after 1 of 4 passes; the best so far\n" in hurried.err
        assert json.loads(hurried.out)["jobs"].keys() == {"a", "b"}
    check_one_line(
        typed("plan", file, "--policy", "andreas-random-greedy:limit_s=-1"),
        "limit_s=-1: give a positive number of seconds",
    )


def test_a_linear_program_that_runs_out_of_time_says_so(typed: Type, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    jobs = "\n".join(f"j{i},{100 * i},{3000 + 700 * i},0.01" for i in range(12))
    times = "\n".join(
        f"j{i},A,{n},{(2000 + 300 * i) / n**0.8:.0f}" for i in range(12) for n in (1, 2)
    )
    made = folder(tmp_path, jobs, times, "n,A,2,0.05\nm,A,2,0.05", "A,1,0.1\nA,2,0.17")
    said = typed("bound", made, "--optimum", "--limit", 1e-6)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("every job in its thriftiest way  at least ")
    assert all("time is up" in line for line in lines[1:3])
    figures = json.loads(typed("bound", made, "--optimum", "--limit", 1e-6, "--json").out)
    assert figures["proven"] is False
    assert figures["optimum"] is None
    assert 0 < figures["simple_bound"] <= figures["best_known"]
    known = f"the best known, by frugal +{figures['best_known']:.5g}"
    assert re.fullmatch(known + r", [\d.]+ % above the bound", lines[3])
    check_one_line(typed("bound", made, "--limit", 0), "--limit 0: give a positive number of")
