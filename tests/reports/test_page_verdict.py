"""What a page says and shows at first sight."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from analysis_samples import an_analysis
from dovetail.analysis.page import render
from dovetail.analysis.page import write as write_analysis
from dovetail.api.study_row import TrialRow
from dovetail.core.model import Node, Placement, Slice
from dovetail.experiments.pareto import OBJECTIVES
from dovetail.experiments.summary_table import table as terminal_table
from dovetail.reports import write_report
from dovetail.reports.best_policy import verdict
from dovetail.reports.importance import LEAST_TRIALS, importance, importance_note
from dovetail.reports.study_page import write_study
from dovetail.reports.study_replays import Others
from dovetail.reports.summary_html import table as page_table
from dovetail.results.record import JobOutcome, RunRecord, Stint
from dovetail.text.curves import Scale, scale_of, with_room
from html_page import measured, overlapping
from study_samples import a_study, a_trial


def of(mean_jct_s: float, **more: float) -> dict[str, float | int | str]:
    return {"mean_jct_s": mean_jct_s, "finished": 10, **more}


def test_the_first_sentence_says_who_won_and_by_how_much() -> None:
    rows = [("fifo", of(4000.0)), ("las", of(3000.0)), ("srtf", of(2800.0))]
    assert verdict(rows) == (
        "srtf has the lowest mean completion time, 46.7 min: 30 % less than fifo (66.7 min). "
        "Next is las, 50.0 min."
    )


def test_the_first_sentence_has_one_unit() -> None:
    said = verdict([("fifo", of(45_000.0)), ("las", of(5000.0)), ("srtf", of(4600.0))])
    assert said == (
        "srtf has the lowest mean completion time, 1.3 h: 90 % less than fifo (12.5 h). "
        "Next is las, 1.4 h."
    )


def test_who_comes_as_close_as_half_a_percent_shares_the_win() -> None:
    rows = [("las", of(3001.0)), ("srtf", of(3000.0)), ("fifo", of(6000.0))]
    assert "las does as well within half a percent." in verdict(rows)


def test_where_fifo_wins_it_is_compared_with_the_last() -> None:
    rows = [("fifo", of(1000.0)), ("las", of(2000.0)), ("sjf", of(4000.0))]
    assert verdict(rows).startswith("fifo has the lowest mean completion time, 16.7 min: 75 % less")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("fifo", of(100.0))], "fifo: mean completion time 100.0 s."),
        ([("fifo", of(100.0)), ("las", of(100.0))], "All policies do the same here"),
        ([("fifo", {"mean_jct_s": 0.0, "finished": 0})], "No job finished"),
        ([("fifo", of(float("nan"))), ("las", of(100.0))], "las: mean completion time 100.0 s."),
        ([], "No job finished"),
    ],
)
def test_with_little_to_compare_the_sentence_says_so(rows: Any, said: str) -> None:
    assert said in verdict(rows)


def test_with_an_objective_its_figure_decides() -> None:
    rows = [("fifo", of(100.0, total_cost=8.0)), ("las", of(50.0, total_cost=10.0))]
    said = verdict(rows, OBJECTIVES["cost"])
    assert said == "fifo has the lowest total cost, 8: 20 % less than las (10)."


def test_columns_of_one_quantity_share_a_unit() -> None:
    rows = [("fifo", of(600.0, p50_jct_s=90.0, p90_jct_s=3000.0, p99_jct_s=90_000.0))]
    units = re.findall(
        r'title="(?:mean|p\d\d)_jct_s">[^<]*<span class="unit">(\w+)', page_table(rows)
    )
    assert len(units) == 4
    assert len(set(units)) == 1


def test_a_column_of_the_terminals_table_has_one_unit() -> None:
    keys = ("mean_jct_s", "p50_jct_s", "p99_jct_s", "mean_wait_s", "makespan_s")
    counts: dict[str, float | int | str] = dict.fromkeys(
        ("finished", "preemptions", "failed", "cancelled", "refused", "jobs"), 0
    )
    counts["finished"] = counts["jobs"] = counts["started"] = 1  # a mean of no job is not told
    rows = [
        {"policy": name, "gpu_utilisation": 0.5, **dict.fromkeys(keys, seconds), **counts}
        for name, seconds in (("a", 100.0), ("b", 9000.0), ("c", 400_000.0))
    ]
    lines = terminal_table(rows).splitlines()[2:5]
    assert [re.findall(r" (s|min|h|d)\b", line) for line in lines] == [["h"] * 5] * 3


# ------------------------------------------------------------------------------------------ colours


def linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def times(matrix: tuple[tuple[float, ...], ...], values: list[float]) -> list[float]:
    return [sum(m * v for m, v in zip(row, values, strict=True)) for row in matrix]


def oklab(rgb: list[float]) -> list[float]:
    """Björn Ottosson's colour space, in which distances are about those that people see."""
    cones = times(
        (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        ),
        rgb,
    )
    return times(
        (
            (0.2104542553, 0.7936177850, -0.0040720468),
            (1.9779984951, -2.4285922050, 0.4505937099),
            (0.0259040371, 0.7827717662, -0.8086757660),
        ),
        [max(cone, 0.0) ** (1 / 3) for cone in cones],
    )


# How linear colours look to who lacks one kind of cone: Machado, Oliveira and Fernandes 2009.
WITHOUT_RED = (
    (0.152286, 1.052583, -0.204868),
    (0.114503, 0.786281, 0.099216),
    (-0.003882, -0.048116, 1.051998),
)
WITHOUT_GREEN = (
    (0.367322, 0.860646, -0.227968),
    (0.280085, 0.672501, 0.047413),
    (-0.011820, 0.042940, 0.968881),
)
EVERYBODY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def policy_colours() -> Iterator[list[list[float]]]:
    """Of the light page, then of the dark one."""
    style = (files("dovetail.reports") / "assets" / "style.css").read_text()
    found = re.findall(r"--p\d+: #(\w{6});", style)
    for theme in (found[:12], found[12:]):
        yield [[linear(int(own[i : i + 2], 16) / 255) for i in (0, 2, 4)] for own in theme]


@pytest.mark.parametrize(
    ("seen_by", "least"), [(EVERYBODY, 0.14), (WITHOUT_RED, 0.085), (WITHOUT_GREEN, 0.085)]
)
def test_any_two_policies_are_told_apart_by_colour(seen_by: Any, least: float) -> None:
    for theme in policy_colours():
        assert len(theme) == 12
        seen = [oklab([min(max(v, 0.0), 1.0) for v in times(seen_by, own)]) for own in theme]
        for one, other in combinations(seen, 2):
            away = sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5
            assert away >= least


# ------------------------------------------------------------------------------------------- scales


def test_a_curves_best_does_not_lie_on_the_axis() -> None:
    for scale in (Scale(0.1, 2.0), Scale(1e-4, 1.0, is_log=True), Scale(-3.0, -1.0)):
        wider = with_room(scale)
        assert wider.low < scale.low
        assert wider.high > scale.high
        assert (wider.low > 0) == (scale.low > 0)


def test_a_scale_is_logarithmic_where_that_tells_values_apart() -> None:
    falling = [2.0 * 0.8**step + 0.02 for step in range(40)]
    assert scale_of(falling, None, minimise=True).is_log
    assert not scale_of([0.5 + 0.01 * step for step in range(40)], None, minimise=True).is_log


# --------------------------------------------------------------------------------------- importance


def some_trials(number: int, steps: int = 5, seed: int = 1) -> list[TrialRow]:
    """The rate decides, the width does not; who is trained for longer is better, too."""
    chance = random.Random(seed)
    found = []
    for own in range(number):
        rate, width, trained = chance.random(), chance.random(), steps + own % 3
        points = [[step, rate + 1.0 / step, 1.0 * step] for step in range(1, trained + 1)]
        settings = {"rate": rate, "width": width, "kind": "same"}
        values = [point[1] for point in points]
        more = {"points": points, "value": values[-1], "best": min(values)}
        found.append(a_trial(own, trained, "paused", settings=settings, **more))
    return found


def test_the_setting_that_decides_is_named_and_the_others_are_not() -> None:
    found = [dict(importance(some_trials(40, seed=seed), minimise=True)) for seed in range(200)]
    assert all((shares["rate"] or 0.0) > 0.6 for shares in found)
    assert all(shares["kind"] is None for shares in found)
    by_chance = sum(shares["width"] != 0.0 for shares in found)
    assert by_chance <= 0.08 * len(found)  # one in twenty is what the test allows
    assert "alone: rate" in importance_note(list(found[0].items()))


def test_too_few_trials_tell_nothing() -> None:
    shares = importance(some_trials(LEAST_TRIALS - 1), minimise=True)
    assert all(share is None for _, share in shares)
    assert "cannot be told" in importance_note(shares)


# -------------------------------------------------------------------------------------- as browsed


def compared(path: Path) -> int:
    """A page of eleven policies; how many charts it has."""
    stay, on = 900.0, Placement((Slice(0, 1),))
    rows = [
        JobOutcome(
            str(n), "ann", "", 1, stay * n, stay * n, stay * (n + 1), 0.0, stay, 0, "finished"
        )
        for n in range(30)
    ]
    stints = [Stint(n, on, own.submit_s, own.end_s) for n, own in enumerate(rows)]
    names = [f"policy-with-a-name-{n}" for n in range(11)]
    summary = of(3000.0, p99_jct_s=9000.0)
    runs = [RunRecord(name, summary, (Node("n0", 8),), rows, stints) for name in names]
    write_report(path, runs, "eleven")
    return 5


def studied(path: Path) -> int:
    trials = [a_trial(n, 27, "done") for n in range(12)]
    trials.append(a_trial(12, 1, "failed", reason="exit code 1"))
    write_study(path, a_study(trials, state="closed"), Others((), ()), {12: "ValueError: no such"})
    return 7


def analyzed(path: Path) -> int:
    analysis = an_analysis()
    write_analysis(path.parent, analysis)
    return render(analysis).count("data-chart=")


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize("make", [compared, studied, analyzed])
@pytest.mark.parametrize("width", [420, 1200])
def test_a_page_is_no_wider_than_its_window_and_no_labels_touch(
    tmp_path: Path, make: Callable[[Path], int], width: int
) -> None:
    page = tmp_path / "report.html"
    found = measured(page, width, make(page))
    assert found["wide"] <= width
    assert [overlapping(labels) for labels in found["labels"] if overlapping(labels)] == []


def test_what_a_failed_trial_printed_last_is_on_the_page(tmp_path: Path) -> None:
    studied(tmp_path / "study.html")
    assert "ValueError: no such" in (tmp_path / "study.html").read_text()
