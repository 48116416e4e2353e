"""Gavel's own runs, job by job, where its results are at hand."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.allocation_gavel import GOLDEN, experiment, replayed

pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="the recorded results are not here")


@pytest.mark.parametrize(
    ("trace", "recorded", "policy"),
    [
        ("c40q", "isolated", "gavel:objective=isolated"),
        ("c40q", "fifo_perf", "gavel:objective=fifo"),
        ("c40q", "allox", "allox"),
        ("c40q", "allox_alpha0.5", "allox:oldest=0.5"),
        ("a60", "isolated", "gavel:objective=isolated"),
    ],
)
def test_runs_without_a_program_are_equal_job_by_job(
    trace: str, recorded: str, policy: str
) -> None:
    assert replayed(trace, recorded, policy).furthest_s < 1e-3


def test_the_rounds_are_equal_where_the_allocations_are() -> None:
    file = GOLDEN / "alloc" / "a60.max_min_fairness_perf.csv"
    assert replayed("a60", "max_min_fairness_perf", f"gavel:allocations={file}").furthest_s < 1e-3


def test_the_rounds_are_equal_with_pairs_of_jobs_on_the_gpus_of_one() -> None:
    file = GOLDEN / "alloc" / "a60.gandiva.csv"
    run = replayed("a60", "gandiva", f"gavel:packing=true:allocations={file}")
    assert run.furthest_s < 1e-3


def test_the_short_form_of_a_trace_is_the_same() -> None:
    long, short = experiment("c40"), experiment("c40", suffix="csv")
    without_commands = [replace(a.job, alike=()) for a in long.arrivals]  # the short form has none
    assert without_commands == [a.job for a in short.arrivals]
    with open(Path(GOLDEN) / "traces" / "c40.csv", encoding="utf-8") as file:
        assert [a.work_s for a in short.arrivals] == [a.work_s for a in long.arrivals]
        assert len(list(csv.DictReader(file))) == 40


@pytest.mark.parametrize(
    ("policy", "leases"),
    [("gavel", True), ("pop:k=2:policy=allox", True), ("srtf", False), ("flex", False)],
)
def test_jobs_work_in_leases_only_under_a_policy_that_renews_them(
    policy: str, leases: bool
) -> None:
    arrivals = experiment("c40").under(policy).arrivals
    assert all((arrival.course is not None) is leases for arrival in arrivals)
