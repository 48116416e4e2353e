"""What is said of studies: lists, descriptions, the live view."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from dovetail.api.study_row import BestTrial, StudyPage
from dovetail.cli.studies.study_follow import ending, new_best
from dovetail.cli.studies.study_view import (
    StudyScene,
    best_lines,
    curves,
    details,
    frame,
    trials_table,
)
from dovetail.client.study_rows import (
    STUDIES,
    counts_text,
    has_ended_well,
    promising_first,
    value_text,
)
from dovetail.daemon.studies.rows import row_in
from dovetail.text.tables import STYLES, columns_of, table
from golden_text import is_golden
from study_samples import OPENED, a_study, a_trial, in_the_middle

NOW = OPENED + 190
BEST = BestTrial(trial=0, value=0.5, step=1.0, settings={"\x1b[2J": "\n"})


@pytest.fixture(autouse=True)
def _in_greenwich(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def closed(**more: Any) -> StudyPage:
    said = {"state": "closed", "reason": "target reached", "target": 0.2, "reached_s": 61.0}
    return in_the_middle(**{**said, **more})


def with_odd_values() -> StudyPage:
    points = [[1, 0.9, 2.0], [2, None, 4.0], [3, None, 6.0]]
    diverged = a_trial(0, 3, "paused", points=points, value=None, best=0.9)
    never = a_trial(1, 1, "paused", points=[[1, None, 2.0]], value=None, best=None)
    return a_study([diverged, never, a_trial(2, 5, "running")])


def empty() -> StudyPage:
    return a_study([])


def test_a_study_is_shown_as_it_was_when_somebody_looked() -> None:
    study = closed(budget={"time": 7200, "gpu_hours": 10}, suspended_bytes=3_200_000_000)
    is_golden(
        "study/show.txt",
        "\n".join([*details(study, NOW), "", *trials_table(study, None, 100, False)]),
    )


def test_studies_are_listed_as_they_were_when_somebody_looked() -> None:
    rows = [
        row_in(in_the_middle()),
        row_in(closed(name="a-study-with-a-very-long-name", policy="asha-promote:rungs=1/3/9/27")),
        row_in(a_study([], name="fresh", state="stopped")),
    ]
    is_golden("study/list.txt", "\n".join(table(STUDIES, rows, room=100)))


def test_the_live_view_is_as_it_was_when_somebody_looked() -> None:
    study = in_the_middle(target=0.1)
    scenes = [frame(StudyScene(study), columns, lines, NOW, False) for columns, lines in _SIZES]
    is_golden("study/frame.txt", "\n\n".join("\n".join(lines) for lines in scenes))


_SIZES = ((100, 40), (80, 24), (50, 16))


@pytest.mark.parametrize(
    "study", [in_the_middle(), closed(), with_odd_values(), empty(), in_the_middle(state="stopped")]
)
def test_a_frame_fits_any_terminal(study: StudyPage) -> None:
    for columns, lines in ((200, 60), (100, 30), (80, 24), (40, 10), (20, 5), (5, 2)):
        for colours in (False, True):
            drawn = frame(StudyScene(study, away="gone " * 50), columns, lines, NOW, colours)
            assert len(drawn) <= lines
            for line in map(_visible, drawn):
                assert columns < 40 or columns_of(line) <= columns, line


def _visible(line: str) -> str:
    for code in (0, *STYLES.values()):
        line = line.replace(f"\x1b[{code}m", "")
    return line


def test_nothing_that_a_study_calls_itself_steers_the_terminal() -> None:
    evil = "\x1b[2J名\n"
    trials = [a_trial(0, 3, "running", settings={evil: evil}, reason=evil)]
    study = a_study(trials, name=evil, metric=evil, policy=evil, user=evil, reason=evil)
    said = [
        *frame(StudyScene(study, away=evil), 100, 40, NOW, False), *details(study, NOW),
        *best_lines(study), *ending(study), new_best(evil, study, BEST), *curves(study, (80, 20), False),
        *table(STUDIES, [row_in(study)], room=100), *trials_table(study, None, 100, False),
    ]  # fmt: skip
    assert not any("\x1b" in line or "\n" in line for line in said)


def test_a_study_without_trials_can_be_looked_at() -> None:
    assert "no value yet" in "\n".join(details(empty(), NOW))
    assert "no value has been reported" in curves(empty(), (80, 20), False)[0]
    assert len(trials_table(empty(), None, 100, False)) == 1


def test_what_a_switch_takes_is_not_told_before_one_was_measured() -> None:
    guessed = a_study([a_trial(0)], switches=2, switch={"seconds": 0.4, "rung": ""})
    assert details(guessed, NOW)[-1].split() == ["switches", "2"]


def test_every_trial_is_in_a_count() -> None:
    study = a_study([a_trial(0, 3, "paused"), a_trial(1, 3, "paused"), a_trial(2), a_trial(3)])
    assert counts_text(study) == "0 of 4 trials done, 2 paused, 2 not begun"
    assert counts_text(replace(study, planned=6)) == "0 of 6 trials done, 2 paused, 4 not begun"
    assert counts_text(row_in(study)) == counts_text(study)


@pytest.mark.parametrize("steps", [0, 1, 24])
def test_steps_that_do_not_fit_the_study_are_asked_about(steps: int) -> None:
    trials = [a_trial(0, 8, "done"), a_trial(3, steps, "done"), a_trial(4, 1, "paused")]
    study = a_study(trials, steps=8)
    told = f"trial 3 ended after {steps} of 8 steps: does the script report every step, counted "
    assert details(study, NOW)[-1] == f"warning   {told}from 1?"
    study = a_study([a_trial(n, steps, "done") for n in range(3)], steps=40, report_every=5)
    assert (
        f"{steps} of 8 reports (2 more likewise): does the script report every 5 steps"
        in (details(study, NOW)[-1])
    )


@pytest.mark.parametrize("steps", [5, 8, 9])
def test_steps_that_nearly_fit_are_not_asked_about(steps: int) -> None:
    study = a_study([a_trial(0, steps, "done"), a_trial(1)], steps=8)
    assert "warning" not in "\n".join(details(study, NOW))


QUIET = {"trials": [4, 2], "job": "5", "seconds": 600.0, "usual_s": 2.0, "told": []}
UNHEARD = {"trials": [0], "job": "1", "seconds": 120.0, "usual_s": None, "told": ["loss"]}


@pytest.mark.parametrize(
    ("quiet", "told"),
    [
        (
            QUIET,
            "trial 4 has reported nothing new for 10 min (1 more likewise), where 2 s is usual",
        ),
        (UNHEARD, "no trial has reported val_loss yet after 2 min; trial 0 reported: loss"),
        (
            {**UNHEARD, "told": []},
            "no trial has reported val_loss yet after 2 min; have the script",
        ),
        ({**UNHEARD, "printed": ["3 of 9 ok"], "pattern": ""}, "; it printed: 3 of 9 ok; have the"),
    ],
)
def test_trials_that_say_nothing_are_warned_of(quiet: dict[str, Any], told: str) -> None:
    study = in_the_middle(quiet=quiet)
    shown = details(study, NOW)[-1]
    assert shown.startswith("warning ")
    assert told in shown
    assert shown.endswith(f" logs {quiet['job']}")
    is_mute = not quiet["told"] and "printed" not in quiet
    assert ("a time_limit ends trials that hang" in shown) == is_mute
    assert ("the study's metric_pattern" in shown) == (quiet["usual_s"] is None)
    drawn = " ".join(_visible(line) for line in frame(StudyScene(study), 60, 30, NOW))
    assert told in drawn
    assert "warning" not in "\n".join(details(in_the_middle(), NOW))


def test_values_that_are_no_numbers_are_told_and_come_last() -> None:
    study = with_odd_values()
    assert [trial.number for trial in promising_first(study)] == [2, 0, 1]
    shown = trials_table(study, None, 100, False)
    assert "nan" in shown[2]
    assert "nan" in shown[3]
    assert value_text(None) == "-"


def test_of_an_accuracy_the_highest_is_most_promising() -> None:
    study = in_the_middle(direction="max")
    values = [trial.best for trial in promising_first(study) if trial.best is not None]
    assert values == sorted(values, reverse=True)


def test_the_ending_says_what_came_of_it() -> None:
    assert ending(closed()) == [
        "Study digits closed after 3 min 10 s: target reached; 1 of 9 trials done, 2 running, 3 paused, "
        "1 failed, 2 not begun.",
        "Best: val_loss 0.1979 by trial 0 at step 27 (lr 0.1, units 16, optimizer sgd).",
        "Target: 0.2, reached after 1 min 1 s.",
    ]
    hopeless = a_study([a_trial(0, 0, "failed")], state="closed", reason="every trial failed")
    assert ending(hopeless)[1].startswith("No trial reported val_loss")


def test_a_study_ended_well_if_it_closed_with_something_to_show() -> None:
    assert has_ended_well(closed())
    assert not has_ended_well(in_the_middle())
    assert not has_ended_well(a_study([a_trial(0, 0, "failed")], state="closed"))


def test_best_settings_are_told_in_full() -> None:
    study = in_the_middle()
    assert study.best is not None
    study.best.settings = {"lr": 0.0041968326979037966, "nesterov": True}
    assert best_lines(study) == [
        "val_loss 0.1979 by trial 0 at step 27 of study digits (still open)",
        "  lr        0.0041968326979037966",
        "  nesterov  true",
    ]
