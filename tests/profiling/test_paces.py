"""From reports and their times to a speed."""

from __future__ import annotations

import pytest

from dovetail.profiling.calibrating import WatchedCopy, enough, pace, window


def copy(first_at: float, every_s: float, steps: int, launched_at: float = 0.0) -> WatchedCopy:
    made = WatchedCopy(launched_at)
    for number in range(steps):
        made.hear(first_at + number * every_s, number + 1)
    return made


def test_start_up_is_apart_from_the_speed() -> None:
    found = pace([copy(first_at=3.5, every_s=0.5, steps=9)])
    assert found is not None
    assert found.steps_per_s == pytest.approx(2.0)
    assert found.startup_s == pytest.approx(3.0), "the first report tells of a step that took 0.5 s"


def test_only_the_time_counts_in_which_all_copies_were_at_work() -> None:
    early, late = copy(1.0, 0.5, 40), copy(6.0, 1.0, 5)
    early.reports[:10] = [(1.0 + 0.1 * n, n + 1) for n in range(10)]  # quick while it was alone
    late.ended_at = 11.0
    assert window([early, late]) == (6.0, 10.0)
    found = pace([early, late])
    assert found is not None
    assert found.steps_per_s == pytest.approx((2.0 + 1.0) / 2)
    assert found.shutdown_s == pytest.approx(1.0)


def test_reports_of_every_tenth_step_count_as_ten() -> None:
    made = WatchedCopy()
    for number in range(1, 6):
        made.hear(2.0 + number, 10 * number)
    found = pace([made])
    assert found is not None
    assert found.steps_per_s == pytest.approx(10.0)
    assert found.startup_s == pytest.approx(2.0)


def test_reports_without_a_step_are_counted() -> None:
    made = WatchedCopy()
    for at in (1.0, 2.0, 3.0, 4.0):
        made.hear(at, None)
    assert [step for _, step in made.reports] == [1, 2, 3, 4]


def test_three_reports_are_too_few() -> None:
    assert pace([copy(1.0, 1.0, 3)]) is None
    assert pace([copy(1.0, 1.0, 9), WatchedCopy()]) is None


def test_enough_is_heard_when_every_copy_has_stepped_long_enough() -> None:
    copies = [copy(1.0, 0.5, 10), copy(2.0, 0.5, 10)]
    assert not enough(copies, seconds=5.0, now=6.0)
    assert enough(copies, seconds=4.0, now=6.5)
    assert not enough([copies[0], WatchedCopy()], seconds=4.0, now=100.0)
