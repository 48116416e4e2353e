"""The page as a reader gets it: safe, bounded, whole, and the same numbers as the run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from dovetail.core.model import Node, Placement, Slice
from dovetail.reports import gantt, write_report
from dovetail.reports.binning import (
    MAX_BINS,
    Window,
    gpus_in_use,
    mean_counts,
    over_time,
    window_of,
)
from dovetail.reports.busy import LEVELS, busy, first_rows, rectangles
from dovetail.reports.page import describe_cluster
from dovetail.reports.summary_html import table, zeros_sentence
from dovetail.results.record import JobOutcome, RunRecord, Stint
from html_page import Elements, assert_drawn, browsed, embedded_in

HOSTILE = "</script><script>alert(1)</script><!--\"'&\u2028\u2029\ud800$title{{"
NODES = (Node("n0", 4, "V100"), Node("n1", 4, "V100"), Node("t0", 2, "T4"))


def row(
    number: int,
    submit: float = 0.0,
    start: float | None = 10.0,
    end: float = 110.0,
    gpus: int = 1,
    name: str = "",
    outcome: str = "finished",
) -> JobOutcome:
    wait = None if start is None else start - submit
    who = name or f"job-{number}"
    return JobOutcome(
        who, name or "ann", "", gpus, submit, start, end, wait, end - submit, 0, outcome
    )


def a_run(jobs: int = 6, policy: str = "fifo", name: str = "") -> RunRecord:
    rows = [row(i, i * 5.0, i * 5.0 + 10, i * 5.0 + 110, 1, name) for i in range(jobs)]
    stints = [
        Stint(i, Placement((Slice(i % 2, 1 << (i % 4)),)), i * 5.0 + 10, i * 5.0 + 110)
        for i in range(jobs)
    ]
    summary: dict[str, float | int | str] = {
        "policy": policy,
        "jobs": jobs,
        "mean_jct_s": 110.0,
        "p99_jct_s": 110.0,
    }
    return RunRecord(policy, summary, NODES, rows, stints)


def a_page(tmp_path: Path, *runs: RunRecord, title: str = "A title") -> str:
    path = tmp_path / "report.html"
    write_report(path, runs, title)
    return path.read_text("utf-8")


def test_hostile_ids_users_policies_and_titles_cannot_break_out(tmp_path: Path) -> None:
    tame = a_page(tmp_path, a_run(), a_run())
    page = a_page(
        tmp_path, a_run(policy=HOSTILE, name=HOSTILE), a_run(policy=HOSTILE), title=HOSTILE
    )
    assert Elements(page).tags == Elements(tame).tags
    assert "alert(1)</script>" not in page
    assert "\u2028" not in page.partition('id="data"')[2]
    assert embedded_in(page)["runs"][0]["policy"] == HOSTILE.replace("\ud800", "?")


def test_a_hostile_node_or_summary_key_cannot_break_out(tmp_path: Path) -> None:
    run = RunRecord("fifo", {HOSTILE: 3.0}, (Node(HOSTILE, 8, HOSTILE),), [row(0)], ())
    assert Elements(a_page(tmp_path, run)).tags.count("script") == 2


def test_the_page_is_one_file_that_names_no_other(tmp_path: Path) -> None:
    page = a_page(tmp_path, a_run())
    assert Elements(page).addresses == []
    assert set(re.findall(r"https?://[^\"' ]*", page)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page
    assert not re.search(r"\bimport\b\s*[({'\"]|@import|url\(|fetch\(", page)


@pytest.mark.parametrize(
    "run",
    [
        RunRecord("none", {}, (), (), ()),
        RunRecord("idle", {"jobs": 0, "mean_jct_s": float("nan")}, NODES, (), ()),
        RunRecord("full", {}, NODES, [row(0, 5, None, 5, outcome="refused")], ()),
        RunRecord(
            "instant", {}, NODES, [row(0, 5, 5, 5)], [Stint(0, Placement((Slice(0, 1),)), 5, 5)]
        ),
        RunRecord("cpu", {}, NODES, [row(0, gpus=0)], [Stint(0, Placement(()), 10, 110)]),
    ],
    ids=lambda run: run.policy,
)
def test_a_run_with_nothing_to_draw_still_gives_a_page(tmp_path: Path, run: RunRecord) -> None:
    assert embedded_in(a_page(tmp_path, run))["runs"][0]["policy"] == run.policy


def test_no_runs_at_all_still_give_a_page(tmp_path: Path) -> None:
    assert embedded_in(a_page(tmp_path))["runs"] == []


def test_the_mean_over_bins_keeps_the_total_time() -> None:
    starts, ends = [0.0, 3.3, 7.0], [10.0, 3.4, 100.0]
    means = mean_counts(Window(0.0, 100.0), 7, starts, ends)
    assert sum(means) * 100 / 7 == pytest.approx(sum(ends) - sum(starts))
    assert mean_counts(Window(0.0, 4.0), 4, [1.0], [2.5]) == pytest.approx([0, 1, 0.5, 0])


def test_the_series_add_up_to_the_gpu_seconds_and_waiting_time_of_the_run() -> None:
    run = a_run(jobs=50)
    window = window_of(run)
    series = over_time(run, window, [gpus_in_use(stint.placement) for stint in run.stints])
    width = window.span_s / MAX_BINS
    assert sum(series["allocated"]) * width == pytest.approx(50 * 100, rel=1e-3)
    assert sum(series["waiting"]) * width == pytest.approx(50 * 10, rel=1e-3)
    assert len(series["running"]) == MAX_BINS


def test_a_share_of_a_gpu_counts_as_its_fraction() -> None:
    assert gpus_in_use(Placement((Slice(0, 1),), 250)) == 0.25
    assert gpus_in_use(Placement((Slice(0, 3), Slice(1, 1)))) == 3


def test_neighbouring_gpus_are_one_rectangle_even_across_nodes() -> None:
    rows = first_rows(NODES)
    assert rectangles(Placement((Slice(1, 0b1111), Slice(0, 0b1100))), rows) == [(2, 6)]
    assert rectangles(Placement((Slice(0, 0b1011),)), rows) == [(0, 2), (3, 1)]


def test_the_budget_is_shared_and_what_small_runs_leave_goes_to_large_ones() -> None:
    assert gantt.budgets([10, 1000, 1000], 100) == [10, 45, 45]
    assert gantt.budgets([10, 20], 100) == [10, 20]
    assert gantt.budgets([], 100) == []


def test_over_budget_the_largest_stints_stay_and_the_page_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gantt, "MAX_RECTANGLES", 10)
    long = Stint(3, Placement((Slice(1, 0b1111),)), 0.0, 5000.0)
    run = a_run(jobs=40)
    run = RunRecord(run.policy, run.summary, NODES, run.jobs, [*run.stints, long])
    drawn = [each["gantt"] for each in embedded_in(a_page(tmp_path, run, run))["runs"]]
    assert [(each["shown"], each["total"]) for each in drawn] == [(5, 41), (5, 41)]
    assert drawn[0]["stints"][:5] == [0, 0, 5_000_000, 1000, 1]  # job, start, length in ms, share
    assert 0.8 < drawn[0]["gpu_time_share"] < 1


def test_no_gpu_that_was_busy_looks_idle_when_its_stints_are_left_out() -> None:
    blink = Stint(0, Placement((Slice(2, 0b10),)), 50.0, 50.01)
    half = Stint(1, Placement((Slice(0, 0b1),)), 0.0, 55.0)
    run = RunRecord("fifo", {}, NODES, [row(0), row(1)], [blink, half])
    found = busy(run, Window(0.0, 100.0), cells=10 * 24)
    bins, levels = found["bins"], str(found["levels"])
    assert bins == 24
    assert levels[0] == levels[12] == LEVELS[-1]
    assert 0 < LEVELS.index(levels[13]) < 63
    assert levels[14:24] == "A" * 10
    assert levels[9 * 24 + 12] == LEVELS[1]
    assert levels.count("A") == 240 - 15


def test_with_very_many_gpus_the_picture_underneath_is_by_node() -> None:
    stint = Stint(0, Placement((Slice(0, 0b11),)), 0.0, 100.0)
    found = busy(RunRecord("fifo", {}, NODES, [row(0)], [stint]), Window(0.0, 100.0), cells=30)
    assert found["by_node"] is True
    assert str(found["levels"])[:10] == LEVELS[32] * 10


def test_a_stint_on_cpus_alone_is_not_said_to_be_left_out(tmp_path: Path) -> None:
    run = RunRecord("cpu", {}, NODES, [row(0, gpus=0)], [Stint(0, Placement(()), 10, 110)])
    drawn = embedded_in(a_page(tmp_path, run))["runs"][0]["gantt"]
    assert (drawn["shown"], drawn["total"], drawn["busy"]) == (1, 1, None)


def test_jobs_that_were_not_drawn_are_not_in_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gantt, "MAX_RECTANGLES", 7)
    assert len(embedded_in(a_page(tmp_path, a_run(jobs=40)))["runs"][0]["gantt"]["jobs"]) == 7


def test_an_endless_job_id_is_cut(tmp_path: Path) -> None:
    assert max(map(len, embedded_in(a_page(tmp_path, a_run(name="x" * 999)))["texts"])) == 80


def test_a_run_of_ten_thousand_jobs_stays_small(tmp_path: Path) -> None:
    assert len(a_page(tmp_path, a_run(jobs=10_000))) < 1_500_000


def test_the_summary_marks_the_best_and_names_the_unit() -> None:
    html = table([("fifo", {"mean_jct_s": 14400.0}), ("srtf", {"mean_jct_s": 7200.0})])
    assert '<span class="unit">h</span>' in html
    assert html.count("<strong>") == 1
    assert "<strong>2.00<" in html


def test_equal_values_have_no_best_and_missing_ones_are_a_dash() -> None:
    html = table([("a", {"p50_jct_s": 5, "refused": 1}), ("b", {"p50_jct_s": 5.0001})])
    assert "<strong>" not in html
    assert "<td>–</td>" in html


def test_numbers_nobody_told_us_about_are_shown_too() -> None:
    html = table([("a", {"water_cost": 12.5, "mean_idle_s": 600.0, "note": "text"})])
    assert "water cost" in html
    assert "mean idle" in html
    assert "note" not in html


def test_columns_of_zeros_become_a_sentence() -> None:
    summaries = [("a", {"refused": 0, "failed": 1})]
    assert zeros_sentence(summaries) == "Zero throughout: jobs refused."
    assert ">refused" not in table(summaries)


def test_the_header_describes_a_mixed_cluster() -> None:
    assert describe_cluster(NODES) == "2 nodes × 4 V100 + 1 node × 2 T4 = 10 GPUs"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_the_page_without_an_error(tmp_path: Path) -> None:
    a_page(tmp_path, a_run(name=HOSTILE), a_run(policy=HOSTILE), title=HOSTILE)
    assert_drawn(browsed(tmp_path / "report.html", 4), 4)
