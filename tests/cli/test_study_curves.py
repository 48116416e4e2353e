"""Learning curves in a terminal."""

from __future__ import annotations

import time
from math import exp, inf, nan

import pytest

from dovetail.text.curves import BEST, RUNNING, Curve, Titles, chart, scale_of
from dovetail.text.tables import STYLES, columns_of
from golden_text import is_golden

TITLES = Titles("step", "val_loss", note="trial 3: 0.1")


def falling(number: int, steps: int = 27, decades: float = 0.0) -> Curve:
    floor, speed = 0.1 + 0.09 * (number * 5 % 9), 0.1 + 0.05 * (number * 7 % 11)
    points = [
        (float(s), (floor + 2.2 * exp(-speed * s)) * 10 ** (-decades * s / steps))
        for s in range(1, steps + 1)
    ]
    return Curve(points)


def some(decades: float = 0.0) -> list[Curve]:
    curves = [falling(n, 27 if n < 3 else 9 if n < 6 else 3, decades) for n in range(9)]
    return [curves[0]._replace(layer=BEST), curves[1]._replace(layer=RUNNING), *curves[2:]]


def test_curves_look_as_they_did_when_somebody_looked() -> None:
    pictures = [
        chart(some(), TITLES, (100, 20), until=27, target=0.3),
        chart(some(), TITLES, (60, 14), until=27),
        chart(some(decades=3), TITLES, (80, 16), until=27),
        chart(some(), TITLES, (30, 8), until=27),
    ]
    is_golden("study/curves.txt", "\n\n".join("\n".join(lines) for lines in pictures))


@pytest.mark.parametrize("columns", [24, 40, 80, 100, 237])
@pytest.mark.parametrize("lines", [6, 9, 24, 60])
def test_a_picture_fits_whatever_room_there_is(columns: int, lines: int) -> None:
    for colours in (False, True):
        drawn = chart(some(), TITLES, (columns, lines), until=27, target=0.2, colours=colours)
        assert len(drawn) == lines
        assert max(columns_of(without_colours(line)) for line in drawn) <= columns


def test_where_there_is_no_room_nothing_is_drawn() -> None:
    assert chart(some(), TITLES, (23, 20)) == []
    assert chart(some(), TITLES, (100, 5)) == []


def without_colours(line: str) -> str:
    for code in (0, *STYLES.values()):
        line = line.replace(f"\x1b[{code}m", "")
    return line


def test_the_best_is_painted_or_marked_where_there_is_no_paint() -> None:
    painted = "\n".join(chart(some(), TITLES, (80, 20), colours=True))
    plain = "\n".join(chart(some(), TITLES, (80, 20)))
    assert "\x1b[32m" in painted
    assert "\x1b" not in plain
    assert plain.count("●") > 20


def test_values_over_decades_get_a_logarithmic_scale_and_others_do_not() -> None:
    assert scale_of([1e-4, 1e-3, 1.0], None, minimise=True).is_log
    assert not scale_of([0.1, 0.5, 1.0], None, minimise=True).is_log
    assert not scale_of([-1.0, 0.001, 1000.0], None, minimise=True).is_log


@pytest.mark.parametrize("sign", [1, -1])
def test_a_trial_that_diverged_does_not_flatten_all_others(sign: int) -> None:
    values = [sign * (1 + n / 100) for n in range(100)]
    scale = scale_of([*values, sign * 1e30], None, minimise=sign > 0)
    assert max(abs(scale.low), abs(scale.high)) < 10
    drawn = chart([falling(0), Curve([(1.0, 2.0), (2.0, 1e30)])], TITLES, (80, 20), minimise=True)
    assert "(1 off the scale)" in drawn[0]


def test_values_that_are_no_numbers_leave_gaps() -> None:
    holed = Curve([(1.0, 1.0), (2.0, nan), (3.0, inf), (9.0, 1.0), (10.0, 0.5)])
    drawn = chart([holed], TITLES, (60, 12))
    dotted = {line.index(c) for line in drawn[1:-2] for c in line if "\u2800" < c <= "\u28ff"}
    assert not any(14 < column < 45 for column in dotted)
    assert chart([Curve([(1.0, nan)])], TITLES, (60, 12)) == [
        "val_loss: no value has been reported yet"
    ]
    assert chart([], TITLES, (60, 12)) == ["val_loss: no value has been reported yet"]


def test_equal_values_are_drawn_too() -> None:
    assert len(chart([Curve([(1.0, 0.0), (2.0, 0.0)])], TITLES, (60, 12))) == 12


def test_a_thousand_curves_of_a_thousand_points_are_drawn_at_once() -> None:
    curves = [falling(number, 1000) for number in range(1000)]
    begun = time.process_time()
    chart(curves, TITLES, (200, 50), until=1000)
    assert time.process_time() - begun < 2.0
