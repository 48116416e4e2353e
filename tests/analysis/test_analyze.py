"""`dovetail analyze`: odd traces get a report that says what could not be measured, and why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dovetail.analysis import Analysis, analyze
from html_page import Elements, assert_drawn, browsed
from typed_here import Type, typing

HOSTILE = "</script><script>alert(1)</script><!--\"'&$title"
PARTS = ("contest", "predictive", "rolling")  # factors do not look at the trace
QUICKLY_DECIDED = ("one job", "equal durations")  # the others have tests with the measurement
Row = Sequence[object]
COLUMNS = "job_id,submit_s,duration_s,gpus,user,name"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    return typing(monkeypatch, capsys)


def some_jobs(number: int = 40, users: int = 4) -> list[list[object]]:
    chance = Random(3)
    return [
        [i, i * 900, 600 * (1 + i % users) * chance.randint(1, 9), 1 + i % 3, f"u{i % users}", "t"]
        for i in range(number)
    ]


def saved(path: Path, rows: Sequence[Row], columns: str = COLUMNS) -> Path:
    lines = [columns, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def analyzed(tmp_path: Path, trace: Path, parts: Sequence[str] = PARTS) -> tuple[Analysis, str]:
    with ThreadPoolExecutor(1) as pool:
        out = tmp_path / "out"
        found = analyze(trace, "1x4", out=out, quick=True, executor=pool, parts=parts)
    return found, (out / "report.html").read_text("utf-8")


def without(column: int) -> tuple[list[list[object]], str]:
    names = COLUMNS.split(",")
    rows = [[*row[:column], *row[column + 1 :]] for row in some_jobs()]
    return rows, ",".join([*names[:column], *names[column + 1 :]])


def one_user() -> tuple[list[list[object]], str]:
    return some_jobs(users=1), COLUMNS


def one_job() -> tuple[list[list[object]], str]:
    return some_jobs(1), COLUMNS


def equal_durations() -> tuple[list[list[object]], str]:
    return [[i, i * 100, 300, 1, "ann", "t"] for i in range(40)], COLUMNS


def at_one_moment() -> tuple[list[list[object]], str]:
    return [[i, 0, 60 + i, 1, "ann", "t"] for i in range(40)], COLUMNS


def clock_backwards() -> tuple[list[list[object]], str]:
    return [[i, 50_000 - i * 100, 60 + i, 1, "ann", "t"] for i in range(40)], COLUMNS


def ends_before_start() -> tuple[list[list[object]], str]:
    return [[i, 1000 + i, 500 if i % 2 else 1500 + i] for i in range(60)], "job_id,start_s,end_s"


def always_ends_before_start() -> tuple[list[list[object]], str]:
    return [[i, 1000 + i, 500] for i in range(60)], "job_id,submit_s,end_s"


Odd = Callable[[], tuple[list[list[object]], str]]
ODD: dict[str, tuple[Odd, str]] = {
    "no durations": (lambda: without(2), "no usable column says how long jobs ran"),
    "no times": (lambda: without(1), "no column says when jobs were submitted"),
    "no sizes": (lambda: without(3), "the trace does not say for how many"),
    "no users": (lambda: without(4), "the trace names no users"),
    "one user": (one_user, "every job has the user"),
    "one job": (one_job, "the trace has 1 job"),
    "equal durations": (equal_durations, "all durations are equal"),
    "one moment": (at_one_moment, "all jobs were submitted at one time"),
    "clock backwards": (clock_backwards, "a clock ran backwards"),
    "some end before they start": (ends_before_start, "rows that could not be used"),
    "all end before they start": (always_ends_before_start, "no usable column says how long"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_trace_gets_a_report_that_says_what_could_not_be_measured(
    tmp_path: Path, name: str
) -> None:
    make, said = ODD[name]
    rows, columns = make()
    parts = (*PARTS, "decision") if name in QUICKLY_DECIDED else PARTS
    found, page = analyzed(tmp_path, saved(tmp_path / "jobs.csv", rows, columns), parts)
    assert said in page
    assert not any("Error" in why for why in found.problems.values()), found.problems
    told = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert told["workload"]["jobs"] == found.workload.jobs > 0
    assert len(told["catalogue"]["items"]) == 55


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> tuple[Analysis, str, Path]:
    """An analysis of ordinary jobs, with a policy that was asked for."""
    path = tmp_path_factory.mktemp("ordinary")
    trace = saved(path / "jobs.csv", some_jobs())
    with ThreadPoolExecutor(1) as pool:
        parts = ("contest", "predictive")
        found = analyze(trace, "1x4", out=path, policies=["sjf"], executor=pool, parts=parts)
    return found, (path / "report.html").read_text("utf-8"), path / "report.html"


Ordinary = tuple[Analysis, str, Path]


def test_a_trace_of_ordinary_jobs_gets_three_policies_with_intervals(ordinary: Ordinary) -> None:
    found, page, _ = ordinary
    assert len(found.verdict.choices) == 3
    assert all(own.low is not None and own.low <= own.gain for own in found.verdict.choices)
    assert not any("oracle" in own.policy for own in found.verdict.choices)
    assert "of the oracle&#x27;s gain over fifo" in page or "nothing to keep" in page


def test_the_best_without_predictions_and_without_interruptions_are_among_them(
    ordinary: Ordinary,
) -> None:
    found = ordinary[0]
    assert found.contest is not None
    rows = {row.policy: row for row in found.contest.tried}
    chosen = [rows[own.policy] for own in found.verdict.choices]
    assert any(not row.told for row in chosen)
    assert any(not row.preemptions for row in chosen)


def test_a_policy_asked_for_is_tried_with_what_can_be_known(ordinary: Ordinary) -> None:
    contest = ordinary[0].contest
    assert contest is not None
    tried = [row for row in contest.tried if row.policy.startswith("sjf:")]
    assert [row.told for row in tried] == [contest.predictor]


def test_hostile_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    rows = [
        [i, i * 900, 60 + i, 1, f'"{HOSTILE.replace(chr(34), "")}{i % 3}"', "t"] for i in range(60)
    ]
    tame = [[i, i * 900, 60 + i, 1, f"user{i % 3}", "t"] for i in range(60)]
    pages = [
        analyzed(tmp_path / str(n), saved(tmp_path / f"jobs{n}.csv", own), ())[1]
        for n, own in enumerate((rows, tame))
    ]
    assert Elements(pages[0]).tags == Elements(pages[1]).tags
    assert "alert(1)</script>" not in pages[0]


def test_the_page_is_one_file_that_names_no_other(tmp_path: Path) -> None:
    _, page = analyzed(tmp_path, saved(tmp_path / "jobs.csv", some_jobs()), ())
    addresses = Elements(page).addresses
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    for address in set(addresses):
        assert f'id="{address[1:]}"' in page


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_the_page_without_an_error(ordinary: Ordinary) -> None:
    _, page, path = ordinary
    charts = page.count("data-chart=")
    assert charts >= 6
    assert_drawn(browsed(path, charts), charts)


def test_the_command_says_the_verdict_and_where_the_report_is(tmp_path: Path, typed: Type) -> None:
    trace = saved(tmp_path / "jobs.csv", some_jobs())
    out = tmp_path / "out"
    said = typed("analyze", trace, "--cluster", "1x4", "--out", out, "--parts", "contest")
    assert said.code == 0, said.err
    for part in ("How sure", "To try", "To record from now on", f"Report: {out}/report.html"):
        assert part in said.out
    assert all(len(line) <= 100 for line in said.out.splitlines() if "Report:" not in line)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere.csv", "--cluster", "1x4"], "there is no such file"),
        (["-", "--cluster", "1x4"], "name a file of jobs"),
        (["jobs.csv", "--cluster", "hello"], "is not a cluster"),
        (["jobs.csv", "--cluster", "1x4", "--policies", "stf"], "did you mean 'srtf'"),
        (["jobs.csv", "--cluster", "1x4", "--policies", "qssf:predictor=nosuch"], "'nosuch'"),
        (["jobs.csv", "--cluster", "1x4", "--interruption-cost", "x"], "give seconds"),
        (["jobs.csv", "--cluster", "1x4", "--out", "jobs.csv"], "there is a file of that name"),
        (["jobs.csv", "--cluster", "1x4", "--parts", "x"], "there is no part 'x'"),
        (["junk.csv", "--cluster", "1x4"], "there is no column 'submit_s'"),
        (["jobs.csv"], "--cluster"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, typed: Type, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "jobs.csv", some_jobs(5))
    saved(tmp_path / "junk.csv", [[1, 2]], "what,ever")
    said = typed("analyze", *words)
    assert said.code in (1, 2)
    assert told in said.err
    assert len(said.err.strip().splitlines()) == 1


def test_what_was_left_out_of_the_trace_is_noted_in_the_terminal(
    tmp_path: Path, typed: Type
) -> None:
    rows = [[*row, "Pass"] for row in some_jobs(20)]
    rows[3][2] = "soon"
    rows[4][3] = 64
    trace = saved(tmp_path / "jobs.csv", rows, f"{COLUMNS},colour")
    out = tmp_path / "out"
    said = typed("analyze", trace, "--cluster", "1x4", "--out", out, "--parts", "workload")
    notes = [line for line in said.err.splitlines() if line.startswith("note: ")]
    assert any("columns not used: colour" in note for note in notes)
    assert any("left out 1 row that could not be used" in note for note in notes)
    assert any("1 of 19 jobs ask for more than the 4 GPUs" in note for note in notes)


def test_a_trace_of_jobs_that_are_all_too_large_is_told_so(tmp_path: Path) -> None:
    rows = [[*row[:3], 64, *row[4:]] for row in some_jobs(20)]
    found, _ = analyzed(tmp_path, saved(tmp_path / "jobs.csv", rows), ("contest",))
    assert "20 of 20 jobs ask for more than the 4 GPUs" in found.verdict.sureness[0]
    assert found.workload.load is None


def test_a_status_that_is_not_read_is_to_be_recorded_as_it_is_read(tmp_path: Path) -> None:
    rows = [[*row, "Failed" if i % 3 else "Pass"] for i, row in enumerate(some_jobs(20))]
    trace = saved(tmp_path / "jobs.csv", rows, f"{COLUMNS},status")
    found, page = analyzed(tmp_path, trace, ("workload",))
    advised = {own.id: own.how for own in found.verdict.record}
    assert "columns failures" in advised["J31"]
    assert "there is column status" in advised["J31"]
    assert "no column that Dovetail reads says how jobs ended" in page


def test_the_load_counts_only_jobs_that_fit_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    rows = [[i, i * 3600, 3600, 64 if i == 5 else 1, "ann", "t"] for i in range(11)]
    found, _ = analyzed(tmp_path, saved(tmp_path / "jobs.csv", rows), ("workload",))
    assert found.workload.load is not None
    assert found.workload.load.overall == pytest.approx(10 / 40)
    assert "leaves out their 64 GPU-hours" in found.workload.notices[-1]


def test_numbers_that_are_none_are_null_in_the_file() -> None:
    from dovetail.analysis.page import plain

    value: Any = {"a": float("nan"), "b": (1, float("inf")), "c": "x"}
    assert plain(value) == {"a": None, "b": [1, None], "c": "x"}
