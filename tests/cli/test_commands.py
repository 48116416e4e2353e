"""`dovetail simulate` and `dovetail compare`, as a user types them."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dovetail.catalogue import Catalogue
from dovetail.core import journal
from dovetail.core.entries import Action
from dovetail.core.state import State
from dovetail.core.view import View
from dovetail.policies.catalogue import CATALOGUE
from processor_time import processor_s
from typed_here import Said, Type, typing
from waiting import until

SUMMARY_KEYS = [
    *("policy", "jobs", "finished", "failed", "cancelled", "refused"),
    *("mean_jct_s", "p50_jct_s", "p90_jct_s", "p99_jct_s", "mean_wait_s", "makespan_s"),
    *("gpu_utilisation", "gpu_seconds_used", "gpu_seconds_lost"),
    *("preemptions", "resizes", "peak_suspended_jobs"),
    *("energy_cost", "tardiness_cost", "move_cost", "total_cost", "tardiness_s", "deadline_misses"),
    *("energy_kwh", "co2_kg", "migrations", "switch_ons"),
    *("cpu_seconds", "jobs_per_cpu_second"),
]
JOB_COLUMNS = (
    "job_id,user,tenant,gpus,submit_s,start_s,end_s,wait_s,jct_s,preemptions,outcome,"
    "deadline_s,late_s,resizes,gpu_seconds,slowdown,fairness"
)
JOBS = """job_id,submit_s,duration_s,gpus,user,tenant,estimate_s
long,0,100,2,ann,a,120
short,10,10,2,bob,b,10
wide,20,30,4,ann,a,30
"""


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    return typing(monkeypatch, capsys)


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS)
    return path


def summary_of(said: Said) -> dict[str, Any]:
    assert said.code == 0, said.err
    summary: dict[str, Any] = json.loads(said.out)
    return summary


# ------------------------------------------------------------------------------------ what is printed


def test_simulate_prints_one_json_object_and_nothing_else(typed: Type, jobs: Path) -> None:
    said = typed("simulate", jobs, "--cluster", "1x4", "--policy", "srtf", "--json")
    summary = summary_of(said)
    assert list(summary) == SUMMARY_KEYS
    assert said.err == ""
    assert said.out.count("\n") == 1
    assert (summary["policy"], summary["jobs"], summary["finished"]) == ("srtf", 3, 3)
    assert summary["mean_jct_s"] == pytest.approx((130 + 10 + 30) / 3)
    assert summary["makespan_s"] == 130
    assert summary["gpu_seconds_used"] == 340
    assert summary["gpu_utilisation"] == pytest.approx(340 / (4 * 130))
    assert (summary["preemptions"], summary["peak_suspended_jobs"]) == (1, 1)


def test_compare_prints_a_json_list_in_the_order_asked_for(typed: Type, jobs: Path) -> None:
    policies = "srtf,fifo,las:quantum=5,tiresias:queues=2:limits=60"
    said = typed("compare", jobs, "--cluster", "1x4", "--policies", policies, "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    assert [one["policy"] for one in found] == policies.split(",")
    assert all(list(one) == SUMMARY_KEYS for one in found)


def test_compare_with_one_policy_still_prints_a_list(typed: Type, jobs: Path) -> None:
    said = typed("compare", jobs, "--cluster", "1x4", "--policies", "fifo", "--json")
    assert [one["policy"] for one in json.loads(said.out)] == ["fifo"]


def test_compare_says_the_same_as_simulate(typed: Type, jobs: Path) -> None:
    def figures(one: dict[str, float]) -> dict[str, float]:
        return {key: value for key, value in one.items() if "cpu" not in key}

    both = typed("compare", jobs, "--cluster", "1x4", "--policies", "fifo,srtf", "--json")
    for together in json.loads(both.out):
        words = ("--cluster", "1x4", "--policy", together["policy"], "--json")
        assert figures(summary_of(typed("simulate", jobs, *words))) == figures(together)


def test_the_table_fits_a_hundred_columns_however_long_a_policy_is(typed: Type, jobs: Path) -> None:
    limits = "/".join(str(10 * i) for i in range(1, 30))
    policies = f"fifo,srtf,tiresias:queues=30:limits={limits}"
    said = typed("compare", jobs, "--cluster", "1x4", "--policies", policies)
    assert said.code == 0
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 100
    assert "mean JCT" in lines[0]
    assert lines[4].startswith("tiresias:queues=30:limits=10/20/30/")


def test_policies_with_long_names_can_be_told_apart(typed: Type, jobs: Path) -> None:
    long = "tiresias:queues=4:limits=10/20/{}:promote=0:late=false:place=consolidated"
    policies = [long.format(limit) for limit in (30, 40)]
    said = typed("compare", jobs, "--cluster", "1x4", "--policies", ",".join([*policies, "fifo"]))
    lines = said.out.splitlines()
    assert [line for line in lines if line.startswith("tiresias")] == policies
    assert [len(line.split()) for line in lines[2:]] == [1, 13, 1, 13, 14]


def test_the_table_fits_a_hundred_columns_however_long_jobs_run(
    typed: Type, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("submit_s,duration_s,gpus\n0,999999999999,1\n0,888888888888,1\n")
    policies = "fifo,tiresias:queues=2:limits=5:late=false"
    said = typed("compare", jobs, "--cluster", "1x1", "--policies", policies)
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 100


def test_the_table_says_who_knew_the_durations(typed: Type, jobs: Path) -> None:
    policies = "fifo,easy,srtf,sjf:predictor=history-mean,gittins,gittins:services=5/50"
    said = typed("compare", jobs, "--cluster", "1x4", "--policies", policies)
    assert said.out.splitlines()[-3:] == [
        "durations: oracle (the truth) for easy, srtf",
        "durations: history-mean (what similar jobs took before) for sjf:predictor=history-mean",
        "service: the distribution over the whole trace for gittins",
    ]
    assert "durations" not in typed("simulate", jobs, "--cluster", "1x4", "--policy", "fifo").out


def test_the_table_says_which_jobs_did_not_finish(typed: Type, jobs: Path) -> None:
    jobs.write_text(JOBS + "huge,1,1,64,eve,a,\n")
    said = typed("simulate", jobs, "--cluster", "1x4", "--policy", "fifo")
    assert said.code == 0
    assert "fifo: of 4 jobs 1 refused" in said.out
    assert "more" not in said.out


def test_refusals_beyond_three_are_counted(typed: Type, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("submit_s,duration_s,gpus\n" + "0,5,64\n" * 5)
    said = typed("simulate", jobs, "--cluster", "1x4", "--policy", "fifo")
    assert said.out.count("can never start") == 3
    assert said.out.splitlines()[-1] == "and 2 more"


def test_one_job_is_not_called_jobs(typed: Type, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("submit_s,duration_s,gpus\n0,5,64\n")
    said = typed("simulate", jobs, "--cluster", "1x4", "--policy", "fifo")
    assert "fifo: of 1 job 1 refused" in said.out


def test_the_same_words_give_the_same_figures(typed: Type, jobs: Path, tmp_path: Path) -> None:
    for name in "xy":
        out = tmp_path / name
        typed("simulate", jobs, "--cluster", "1x4", "--policy", "srtf", "--out", out)
    for file in ("journal.jsonl.gz", "jobs.csv"):
        assert (tmp_path / "x" / file).read_bytes() == (tmp_path / "y" / file).read_bytes()


# ------------------------------------------------------------------------------------ what is written


def test_out_holds_summary_jobs_journal_and_report(typed: Type, jobs: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "results"
    words = ("--cluster", "1x4", "--policy", "srtf", "--out", out, "--json")
    said = typed("simulate", jobs, *words)
    assert {file.name for file in out.iterdir()} == {
        "summary.json", "jobs.csv", "journal.jsonl.gz", "report.html",
    }  # fmt: skip
    assert json.loads((out / "summary.json").read_text()) == summary_of(said)
    with open(out / "jobs.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert ",".join(header) == JOB_COLUMNS
    slowdowns = {row[0]: float(row[-2]) for row in rows}
    assert slowdowns == {"long": 1.3, "short": 1.0, "wide": 1.0}  # completion over the job's length
    assert all(float(row[-1]) > 0 for row in rows)  # fairness: see tests/experiments
    assert sorted(row[:-2] for row in rows) == [
        [
            "long",
            "ann",
            "a",
            "2",
            "0.0",
            "0.0",
            "130.0",
            "30.0",
            "130.0",
            "1",
            "finished",
            "",
            "",
            "0",
            "200.0",
        ],
        [
            "short",
            "bob",
            "b",
            "2",
            "10.0",
            "10.0",
            "20.0",
            "0.0",
            "10.0",
            "0",
            "finished",
            "",
            "",
            "0",
            "20.0",
        ],
        [
            "wide",
            "ann",
            "a",
            "4",
            "20.0",
            "20.0",
            "50.0",
            "0.0",
            "30.0",
            "0",
            "finished",
            "",
            "",
            "0",
            "120.0",
        ],
    ]
    assert (out / "report.html").read_text().lower().startswith("<!doctype html>")


def test_the_jobs_written_say_what_was_due_when_and_how_late_it_was(
    typed: Type, tmp_path: Path
) -> None:
    trace, out = tmp_path / "own.csv", tmp_path / "out"
    trace.write_text(
        "job_id,submit_s,duration_s,deadline_s\nlate,0,100,60\nearly,0,100,160\nfree,0,100,\n"
    )
    words = ("--cluster", "1x4", "--policy", "fifo", "--out", out, "--json")
    assert summary_of(typed("simulate", trace, *words))["tardiness_s"] == 40
    with open(out / "jobs.csv", newline="") as file:
        rows = {row["job_id"]: (row["deadline_s"], row["late_s"]) for row in csv.DictReader(file)}
    assert rows == {"late": ("60.0", "40.0"), "early": ("160.0", "0.0"), "free": ("", "")}


def test_the_written_journal_replays_to_the_same_end(
    typed: Type, jobs: Path, tmp_path: Path
) -> None:
    words = ("--cluster", "1x4", "--policy", "srtf", "--out", tmp_path / "out")
    assert typed("simulate", jobs, *words).code == 0
    state = State()
    with gzip.open(tmp_path / "out" / "journal.jsonl.gz", "rt") as lines:
        for entry in journal.read(lines):
            state.record(entry)
    assert state.now == 130
    assert not state.tracks
    assert {job: phase.value for job, phase in state.ended.items()} == dict.fromkeys(
        ("long", "short", "wide"), "finished"
    )


def test_compare_writes_a_folder_for_each_policy(typed: Type, jobs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    policies = "fifo,tiresias:queues=3:limits=10/20"
    said = typed("compare", jobs, "--cluster", "1x4", "--policies", policies, "--out", out)
    assert said.code == 0
    assert f"Report: {out / 'report.html'}" in said.out
    assert {file.name for file in out.iterdir()} == {
        "fifo", "tiresias_queues=3_limits=10-20", "summary.json", "report.html",
    }  # fmt: skip
    for folder in ("fifo", "tiresias_queues=3_limits=10-20"):
        names = {file.name for file in (out / folder).iterdir()}
        assert names == {"summary.json", "jobs.csv", "journal.jsonl.gz"}
    summaries = json.loads((out / "summary.json").read_text())
    assert [one["policy"] for one in summaries] == policies.split(",")


def test_compare_with_one_policy_writes_what_compare_writes(
    typed: Type, jobs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    said = typed("compare", jobs, "--cluster", "1x4", "--policies", "fifo", "--out", out)
    assert said.code == 0
    assert {file.name for file in out.iterdir()} == {"fifo", "summary.json", "report.html"}
    names = {file.name for file in (out / "fifo").iterdir()}
    assert names == {"summary.json", "jobs.csv", "journal.jsonl.gz"}


# ------------------------------------------------------------------------------------------- options


def test_placement_matters_where_a_gang_over_nodes_is_slower(typed: Type, jobs: Path) -> None:
    words = ("--cluster", "4x4", "--policy", "fifo", "--across-nodes", "0.5", "--json")
    near = summary_of(typed("simulate", jobs, *words, "--placement", "consolidated"))
    far = summary_of(typed("simulate", jobs, *words, "--placement", "spread"))
    assert near["makespan_s"] == 100
    assert far["makespan_s"] == 200


def test_racks_slow_a_gang_down_further(typed: Type, jobs: Path, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.toml"
    cluster.write_text("[[nodes]]\ncount = 4\ngpus = 4\nnodes_per_rack = 1\n")
    words = ("--cluster", cluster, "--policy", "fifo", "--placement", "spread", "--json")
    slow = typed("simulate", jobs, *words, "--across-nodes", "0.5", "--across-racks", "0.5")
    assert summary_of(slow)["makespan_s"] == 400


def test_kinds_of_gpu_have_their_speed(typed: Type, jobs: Path) -> None:
    words = ("--policy", "fifo", "--json", "--kind-speed")
    slow = summary_of(typed("simulate", jobs, "--cluster", "2x4:T4", *words, "T4=0.5"))
    fast = summary_of(typed("simulate", jobs, "--cluster", "2x4:V100", *words, "V100=2"))
    assert (slow["makespan_s"], fast["makespan_s"]) == (200, 50)


def test_a_kind_that_joins_later_may_have_a_speed(typed: Type, jobs: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text("at_s,node,event,gpus,kind\n80,n9,join,4,V100\n")
    words = ("--cluster", "1x4", "--policy", "fifo", "--node-events", events)
    assert typed("simulate", jobs, *words, "--kind-speed", "V100=2").code == 0


def test_the_interruption_cost_is_for_jobs_that_name_none(typed: Type, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("job_id,submit_s,duration_s,restore_s\nown,0,100,7\nshort,10,10,\n")
    words = ("--cluster", "1x1", "--policy", "srtf", "--interruption-cost", "30", "--json")
    assert summary_of(typed("simulate", jobs, *words))["gpu_seconds_lost"] == 7


@pytest.mark.parametrize(("cost", "ends", "lost"), [("5", 135, 10), ("2/5", 137, 18)])
def test_interruption_costs_restoring_or_saving_and_restoring(
    typed: Type, jobs: Path, cost: str, ends: float, lost: float
) -> None:
    """`long` (2 GPUs) gives way to `wide` (4 GPUs) at 20. Saving keeps `wide` from beginning."""
    words = ("--cluster", "1x4", "--policy", "srtf", "--interruption-cost", cost, "--json")
    summary = summary_of(typed("simulate", jobs, *words))
    assert summary["makespan_s"] == ends
    assert summary["gpu_seconds_lost"] == lost


@pytest.mark.parametrize("predictor", ["oracle", "noisy-oracle", "history-mean", "user-estimate"])
def test_every_predictor_can_be_chosen(typed: Type, jobs: Path, predictor: str) -> None:
    words = ("--cluster", "1x4", "--policy", "srtf", "--predictor", predictor, "--json")
    assert summary_of(typed("simulate", jobs, *words))["finished"] == 3


def test_the_seed_moves_noise_and_failures(typed: Type, jobs: Path) -> None:
    def figures(seed: int) -> tuple[float, float]:
        words = ("--cluster", "1x4", "--policy", "fifo", "--node-failures", "0.02/0.001", "--json")
        summary = summary_of(typed("simulate", jobs, *words, "--seed", seed))
        return summary["makespan_s"], summary["gpu_seconds_lost"]

    assert figures(1) == figures(1)
    assert len({figures(seed) for seed in range(4)}) > 1


def test_node_failures_interrupt_and_everything_still_finishes(typed: Type, jobs: Path) -> None:
    words = ("--cluster", "2x4", "--policy", "fifo", "--node-failures", "0.01/0.001", "--json")
    summary = summary_of(typed("simulate", jobs, *words))
    assert summary["finished"] == 3


def test_node_events_come_from_a_file(typed: Type, jobs: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text("at_s,node,event,gpus,kind\n50,n0,down,,\n80,n1,join,4,gpu\n")
    words = ("--cluster", "1x4", "--policy", "fifo", "--node-events", events, "--json")
    summary = summary_of(typed("simulate", jobs, *words))
    assert summary["finished"] == 3
    assert summary["makespan_s"] == 80 + 100 + 30
    assert summary["gpu_seconds_lost"] == 100


def test_tenants_get_nodes_of_their_own(typed: Type, jobs: Path, tmp_path: Path) -> None:
    tenants = tmp_path / "tenants.csv"
    tenants.write_text("tenant,nodes\na,1\nb,1\n")
    words = ("--cluster", "2x4", "--policy", "fifo", "--json")
    pooled = summary_of(typed("simulate", jobs, *words))
    split = summary_of(typed("simulate", jobs, *words, "--tenants", tenants))
    assert pooled["makespan_s"] == 100
    assert split["makespan_s"] == 130


def test_quotas_hold_a_tenant_back(typed: Type, jobs: Path, tmp_path: Path) -> None:
    quotas = tmp_path / "quotas.toml"
    quotas.write_text('[[tenants]]\nname = "a"\ngpu_quota = 4\n')
    words = ("--cluster", "2x4", "--policy", "fifo-skip", "--quotas", quotas, "--json")
    assert summary_of(typed("simulate", jobs, *words))["makespan_s"] == 130


def test_pairs_on_one_gpu_run_at_the_speed_given(typed: Type, tmp_path: Path) -> None:
    jobs = tmp_path / "pair.csv"
    jobs.write_text("submit_s,duration_s,gpus\n0,100,1\n1,100,1\n")
    words = ("--cluster", "1x1", "--policy", "gandiva", "--pair-speed", "1", "--json")
    assert summary_of(typed("simulate", jobs, *words))["makespan_s"] == pytest.approx(101)


def test_a_format_can_be_named_and_bad_rows_skipped(typed: Type, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("job_id,submit_s,duration_s,gpus\na,0,10,1\nb,x,10,1\n")
    words = ("--cluster", "1x4", "--policy", "fifo", "--json", "--format", "dovetail")
    said = typed("simulate", jobs, *words, "--skip-bad-rows")
    assert summary_of(said)["jobs"] == 1
    assert said.err.startswith("skipped 1 bad row; the first: ")
    assert typed("simulate", jobs, *words).code == 1


def test_pollux_workloads_take_their_durations_from_a_file(typed: Type, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("name,time,application,num_replicas\na,1,ncf,2\n")
    (tmp_path / "d.csv").write_text("application,seconds\nncf,30\n")
    words = ("--cluster", "1x4", "--policy", "fifo", "--durations", tmp_path / "d.csv", "--json")
    assert summary_of(typed("simulate", tmp_path / "w.csv", *words))["mean_jct_s"] == 30


# --------------------------------------------------------------------------------------- wrong inputs


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--policy srtff", "did you mean 'srtf'?"),
        ("--policy fifo:speed=3", "'fifo' has no parameter 'speed'; it has place"),
        ("--policy FIFO", "did you mean 'fifo'?"),
        ("--policy las:quantum", "give one: quantum=…"),
        ("--policy srtf:", "give a parameter after the colon"),
        ("--policy srtf:gain_s=1:gain_s=2", "'gain_s' is given twice"),
        ("--policy srtf:gain_s=-1", "gain_s=-1: give 0 or a positive number"),
        ("--policy srtf:gain_s=nan", "gain_s='nan' is not a number"),
        ("--policy srsf:gain_gpu_s=inf", "gain_gpu_s=inf: give 0 or a positive number"),
        ("--policy gittins:horizon=-1", "horizon=-1: give 0 or a positive number"),
        ("--policy gandiva:threshold=nan", "threshold='nan' is not a number"),
        ("--policy multilevel-feedback:levels=5000", "levels=5000: give 1 to 64"),
        ("--policy multilevel-feedback:factor=1e300", "lower one of them"),
        ("--policy multilevel-feedback:factor=inf", "factor=inf: give a number, 1 or more"),
        ("--policy tiresias:queues=100000000", "queues=100000000: give 1 to 64"),
        ("--policy tiresias:queues=0", "queues=0: give 1 to 64"),
        ("--policy tiresias:queues=1:limits=5", "1 queue needs no limits; got 5"),
        (
            "--policy tiresias:queues=2:limits=5/6",
            "need 1 positive limit, such as limits=3250; got",
        ),
        ("--policy tiresias:limits=-5/5", "positive, rising limits"),
        ("--policy las:quantum=often", "quantum='often' is not a number"),
        ("--policy las:quantum=-1", "give a positive number"),
        ("--policy las:quantum=nan", "quantum='nan' is not a number"),
        ("--policy tiresias:limits=9/5", "rising limits"),
        ("--policy tiresias:late=perhaps", "is not true or false"),
        ("--policy multilevel-feedback:levels=2.5", "is not a whole number"),
        ("--policy gittins:services=a/b", "is not a list of numbers"),
        ("--policy srtf:predictor=crystal-ball", "there is no predictor 'crystal-ball'"),
        ("--policy fifo:place=moon", "there is no placement 'moon'"),
        ("--policy fifo --cluster 8by8", "is not a cluster"),
        ("--policy fifo --cluster 0x0", "is not a cluster"),
        ("--policy fifo --cluster nowhere.toml", "nowhere.toml"),
        ("--policy fifo --interruption-cost much", "give seconds, such as 30 or 5/20"),
        ("--policy fifo --interruption-cost -3", "give seconds"),
        ("--policy fifo --interruption-cost ", "--interruption-cost has an empty value"),
        ("--policy fifo --tenants ", "--tenants has an empty value"),
        ("--policy fifo --kind-speed T4", "such as T4=0.4"),
        ("--policy fifo --kind-speed V100=2", "no node has GPUs of kind 'V100'; there is gpu"),
        ("--policy fifo --across-nodes 0", "give a positive speed"),
        ("--policy fifo --pair-speed -1", "give a positive speed"),
        ("--policy fifo --node-failures never", "such as 2000/4"),
        ("--policy fifo --node-events nowhere.csv", "nowhere.csv"),
        ("--policy fifo --tenants nowhere.csv", "nowhere.csv"),
        ("--policy fifo --quotas nowhere.toml", "nowhere.toml"),
        ("--policy fifo --durations nowhere.csv", "nowhere.csv"),
        ("--policy fifo --format philly", "there is no column 'timestamp'"),
    ],
)
def test_bad_input_is_told_in_one_line(typed: Type, jobs: Path, words: str, told: str) -> None:
    extra = [] if "--cluster" in words else ["--cluster", "1x4"]
    said = typed("simulate", jobs, *words.split(" "), *extra)
    assert said.code == 1, said
    assert told in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "missing.csv"),
        ("", "empty"),
        ("job_id,submit_s,duration_s,gpus\n", "no jobs"),
        ("job_id,submit_s,gpus\na,0,1\n", "columns"),
        ("job_id,submit_s,duration_s,gpus\na,0,5,1\na,1,5,1\n", "'a'"),
        ("job_id,submit_s,duration_s,gpus\na,0,-5,1\n", ":2:"),
        ("job_id,submit_s,duration_s,gpus\na,0,5,none\n", ":2:"),
        ("job_id,submit_s,duration_s,gpus\na,0,inf,1\n", ":2:"),
    ],
)
def test_a_bad_trace_is_told_in_one_line(
    typed: Type, tmp_path: Path, text: str | None, told: str
) -> None:
    path = tmp_path / "missing.csv"
    if text is not None:
        path.write_text(text)
    said = typed("simulate", path, "--cluster", "1x4", "--policy", "fifo")
    assert said.code == 1, said
    assert told in said.err
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err


def test_a_file_where_the_out_folder_should_be_is_told_in_one_line(typed: Type, jobs: Path) -> None:
    for out in (jobs, jobs / "below"):
        said = typed("simulate", jobs, "--cluster", "1x4", "--policy", "fifo", "--out", out)
        assert said.code == 1
        assert "name a folder" in said.err
        assert said.err.count("\n") == 1


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder nobody can write to")
def test_a_folder_that_cannot_be_written_is_told_in_one_line(typed: Type, jobs: Path) -> None:
    said = typed("simulate", jobs, "--cluster", "1x4", "--policy", "fifo", "--out", "/proc/x/y")
    assert said.code == 1
    assert said.err.startswith("dovetail: /proc")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("simulate {jobs} --policy fifo", "give the nodes with --cluster"),
        ("simulate {jobs} --cluster 1x4", "Missing option '--policy'"),
        ("simulate --cluster 1x4 --policy fifo", "Missing argument 'TRACE'"),
        ("simulate {jobs} --cluster 1x4 --policy fifo --fast", "No such option"),
        ("simulate {jobs} --cluster 1x4 --policy fifo --placement moon", "Invalid value"),
        ("simulate {jobs} --cluster 1x4 --policy fifo --predictor moon", "Invalid value"),
        ("simulate {jobs} --cluster 1x4 --policy fifo --format moon", "Invalid value"),
        ("simulate {jobs} --cluster 1x4 --policy fifo --seed x", "Invalid value"),
        ("compare {jobs} --cluster 1x4 --policies ,", "names none"),
        ("compare {jobs} --cluster 1x4 --policies fifo,srtf,fifo", "'fifo' twice"),
        ("simulate {jobs} --cluster 1x4 --policy fifo,srtf", "compare --policies fifo,srtf"),
        ("simulate {jobs} --cluster 1x4 --policy fifo --out ", "name a folder"),
        ("conquer", "No such command"),
    ],
)
def test_bad_usage_ends_with_2_and_says_how_to_get_help(
    typed: Type, jobs: Path, words: str, told: str
) -> None:
    said = typed(*(word.format(jobs=jobs) for word in words.split(" ")))
    assert said.code == 2
    assert told in said.err
    assert said.err.startswith("dovetail: ")
    assert said.err.endswith(" --help)\n")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err


def test_compare_tells_a_wrong_policy_before_it_runs_any(typed: Type, jobs: Path) -> None:
    said = typed("compare", jobs, "--cluster", "1x4", "--policies", "fifo,sjff,las")
    assert said.code == 1
    assert "did you mean 'sjf'?" in said.err
    assert said.out == ""


def test_policies_that_differ_only_in_spelling_have_folders_of_their_own(
    typed: Type, jobs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    policies = "las:quantum=5,las:quantum=5.0"
    assert (
        typed("compare", jobs, "--cluster", "1x4", "--policies", policies, "--out", out).code == 0
    )
    assert len([file for file in out.iterdir() if file.is_dir()]) == 2


def test_the_trace_is_never_replaced_by_results(typed: Type, jobs: Path) -> None:
    words = ("--cluster", "1x4", "--policy", "fifo", "--out", jobs.parent)
    said = typed("simulate", jobs, *words)
    assert said.code == 1
    assert "is the trace; name another folder" in said.err
    assert jobs.read_text() == JOBS


# ------------------------------------------------------------------------- somebody else's policies


@dataclass(frozen=True)
class Breaks:
    """Asks for what is not there."""

    def decide(self, view: View) -> list[Action]:
        nothing: dict[str, list[Action]] = {}
        return nothing["boom"]


@dataclass(frozen=True)
class SaysNothing:
    """Forgets to return what it decided."""

    def decide(self, view: View) -> None:
        pass


@dataclass(frozen=True)
class CannotDecide:
    """Has no method for it."""


@dataclass(frozen=True)
class CannotBegin:
    """Breaks before it is asked anything."""

    def __post_init__(self) -> None:
        raise KeyError("early")

    def decide(self, view: View) -> list[Action]:
        return []


class _Point(NamedTuple):
    name: str
    kind: type
    value: str = "somewhere:Else"
    dist: None = None

    def load(self) -> type:
        return self.kind


@pytest.mark.parametrize("words", ["simulate --policy x", "compare --policies fifo,x"])
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Breaks, r"policy 'x' failed at t=0: KeyError: 'boom' \(test_commands\.py:\d+\)"),
        (SaysNothing, r"policy 'x' failed at t=0: TypeError: .*NoneType.* \(\w+\.py:\d+\)"),
        (CannotDecide, r"policy 'x' \(somewhere:Else\) has no method `decide`; write one"),
        (CannotBegin, r"policy 'x': KeyError: 'early'"),
    ],
)
def test_a_policy_that_breaks_is_told_in_one_line(
    typed: Type, jobs: Path, monkeypatch: pytest.MonkeyPatch, kind: type, told: str, words: str
) -> None:
    monkeypatch.setattr(Catalogue, "_added", lambda _: {"x": _Point("x", kind)})
    monkeypatch.delitem(CATALOGUE._loaded, "x", raising=False)  # of the test before
    command, *options = words.split()
    said = typed(command, jobs, "--cluster", "1x4", *options)
    assert said.code == 1
    if command == "compare" and "failed at" in told:  # it had begun: the other one is told as well
        assert re.search(f"^x  failed: {told}$", " ".join(said.out.split("\n  ")), re.MULTILINE)
        assert re.search(r"^fifo +\d", said.out, re.MULTILINE)
        return
    assert re.fullmatch(f"dovetail: {told}\n", said.err)
    assert said.out == ""


# -------------------------------------------------------------------------- in a process of its own

DOVETAIL = (sys.executable, "-m", "dovetail.cli.main")


def in_a_shell(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DOVETAIL, *map(str, words)], capture_output=True, text=True, check=False
    )


def test_help_names_the_commands_and_loads_neither_numpy_nor_the_simulator() -> None:
    """Checked in the very process that has printed the help."""
    script = (
        "import sys\n"
        "from dovetail.cli.main import main\n"
        "sys.argv = ['dovetail', '--help']\n"
        "main()\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    for command in ("simulate", "compare", "policies", "trace"):
        assert command in done.stdout
    loaded = set(done.stderr.split())
    assert "click" in loaded
    unwanted = {"numpy", "dovetail.worlds.simulated", "dovetail.core.state", "multiprocessing"}
    assert not loaded & unwanted


def test_help_and_version_end_with_0(typed: Type) -> None:
    for words in (["--help"], ["simulate", "--help"], ["compare", "--help"], ["--version"]):
        said = typed(*words)
        assert (said.code, said.err) == (0, "")
        assert said.out


def test_a_reader_that_has_had_enough_ends_us_quietly() -> None:
    """As in `dovetail policies | head -1`."""
    command = " ".join([*DOVETAIL, "policies"])
    done = subprocess.run(
        f"{command} | head -1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("fifo")
    assert done.stderr == ""


def test_a_closed_pipe_does_not_make_a_mess_of_generated_traces() -> None:
    command = " ".join([*DOVETAIL, "trace", "generate", "--jobs", "20000"])
    done = subprocess.run(
        f"{command} | head -1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stdout == "job_id,submit_s,duration_s,gpus,user\n"
    assert done.stderr == ""


def test_a_bad_trace_ends_a_real_process_with_one_line(tmp_path: Path) -> None:
    done = in_a_shell("simulate", tmp_path / "no.csv", "--cluster", "8x8", "--policy", "fifo")
    assert done.returncode == 1
    assert done.stderr.startswith("dovetail: ")
    assert done.stderr.count("\n") == 1


def test_a_trace_may_come_from_standard_input() -> None:
    done = subprocess.run(
        [*DOVETAIL, "simulate", "-", "--cluster", "1x4", "--policy", "fifo", "--json"],
        input=JOBS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout)["finished"] == 3


def children_of(process: int) -> Iterator[int]:
    """Processes with that parent, from the process table."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == process:
                yield int(entry.name)


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "jobs.csv"
    assert in_a_shell("trace", "generate", "--jobs", "40000", "--out", path).returncode == 0
    return path


def begun(words: str, trace: Path, out: Path) -> subprocess.Popen[str]:
    """The command, just after its runs have begun to write their journals."""
    process = subprocess.Popen(
        [*DOVETAIL, *words.format(trace).split(), "--cluster", "8x8", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: list(out.rglob("*.part")) or process.poll() is not None)
    time.sleep(0.2)
    assert process.poll() is None, "the run was over too soon"
    return process


def gone(process: int) -> bool:
    return not Path(f"/proc/{process}").exists()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a process table to look at")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_comparison_leaves_no_process_behind(
    long_trace: Path, tmp_path: Path, number: signal.Signals
) -> None:
    process = begun("compare {} --policies gandiva,round-robin,las", long_trace, tmp_path)
    children = list(children_of(process.pid))
    assert children
    process.send_signal(number)
    assert process.communicate(timeout=120) == ("", "")
    assert process.returncode == (128 + number if number == signal.SIGTERM else -number)
    until(lambda: all(map(gone, children)))
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_stopped_run_leaves_nothing_of_itself_or_of_an_earlier_one(
    long_trace: Path, tmp_path: Path
) -> None:
    for name in ("summary.json", "jobs.csv", "journal.jsonl.gz", "report.html", "mine.txt"):
        (tmp_path / name).write_text("of an earlier run")
    process = begun("simulate {} --policy gandiva", long_trace, tmp_path)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a process table to look at")
@pytest.mark.parametrize("to_all", [True, False], ids=["as from a terminal", "to the parent only"])
@pytest.mark.parametrize(
    "words", ["compare {} --policies gandiva,round-robin,las", "simulate {} --policy gandiva"]
)
def test_ctrl_c_ends_a_long_run_at_once_and_leaves_nothing_behind(
    long_trace: Path, tmp_path: Path, words: str, to_all: bool
) -> None:
    process = begun(words, long_trace, tmp_path / "out")
    children = list(children_of(process.pid))
    before_s = reaped_s() + processor_s(process.pid, *children)
    (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
    said, err = process.communicate(timeout=120)
    assert reaped_s() - before_s < 2  # of processor time; the whole run would take a minute
    assert process.returncode == 130
    assert err.strip() == "dovetail: stopped"
    assert said == ""
    assert len(children) == (0 if words.startswith("simulate") else min(3, cpus()))
    assert all(map(gone, children))


def reaped_s() -> float:
    """Processor time of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpus() -> int:
    return len(os.sched_getaffinity(0))


def test_power_limits_and_wrong_beliefs_are_options(typed: Type, tmp_path: Path) -> None:
    jobs, power = tmp_path / "jobs.csv", tmp_path / "power.csv"
    jobs.write_text("job_id,submit_s,duration_s,gpus,model\na,0,3600,1,net\nb,0,3600,1,net\n")
    power.write_text("model,power_limit,time,watts\nnet,250,10,200\nnet,150,10.5,120\n")
    command = ["simulate", str(jobs), "--cluster", "2x1:V100", "--price", "0.2", "--json"]
    table = ["--power-table", f"V100={power}"]
    full = summary_of(typed(*command, *table, "--policy", "fifo"))
    less = summary_of(typed(*command, *table, "--policy", "frugal", "--price-error", "0.5"))
    assert full["energy_kwh"] == pytest.approx(2 * 0.2)
    assert less["energy_kwh"] == pytest.approx(2 * 0.12 * 1.05)
    assert less["mean_jct_s"] == pytest.approx(1.05 * 3600)
    said = typed(*command, "--policy", "fifo", "--power-table", f"T4={power}")
    assert said.code == 1
    assert f"{power}:2: no node has GPUs of kind 'T4'; there is V100" in said.err
    assert (
        "--carbon-error 3: give 0 to 0.99"
        in typed(*command, "--policy", "fifo", "--carbon-error", "3").err
    )


def test_a_power_table_of_other_models_is_noted(typed: Type, jobs: Path, tmp_path: Path) -> None:
    power = tmp_path / "power.csv"
    power.write_text("kind,model,power_limit,time,watts\ngpu,net,250,10,200\n")
    said = typed(
        *("simulate", str(jobs), "--cluster", "1x4", "--policy", "fifo"),
        *("--power-table", str(power)),
    )
    assert said.code == 0
    assert "no job of the trace has a model of the power table, such as 'net'" in said.err
