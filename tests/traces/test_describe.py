"""The figures of a trace, and the page they make."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.core.model import Job, JobId
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.workload import Arrival
from dovetail.traces import Recipe, Trace, describe, generate
from dovetail.traces.clusters.cluster_text import read_cluster

DAY = 86_400.0


def job(
    number: int, at: float, work_s: float, gpus: int = 1, user: str = "", share: int = 1000
) -> Arrival:
    asked = Job(JobId(str(number)), gpus, share, cpus=1.0, user=user, tenant="t")
    return Arrival(at, asked, work_s)


def test_the_figures_are_those_of_the_jobs() -> None:
    jobs = [
        job(1, 0, 3600, 8, "ann"),
        job(2, 10, 7200, 1, "bob", share=500),
        job(3, 3600, 3600, 0, "ann"),
        job(4, 7200, 3600, 3),
    ]
    found = describe(Trace(jobs, "x.csv", "philly", ("bad",)))
    assert (found.jobs, found.span_s, found.users, found.tenants) == (4, 7200, 2, 1)
    assert (found.gpus_min, found.gpus_median, found.gpus_max) == (0, 1, 8)
    assert found.gpu_hours == pytest.approx(8 + 1 + 0 + 3)
    assert (found.part_of_gpu, found.bad_rows) == (0.25, 1)
    assert found.duration_c2 == pytest.approx(0.12)
    assert [size.gpus for size in found.sizes] == ["none", "part", "3-4", "5-8"]
    assert (found.cluster_gpus, found.load) == (None, None)


def test_quantiles_are_those_of_numpy_and_of_every_summary() -> None:
    found = describe(Trace([job(i, 0, float(i)) for i in range(1, 101)]))
    told = (found.duration_p50_s, found.duration_p90_s, found.duration_p99_s)
    assert told == pytest.approx((50.5, 90.1, 99.01))


def test_load_is_told_overall_and_on_the_heaviest_day() -> None:
    jobs = [job(1, 0, 100), job(2, 1.5 * DAY, DAY, 4), job(3, 4 * DAY, 100)]
    found = describe(Trace(jobs), read_cluster("1x4"))
    assert found.load == pytest.approx(0.25, abs=0.001)
    assert found.peak_day == 2
    assert found.peak_day_load == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("load", "said"), [(0.002, "0.2%"), (0.0953, "9.5%"), (0.42, "42%"), (0.00012, "0.012%")]
)
def test_a_small_load_is_not_rounded_away(load: float, said: str) -> None:
    figures = replace(
        describe(Trace([])), cluster_gpus=8, load=load, peak_day_load=load, peak_day=1
    )
    assert f"on 8 GPUs: {said} overall, at most {said} on day 1" in str(figures)


def test_notes_are_part_of_the_description() -> None:
    note = "columns not used: " + ", ".join(["accelerators"] * 9) + "; every job asks for 1 GPU"
    said = str(describe(Trace([], notes=(note,))))
    assert " ".join(said.split()).count(note) == 1
    assert max(map(len, said.splitlines())) <= 100


def test_jobs_that_all_come_at_once_have_no_load() -> None:
    found = describe(Trace([job(1, 5, 10)]), read_cluster("1x4"))
    assert found.load is None
    assert "all jobs come at once" in str(found)


def test_failures_are_counted() -> None:
    failing = Arrival(0, Job(JobId("1")), 10, failures=(3.0,))
    assert "1 job fails at least once" in str(describe(Trace([failing])))


def test_a_trace_without_jobs_has_a_description_too() -> None:
    assert "0 submitted" in str(describe(Trace([])))


def test_the_page_fits_in_a_hundred_columns() -> None:
    made = generate(Recipe(jobs=500, mean_duration_s=1e7))
    page = str(describe(Trace(made, "/very/long" * 30, "dovetail", ("bad",)), read_cluster("9x9")))
    assert max(map(len, page.splitlines())) <= 100
    assert "GPU-hours" in page


def test_the_page_reads_like_this() -> None:
    found = describe(Trace([job(1, 0, 90), job(2, 3600, 90, 8)], "x.csv"), read_cluster("1x8"))
    assert str(found).splitlines() == [
        "trace         x.csv (dovetail)",
        "jobs          2 submitted over 1 h",
        "GPUs a job    min 1, median 1, max 8",
        "durations     mean 1 min 30 s, median 1 min 30 s, p90 1 min 30 s, p99 1 min 30 s",
        "              C² 0.00 (1 is exponential, more is more uneven)",
        "work          0.2 GPU-hours",
        "people        0 users, 1 tenant",
        "load          on 8 GPUs: 2.8% overall, at most 2.8% on day 1",
        "",
        "GPUs  jobs  of jobs  GPU-hours  of work      median",
        "────  ────  ───────  ─────────  ───────  ──────────",
        "1        1    50.0%        0.0    11.1%  1 min 30 s",
        "5-8      1    50.0%        0.2    88.9%  1 min 30 s",
    ]


@pytest.mark.parametrize("retries", [0, 1, 2, 3])
def test_gpu_hours_of_jobs_that_die_are_those_that_a_simulation_uses(retries: int) -> None:
    own = job(1, 0.0, 3600.0, gpus=2)
    dies = replace(own, job=replace(own.job, retries=retries), failures=(600.0, 5000.0, 60.0))
    early = replace(own, job=replace(own.job, retries=retries), failures=(600.0, 300.0, 60.0))
    for arrival in (own, dies, early):
        nodes = [replace(node, cpus=8.0) for node in read_cluster("1x2")]
        run = simulate(Experiment([arrival], nodes), "fifo")
        told = describe(Trace([arrival]))
        assert told.gpu_hours * 3600 == pytest.approx(run.summary["gpu_seconds_used"])
