"""What is said of studies: lists, descriptions, the live view."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dovetail.app.live.listing import STYLES, columns_of, table
from dovetail.app.live.study_follow import ending, new_best
from dovetail.app.live.study_rows import STUDIES, has_ended_well, promising_first, value_text
from dovetail.app.live.study_view import Scene, best_lines, curves, details, frame, trials_table
from golden_text import is_golden
from study_samples import OPENED, a_row, a_study, a_trial, in_the_middle

NOW = OPENED + 190


@pytest.fixture(autouse=True)
def _in_greenwich(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def closed(**more: Any) -> dict[str, Any]:
    said = {"state": "closed", "reason": "target reached", "target": 0.2, "reached_s": 61.0}
    return in_the_middle(**{**said, **more})


def with_odd_values() -> dict[str, Any]:
    points = [[1, 0.9, 2.0], [2, "NaN", 4.0], [3, "Infinity", 6.0]]
    diverged = a_trial(0, 3, "paused", points=points, value="Infinity", best=0.9)
    never = a_trial(1, 1, "paused", points=[[1, "NaN", 2.0]], value="NaN", best=None)
    return a_study([diverged, never, a_trial(2, 5, "running")])


def empty() -> dict[str, Any]:
    return a_study([])


def test_a_study_is_shown_as_it_was_when_somebody_looked() -> None:
    study = closed(budget={"time": 7200, "gpu_hours": 10}, suspended_bytes=3_200_000_000)
    is_golden(
        "study/show.txt",
        "\n".join([*details(study, NOW), "", *trials_table(study, None, 100, False)]),
    )


def test_studies_are_listed_as_they_were_when_somebody_looked() -> None:
    rows = [
        a_row(in_the_middle()),
        a_row(closed(name="a-study-with-a-very-long-name", policy="asha-promote:rungs=1/3/9/27")),
        a_row(a_study([], name="fresh", state="stopped")),
    ]
    is_golden("study/list.txt", "\n".join(table(STUDIES, rows, room=100)))


def test_the_live_view_is_as_it_was_when_somebody_looked() -> None:
    study = in_the_middle(target=0.1)
    scenes = [frame(Scene(study), columns, lines, NOW, False) for columns, lines in _SIZES]
    is_golden("study/frame.txt", "\n\n".join("\n".join(lines) for lines in scenes))


_SIZES = ((100, 40), (80, 24), (50, 16))


@pytest.mark.parametrize(
    "study", [in_the_middle(), closed(), with_odd_values(), empty(), in_the_middle(state="stopped")]
)
def test_a_frame_fits_any_terminal(study: dict[str, Any]) -> None:
    for columns, lines in ((200, 60), (100, 30), (80, 24), (40, 10), (20, 5), (5, 2)):
        for colours in (False, True):
            drawn = frame(Scene(study, away="gone " * 50), columns, lines, NOW, colours)
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
        *frame(Scene(study, away=evil), 100, 40, NOW, False), *details(study, NOW),
        *best_lines(study), *ending(study), new_best(study, study), *curves(study, (80, 20), False),
        *table(STUDIES, [a_row(study)], room=100), *trials_table(study, None, 100, False),
    ]  # fmt: skip
    assert not any("\x1b" in line or "\n" in line for line in said)


def test_a_study_without_trials_can_be_looked_at() -> None:
    assert "no value yet" in "\n".join(details(empty(), NOW))
    assert "no value has been reported" in curves(empty(), (80, 20), False)[0]
    assert len(trials_table(empty(), None, 100, False)) == 1


def test_values_that_are_no_numbers_are_told_and_come_last() -> None:
    study = with_odd_values()
    assert [trial["number"] for trial in promising_first(study)] == [2, 0, 1]
    shown = trials_table(study, None, 100, False)
    assert "inf" in shown[2]
    assert "nan" in shown[3]
    assert value_text(None) == "-"


def test_of_an_accuracy_the_highest_is_most_promising() -> None:
    study = in_the_middle(direction="max")
    values = [trial["best"] for trial in promising_first(study) if trial["best"] is not None]
    assert values == sorted(values, reverse=True)


def test_the_ending_says_what_came_of_it() -> None:
    assert ending(closed()) == [
        "Study digits closed after 3 min: target reached; 1 of 9 trials done, 2 running, 3 paused, "
        "1 failed.",
        "Best: val_loss 0.1979 by trial 0 at step 27 (lr 0.1, units 16, optimizer sgd).",
        "Target: 0.2, reached after 1 min.",
    ]
    hopeless = a_study([a_trial(0, 0, "failed")], state="closed", reason="every trial failed")
    assert ending(hopeless)[1].startswith("No trial reported val_loss")


def test_a_study_ended_well_if_it_closed_with_something_to_show() -> None:
    assert has_ended_well(closed())
    assert not has_ended_well(in_the_middle())
    assert not has_ended_well(a_study([a_trial(0, 0, "failed")], state="closed"))


def test_best_settings_are_told_in_full() -> None:
    study = in_the_middle()
    study["best"]["settings"] = {"lr": 0.0041968326979037966, "nesterov": True}
    assert best_lines(study) == [
        "val_loss 0.1979 by trial 0 at step 27 of study digits (still open)",
        "  lr        0.0041968326979037966",
        "  nesterov  true",
    ]
