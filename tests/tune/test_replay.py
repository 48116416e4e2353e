"""Studies replayed on recorded curves."""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from random import Random

import pytest

from dovetail.core.errors import BadInput
from dovetail.tune.comparison import Race, Terms, geometric_mean, interval, race, summary
from dovetail.tune.recorded import Task
from dovetail.tune.replay import DrawnTrials, ReplayRun, draw, replay
from dovetail.tune.rules import make

FALLING = tuple((float(level), level - 1.0, level - 2.0) for level in (9, 5, 7, 3))


def task(configurations: int = 40, steps: int = 6, seed: int = 1) -> Task:
    chance = Random(seed)
    curves = tuple(
        tuple(sorted((chance.random() for _ in range(steps)), reverse=True))
        for _ in range(configurations)
    )
    return Task("made", curves, tuple((2.0,) * steps for _ in curves))


def test_a_draw_is_of_different_configurations_and_the_same_for_every_rule() -> None:
    drawn = draw(task(), 32, 5)
    assert len(set(drawn.curves)) == 32
    assert drawn == draw(task(), 32, 5)
    assert drawn.curves != draw(task(), 32, 6).curves


def test_the_target_is_a_hundredth_of_the_way_from_the_best_to_the_median() -> None:
    ends = (4.0, 2.0, 1.0, 3.0)
    drawn = draw(Task("t", tuple((9.0, end, 8.0) for end in ends)), 4, 0)
    assert drawn.target == pytest.approx(1.0 + 0.01 * (2.5 - 1.0))


def test_too_few_configurations_are_told() -> None:
    with pytest.raises(BadInput, match="has 40 configurations, fewer than the 41 to draw"):
        draw(task(), 41, 0)


def test_fifo_pays_a_switch_for_every_first_start_and_none_between() -> None:
    """Two slots: trials 0 and 1 until 3.25, then 2 and 3 until 6.5."""
    run = replay(make("fifo"), DrawnTrials(FALLING, None, 1.0), slots=2, switch_cost=0.25)
    assert (run.steps, run.switches, run.peak_suspended, run.end) == (12, 4, 0, 6.5)
    assert (run.to_target, run.best_done, run.best_killed) == (6.5, 6.5, False)


def test_round_robin_pays_at_every_step_and_suspends_the_others() -> None:
    run = replay(make("round-robin"), DrawnTrials(FALLING, None, 1.0), slots=1, switch_cost=0.5)
    assert (run.switches, run.end, run.peak_suspended) == (12, 18.0, 3)


def test_the_target_is_reached_by_whoever_gets_there_first() -> None:
    run = replay(make("fifo"), DrawnTrials(FALLING, None, 4.0), slots=1, switch_cost=0.0)
    assert run.to_target == 5.0  # by trial 1, in its second step; trial 3 is the best
    assert run.best_done == 12.0


def test_the_clairvoyant_order_begins_with_the_best() -> None:
    drawn = DrawnTrials(FALLING, None, 1.0).in_order_of_their_ends()
    assert [curve[0] for curve in drawn.curves] == [3.0, 5.0, 7.0, 9.0]
    assert replay(make("fifo"), drawn, slots=1, switch_cost=0.0).to_target == 3.0


def test_steps_last_as_long_as_recorded_if_asked() -> None:
    drawn = draw(Task("t", FALLING, ((1.0,) * 3, (3.0,) * 3, (1.0,) * 3, (3.0,) * 3)), 4, 0, True)
    run = replay(make("fifo"), drawn, slots=1, switch_cost=0.0)
    assert run.end == pytest.approx(12.0)  # in mean steps
    assert run == replay(make("fifo"), drawn, slots=1, switch_cost=0.0)


def test_seconds_that_were_not_recorded_are_told() -> None:
    with pytest.raises(BadInput, match="has no recorded seconds"):
        draw(Task("t", FALLING), 4, 0, True)


def test_the_best_is_killed_when_it_is_given_up() -> None:
    """The best begins as the worst."""
    curves = ((3.0, 3.0, 3.0), (2.0, 2.0, 2.0), (9.0, 1.0, 0.0))
    run = replay(make("asha-stop:rungs=1"), DrawnTrials(curves, None, 0.5), slots=1)
    assert run.best_killed
    assert (run.to_target, run.best_done) == (inf, inf)


def test_a_deadline_ends_a_run() -> None:
    run = replay(
        make("fifo"), DrawnTrials(FALLING, None, 1.0), slots=1, switch_cost=0.0, deadline=4.5
    )
    assert (run.end, run.steps, run.to_target) == (4.0, 4, inf)


def test_simultaneous_steps_are_all_recorded_before_anyone_decides() -> None:
    """Both are at rung 1 at the same time: the first to be judged already sees the other."""
    run = replay(
        make("asha-stop:rungs=1:eta=2"), DrawnTrials(((2.0, 2.0), (1.0, 1.0)), None, 0.0), slots=2
    )
    assert run.steps == 3


def test_a_race_has_the_same_draw_for_all() -> None:
    one = race(task(), 3, ["fifo", "round-robin"], Terms(trials=8, slots=2))
    assert one.runs["fifo"] == one.fifo
    assert one.clairvoyant.to_target <= one.fifo.to_target
    assert one.runs["round-robin"].switches > one.fifo.switches


def run_of(to_target: float, **more: object) -> ReplayRun:
    given = {"best_done": to_target, "best_killed": to_target == inf, "steps": 10, "switches": 4}
    return ReplayRun(to_target, **(given | {"peak_suspended": 1, "end": 20.0} | more))  # type: ignore[arg-type]


def test_a_summary_counts_runs_that_miss_and_has_geometric_means_of_the_others() -> None:
    rule = summary(
        "x",
        [
            Race("a", run_of(8.0), run_of(4.0), {"x": run_of(2.0)}, {}),
            Race("a", run_of(8.0), run_of(4.0), {"x": run_of(8.0, peak_suspended=3)}, {}),
            Race("b", run_of(8.0), run_of(4.0), {"x": run_of(inf)}, {}),
        ],
    )
    found = asdict(rule)
    assert found["speedup_geomean"] == pytest.approx(2.0)
    assert found["ci95"] == [pytest.approx(1.0), pytest.approx(4.0)]
    kept = {key: found[key] for key in ("tasks", "runs", "missed", "best_killed", "peak_suspended")}
    assert kept == {"tasks": 2, "runs": 3, "missed": 1, "best_killed": 1, "peak_suspended": 3}
    assert found["ceiling_geomean"] == pytest.approx(2.0)
    assert list(found) == [
        "policy", "tasks", "runs", "speedup_geomean", "speedup_max", "ci95", "best_done_speedup",
        "missed", "best_killed", "steps", "switches", "peak_suspended", "ceiling_geomean",
    ]  # fmt: skip


def test_an_interval_holds_the_mean_and_nothing_has_none() -> None:
    values = [1.0, 2.0, 4.0, 8.0] * 5
    low, high = interval(values) or (inf, -inf)
    assert low < (geometric_mean(values) or 0.0) < high
    assert interval([]) is None
    assert geometric_mean([]) is None
