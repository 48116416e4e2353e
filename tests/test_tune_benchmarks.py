"""The benchmarks of studies count as they say."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import digits, tune_vs_peers
from benchmarks.studies import Point, Studied
from benchmarks.tune_vs_peers import Event, Run


def a_run(*losses: float) -> Run:
    events = [Event(at=float(number), loss=loss) for number, loss in enumerate(losses, 1)]
    return Run(events, seconds=100.0, peak_mb=50.0)


def test_epochs_of_all_trials_count_until_the_first_at_the_target() -> None:
    assert a_run(0.9, 0.5, 0.3, 0.2).to_target(0.3) == (3.0, 3, True)


def test_who_threw_the_best_setting_away_is_counted_with_all_it_did() -> None:
    assert a_run(0.9, 0.5).to_target(0.3) == (100.0, 2, False)
    told = tune_vs_peers.table({"theirs": [a_run(0.9, 0.5), a_run(0.2)]}, 0.3)
    assert "| theirs | 1.5 | 50.5 | 1 of 2 |" in told


def test_we_must_need_fewer_epochs_than_each_of_them() -> None:
    runs = {"dovetail": [a_run(0.9, 0.1)], "slow": [a_run(0.9, 0.9, 0.1)], "quick": [a_run(0.1)]}
    assert [line.holds for line in tune_vs_peers.judged(runs, 0.2)] == [True, False]


def test_the_target_lies_a_hundredth_of_the_way_from_the_best_to_the_median() -> None:
    assert digits.target([(1.0, 0.5), (2.0, 1.5), (3.0, 3.5)]) == 0.5 + 0.01 * (1.5 - 0.5)


def test_an_order_is_all_settings_shuffled_and_always_the_same() -> None:
    assert sorted(digits.order(3)) == list(range(27))
    assert digits.order(3) == digits.order(3) != digits.order(4)


def test_the_settings_are_those_that_the_study_draws() -> None:
    settings = digits.settings()
    assert len(settings) == len({tuple(own.items()) for own in settings}) == 27
    assert set(settings[0]) == set(digits.described()["space"])


def test_a_study_is_read_back_as_curves() -> None:
    points = [Point(1.0, 0, 1, 0.9), Point(2.0, 1, 1, 0.8), Point(3.0, 0, 2, 0.2)]
    found = Studied(points, startup_s=0.1, switches=2, reason="")
    assert found.curves() == {0: [0.9, 0.2], 1: [0.8]}
    assert found.to_target(0.5) == (3.0, 3)


def test_who_starts_over_makes_the_epochs_before_once_more_each_time() -> None:
    points = [Point(1.0, 0, 1, 0.9), Point(2.0, 1, 1, 0.8), Point(3.0, 0, 2, 0.2)]
    resumed_at = {0: [2.5, 4.0], 1: []}
    found = Studied(points, startup_s=0.1, switches=2, reason="", resumed_at=resumed_at)
    assert found.started_over() == 3 + 1 + 2
