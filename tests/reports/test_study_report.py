"""The page of a study as a reader gets it: safe, bounded, whole, and honest about what it replays."""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.study_row import StudyPage, TrialRow
from dovetail.reports.study_data import MOST_POINTS, MOST_STINTS, best_over_time, data_of
from dovetail.reports.study_page import write_study
from dovetail.reports.study_replays import Others, others_of, recorded
from dovetail.tune.board import Mirror
from dovetail.workloads.study.kind import studies_of
from html_page import Elements, assert_drawn, browsed, embedded_in
from study_samples import a_study, a_trial, in_the_middle
from study_state import Lived, design

HOSTILE = "</script><script>alert(1)</script><!--\"'&\u2028\u2029\ud800$title{{"
RULES = ("fifo", "round-robin")


def a_page(tmp_path: Path, study: StudyPage, others: Others | None = None) -> str:
    path = tmp_path / "study.html"
    write_study(path, study, others or others_of(study, RULES))
    return path.read_text("utf-8")


def a_run(**more: Any) -> StudyPage:
    return in_the_middle(**{"policy": "round-robin", **more})


def hostile() -> StudyPage:
    trials = [
        a_trial(n, 3, "paused", reason=HOSTILE, settings={HOSTILE: HOSTILE}, job=HOSTILE)
        for n in range(3)
    ]
    for trial in trials:
        trial.stints = [(0.0, 5.0, HOSTILE)]
    return a_study(trials, name=HOSTILE, metric=HOSTILE, reason=HOSTILE, policy=HOSTILE)


def test_hostile_names_settings_and_reasons_cannot_break_out(tmp_path: Path) -> None:
    row = others_of(a_run(), RULES).rows[0]
    page = a_page(tmp_path, hostile(), Others([replace(row, policy=HOSTILE)], [HOSTILE]))
    assert Elements(page).tags.count("script") == 2
    assert "alert(1)</script>" not in page
    assert "\u2028" not in page.partition('id="data"')[2]


def test_the_page_is_one_file_that_names_no_other(tmp_path: Path) -> None:
    page = a_page(tmp_path, a_run())
    assert Elements(page).addresses == []
    assert set(re.findall(r"https?://[^\"' ]*", page)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page
    assert not re.search(r"\bimport\b\s*[({'\"]|@import|url\(|fetch\(", page)


def with_odd_values() -> StudyPage:
    points = [[1, 0.9, 2.0], [2, None, 4.0], [3, None, 6.0]]
    diverged = a_trial(0, 3, "paused", points=points, value=None, best=0.9)
    never = a_trial(1, 1, "paused", points=[[1, None, 2.0]], value=None, best=None)
    return a_study([diverged, never, a_trial(2, 5, "running")], policy="fifo")


@pytest.mark.parametrize(
    "study",
    [
        a_study([], policy="fifo"),
        a_study([a_trial(0)], policy="fifo"),
        a_study([a_trial(0, 1, "failed")], policy="fifo"),
        with_odd_values(),
        a_run(direction="max", steps=1),
    ],
)
def test_a_study_with_little_to_draw_still_gives_a_page(tmp_path: Path, study: StudyPage) -> None:
    assert len(embedded_in(a_page(tmp_path, study))["trials"]) == len(study.trials)


def test_values_that_are_no_numbers_are_gaps_and_are_counted(tmp_path: Path) -> None:
    data = data_of(with_odd_values(), {})
    assert data["trials"][0]["curve"]["values"] == [0.9, None, None]
    assert data["curves_note"].startswith("3 values were no finite numbers")


def test_the_best_over_time_only_gets_better() -> None:
    study = a_run()
    found = best_over_time(study.trials, minimise=True)
    assert [at for at, _, _ in found] == sorted(at for at, _, _ in found)
    assert [value for _, value, _ in found] == sorted((v for _, v, _ in found), reverse=True)
    assert study.best is not None
    assert found[-1][1] == study.best.value
    assert found[-1][2] == study.best.trial


def test_a_thousand_trials_of_a_thousand_points_stay_quick_and_small(tmp_path: Path) -> None:
    points = [[step, 1.0 / step, 0.5 * step] for step in range(1, 1001)]
    stints = [[10.0 * n, 10.0 * n + 5 + n, f"gpu {n % 8}"] for n in range(20)]
    more = {"points": points, "best": 0.001, "value": 0.001, "stints": stints}
    trials = [replace(a_trial(n, 0, "done", **more), steps=1000) for n in range(1000)]
    study = a_study(trials, steps=1000, policy="fifo")
    begun = time.process_time()
    page = a_page(tmp_path, study)
    assert time.process_time() - begun < 8.0
    assert len(page) < 6_000_000
    data = embedded_in(page)
    assert sum(len(t["curve"]["values"]) for t in data["trials"]) <= MOST_POINTS + len(trials)
    drawn = sum(len(t["stints"]) for t in data["trials"])
    assert 0 < drawn <= MOST_STINTS
    assert f"the {drawn:,} longest of 20,000 stints" in data["gpus_note"]
    assert "too many to replay" in page


@pytest.mark.parametrize(
    ("state", "told"),
    [("open", "No trial has reported val_loss yet."), ("closed", "No trial reported val_loss.")],
)
def test_a_study_without_values_says_so(tmp_path: Path, state: str, told: str) -> None:
    assert told in a_page(tmp_path, a_study([a_trial(0)], state=state))


# ------------------------------------------------------------------------------- other policies


@pytest.mark.parametrize("own", ["pbt", "pbt:every=4", "hypersched"])
def test_a_policy_is_in_a_row_or_left_out_and_never_both(own: str) -> None:
    others = others_of(a_run(policy=own), RULES)
    assert {row.policy for row in others.rows} == set(RULES)
    assert f"{own.partition(':')[0]}, the policy of this study, which" in others.notes[-1]
    assert "own policy too" not in others.notes[0]
    usual = others_of(a_run(), RULES).notes
    assert usual[-1] == (
        "Left out: pbt, which changes settings half-way, and hypersched, which needs a deadline."
    )
    assert "Every row, this study's own policy too, is a replay" in usual[0]


def test_a_replay_knows_slots_steps_and_what_nobody_has_seen() -> None:
    found = recorded(a_run())
    assert found is not None
    assert found.slots == 6  # of the made-up study, so many hold a GPU at some moment
    assert {len(curve) for curve in found.curves} == {27}
    assert set(found.step_s[:6]) == {2.0}
    assert (found.unfinished, found.unbegun) == (6, 2)
    assert found.curves[7] == found.curves[8]
    assert min(found.curves[7]) > max(curve[0] for curve in found.curves[:7])


@pytest.mark.parametrize(
    "points",
    [
        [(3, 0.9), (5, 0.7)],  # a gap before the first, and one between
        [(0, 0.9), (1, "NaN"), (4, 0.5)],  # counted from 0
        [
            (1, 0.9),
            (2.5, 0.8),
            (2.8, 0.6),
            (9, 0.4),
            (10, 0.2),
        ],  # within a step, and beyond the last
    ],
)
def test_a_replay_sees_the_steps_that_the_policy_saw(points: list[tuple[float, Any]]) -> None:
    lived = Lived()
    lived.open(design(trials=2, steps=8))
    for at, (step, value) in enumerate(points, 1):
        lived.report("s1.0", step, value, float(at))
    saw = Mirror(studies_of(lived.state).open["s1"])
    saw.learn(0)
    told = a_trial(
        0,
        points=[[step, None if value == "NaN" else value, 1.0] for step, value in points],
        steps=8,
    )
    found = recorded(a_study([told, a_trial(1, 8, "done")], steps=8))
    assert found is not None
    seen = saw.study.trials[0].losses
    replayed = found.curves[0][: len(seen)]
    assert [own for own, loss in zip(replayed, seen, strict=True) if isfinite(loss)] == [
        loss for loss in seen if isfinite(loss)
    ]


def test_pauses_do_not_count_as_time_of_a_step() -> None:
    points = [[1, 0.9, 1.0], [2, 0.8, 2.0], [3, 0.7, 101.0], [4, 0.6, 102.0]]
    stints = [[0.0, 2.0, "gpu 0"], [100.0, 102.0, "gpu 1"]]
    paused = a_trial(0, 4, "done", points=points, stints=stints, best=0.6, value=0.6)
    found = recorded(a_study([paused, a_trial(1, 4, "done")], steps=4))
    assert found is not None
    assert found.step_s[0] == 1.0


def test_of_turns_of_one_step_the_time_is_known_from_the_stints() -> None:
    points = [[1, 0.9, 1.25], [2, 0.8, 11.25]]
    stints = [[0.0, 1.25, "gpu 0"], [10.0, 11.25, "gpu 0"]]
    in_turns = a_trial(0, 2, "done", points=points, stints=stints, best=0.8, value=0.8)
    switch = {"seconds": 0.25, "rung": "freeze"}
    found = recorded(a_study([in_turns, a_trial(1, 2, "done")], steps=2, switch=switch))
    assert found is not None
    assert found.step_s[0] == 1.0


def test_reports_that_are_missing_repeat_the_one_before() -> None:
    points = [[2, 0.9, 1.0], [6, 0.5, 3.0], [8, 0.4, 4.0]]
    rare = a_trial(0, 4, "done", points=points, best=0.4, value=0.4)
    found = recorded(a_study([rare, a_trial(1, 8, "done")], steps=8, report_every=2))
    assert found is not None
    assert found.curves[0] == (0.9, 0.9, 0.5, 0.4)
    assert found.step_s[0] == 1.0  # a step of the rule is two of the trial's


def test_an_accuracy_that_was_never_seen_is_bad_not_good() -> None:
    accuracy = [[step, 0.5 + step / 100, 2.0 * step] for step in range(1, 28)]
    seen = a_trial(0, 27, "done", points=accuracy, best=0.77, value=0.77)
    found = recorded(a_study([seen, a_trial(1)], direction="max"))
    assert found is not None
    assert min(found.curves[1]) > max(found.curves[0])


def test_all_policies_are_measured_against_fifo_and_the_fastest_comes_first() -> None:
    others = others_of(a_run(), RULES)
    times = [row.to_target_s for row in others.rows]
    assert times == sorted(times)
    by_name = {row.policy: row for row in others.rows}
    assert by_name["fifo"].speedup == 1.0
    assert [name for name, row in by_name.items() if row.own] == ["round-robin"]


def test_the_page_says_what_was_not_trained_to_the_end(tmp_path: Path) -> None:
    page = a_page(tmp_path, a_run())
    assert "6 trials of 9 were not trained to the end here, and 2 never began" in page
    assert "not what else there was to find" in page
    whole = a_study([a_trial(n, 27, "done") for n in range(4)], policy="fifo")
    assert "were not trained to the end" not in a_page(tmp_path, whole)


def test_a_policy_that_cannot_be_replayed_is_named(tmp_path: Path) -> None:
    others = others_of(a_run(), ("fifo", "no-such-rule"))
    assert any(note.startswith("no-such-rule could not be replayed") for note in others.notes)


def with_huge_values() -> StudyPage:
    study = a_run()
    for trial, value in zip(study.trials, (1e308, -1e308, 5e307, 1.7e308), strict=False):
        trial.points = [(step, value / step, at) for step, _, at in trial.points]
        trial.value = trial.best = value
    return study


def test_values_near_the_largest_there_is_are_replayed_under_every_policy() -> None:
    others = others_of(with_huge_values())
    assert not [note for note in others.notes if "could not be replayed" in note]


def test_a_policy_that_cannot_calculate_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(*_: object) -> float:
        return 1e200**2

    monkeypatch.setattr("dovetail.reports.study_replays._replayed", overflow)
    assert others_of(a_run(), ("fifo",)).notes[-1] == (
        "fifo could not be replayed: it cannot calculate with values as large or as small as these."
    )


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_huge_values_are_short_in_the_table_of_trials(tmp_path: Path) -> None:
    a_page(tmp_path, with_huge_values())
    shown = browsed(tmp_path / "study.html", 6)
    assert_drawn(shown, 6)
    assert ">5e307<" in shown
    assert "000,000,000" not in shown


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize(
    ("make", "charts"), [(a_run, 6), (hostile, 4), (lambda: a_study([], policy="fifo"), 0)]
)
def test_a_browser_draws_the_page_without_an_error(tmp_path: Path, make: Any, charts: int) -> None:
    a_page(tmp_path, make())
    assert_drawn(browsed(tmp_path / "study.html", charts), charts)


def slow_to_start(number: int, start_s: float = 6.0, step_s: float = 0.25) -> TrialRow:
    """Alone on a slot, after those before it: its first step begins when its libraries are there."""
    begun = number * (start_s + 4 * step_s)
    points = [[step, 1 / (number + step), begun + start_s + step_s * step] for step in range(1, 5)]
    told = {"points": points, "best": points[-1][1], "value": points[-1][1]}
    return a_trial(number, 4, "done", **told, stints=[[begun, points[-1][2], "slot 0"]])


def test_a_replay_of_the_studys_own_policy_takes_what_was_measured_starts_included() -> None:
    trials = [slow_to_start(number) for number in range(4)]
    switch = {"seconds": 0.01, "rung": "freeze"}
    study = a_study(trials, policy="fifo", steps=4, switch=switch)
    found = recorded(study)
    assert found is not None
    assert found.start_s == pytest.approx(6.0)
    own = next(row for row in others_of(study, ("fifo",)).rows if row.own)
    reached = trials[3].points[-1][2]  # the last step of the last is the best
    assert own.to_target_s == pytest.approx(reached)
    assert "6 s for the start of a trial" in others_of(study, ("fifo",)).notes[0]


def test_the_time_before_the_first_trial_ran_is_in_no_row_and_not_in_what_was_measured() -> None:
    trials = [slow_to_start(number) for number in range(2)]
    for trial in trials:
        trial.points = [(step, value, at + 100) for step, value, at in trial.points]
        trial.stints = [
            (begun + 100, (ended or 0.0) + 100, on) for begun, ended, on in trial.stints
        ]
    notes = others_of(a_study(trials, policy="fifo", steps=4), ("fifo",)).notes
    assert "Measured here: 14.0 s" in notes[0] or "Measured here: 14 s" in notes[0]
