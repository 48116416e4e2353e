"""The default study rule, on small studies made for each test."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import ceil, exp, inf, log, nan
from random import Random
from statistics import median

import numpy as np
import pytest

from dovetail.tune.curves import projected
from dovetail.tune.extrapolation import promise
from dovetail.tune.replay import DrawnTrials, ReplayRun, replay
from dovetail.tune.rules.default import Default
from dovetail.tune.rules.turns import FifoRule
from dovetail.tune.study import DONE, PAUSED, RUNNING, Study, Trial

Curve = tuple[float, ...]


def falling(to: float, steps: int, noise: Random | None = None) -> Curve:
    wobble = noise.gauss if noise else lambda _mean, _deviation: 0.0
    return tuple(to + (1 - to) * age**-0.7 + wobble(0, 0.005) for age in range(1, steps + 1))


def drawn(curves: Sequence[Curve]) -> DrawnTrials:
    ends = [min(curve) for curve in curves]
    return DrawnTrials(tuple(curves), None, min(ends) + 0.01 * (median(ends) - min(ends)))


def assorted(trials: int, steps: int, seed: int) -> DrawnTrials:
    chance = Random(seed)
    return drawn([falling(chance.random(), steps) for _ in range(trials)])


def run(drawn: DrawnTrials, **circumstances: float) -> ReplayRun:
    return replay(Default(), drawn, **circumstances)  # type: ignore[arg-type]


def study_of(*curves: Sequence[float], steps: int = 27, slots: int = 2) -> Study:
    study = Study(steps, slots, planned=len(curves))
    for number, losses in enumerate(curves):
        trial = Trial(number, {})
        trial.standing = PAUSED if losses else trial.standing
        for loss in losses:
            trial.report(loss)
        study.trials.append(trial)
    return study


def test_a_hyperbola_is_projected_to_its_own_end() -> None:
    curve = [0.3 + 2 / age for age in range(1, 53)]
    for age in (2, 8, 30):
        assert projected(curve[:age], 52) == pytest.approx(curve[-1])
    assert projected([1.0], 52) == 1.0


@pytest.mark.parametrize(
    ("trials", "steps", "slots", "times"),
    [(32, 52, 4, 1.5), (27, 27, 2, 1.5), (8, 200, 2, 1.2), (16, 5, 2, 0.9)],
)
def test_the_target_is_reached_sooner_than_one_after_another(
    trials: int, steps: int, slots: int, times: float
) -> None:
    studies = [assorted(trials, steps, seed) for seed in range(4)]
    ours = sum(run(study, slots=slots).to_target for study in studies)
    fifo = sum(replay(FifoRule(), study, slots=slots).to_target for study in studies)
    assert ours < fifo / times


def test_every_trial_is_run_to_its_end_and_nobody_is_given_up() -> None:
    study = assorted(12, 20, 1)
    outcome = run(study)
    assert outcome.steps == 12 * 20
    assert not outcome.best_killed


@pytest.mark.parametrize("cost", [0.1, 0.25, 0.5, 1.0])
def test_less_than_three_percent_of_a_study_are_lost_in_switching(cost: float) -> None:
    outcome = run(assorted(32, 52, 2), switch_cost=cost)
    resumed = outcome.switches - 32
    assert resumed * cost <= 0.03 * outcome.steps
    if cost <= 0.5:  # there is enough for first starts, too
        assert outcome.switches * cost <= 0.03 * outcome.steps


def test_where_switching_is_very_dear_few_are_paused() -> None:
    assert run(assorted(32, 52, 2), switch_cost=5).switches <= 32 + 16


def test_equal_trials_are_run_as_if_one_after_another() -> None:
    study = drawn([falling(0.2, 52)] * 32)
    assert run(study).to_target <= replay(FifoRule(), study).to_target / 0.85


def test_where_noise_alone_tells_the_trials_apart_whoever_has_a_slot_keeps_it() -> None:
    noise = Random(3)
    same = [falling(0.2, 52, noise)[:12] for _ in range(8)]
    study = study_of(*same, *[()] * 8, steps=52)
    assert promise(study).curves.steadiness < Default().steady
    running = study.trials[0]
    running.standing, running.turn = RUNNING, 12
    assert Default().pick(study, running) is running


def test_the_odds_do_not_depend_on_the_unit_of_the_metric() -> None:
    curves = [falling(to, age) for to, age in ((0.2, 9), (0.5, 4), (0.3, 6), (0.8, 2))]
    moved = [tuple(1000 * loss - 4000 for loss in curve) for curve in curves]
    assert promise(study_of(*moved)).odds == pytest.approx(promise(study_of(*curves)).odds)


def test_the_odds_follow_from_the_curves_and_not_from_when_one_asked() -> None:
    curves = [falling(to, 6) for to in (0.2, 0.5, 0.3)]
    asked = study_of(*[()] * 3)
    for age in range(6):
        for trial, curve in zip(asked.trials, curves, strict=True):
            trial.report(curve[age])
            assert len(promise(asked).odds) == 3
    assert promise(asked).odds == pytest.approx(promise(study_of(*curves)).odds)


def test_a_trial_added_later_is_taken_in() -> None:
    study = study_of(falling(0.2, 4), falling(0.4, 4))
    assert len(promise(study).odds) == 2
    study.trials.append(Trial(2, {}))
    assert len(promise(study).odds) == 3


def test_what_diverged_waits_until_nothing_else_is_left() -> None:
    study = study_of([nan] * 3, falling(0.4, 3), [])
    assert promise(study).odds[0] == -inf
    assert Default().pick(study, None) is not study.trials[0]
    alone = study_of([nan] * 3)
    assert Default().pick(alone, None) is alone.trials[0]


def test_infinities_at_first_or_later_are_no_trouble() -> None:
    study = study_of([inf, inf, 0.9, 0.5], [0.9, inf, 0.4, inf], falling(0.5, 4))
    assert all(odds == odds and odds > -inf for odds in promise(study).odds)


def test_a_single_trial_is_run() -> None:
    assert run(assorted(1, 10, 0)).steps == 10


def test_after_one_step_a_trial_goes_on_while_first_values_have_ranked_nobody() -> None:
    crossing = [(1.0 + 0.1 * number, 0.9 - 0.1 * number) for number in range(8)]
    study = study_of([9.0], *crossing, [], steps=52)
    running = study.trials[0]
    running.standing, running.turn = RUNNING, 1
    assert Default().pick(study, running) is running


def test_first_values_that_rank_the_trials_are_believed() -> None:
    level = [tuple(number + loss for loss in falling(0.5, 3)) for number in range(8)]
    study = study_of([9.0], *level, [], steps=52)
    running = study.trials[0]
    running.standing, running.turn = RUNNING, 1
    assert promise(study).curves.concord >= Default().telling
    assert Default().pick(study, running) is not running


def test_bad_parameters_are_told() -> None:
    with pytest.raises(ValueError, match="give a number from 0 on"):
        Default(curiosity=-1)


# ------------------------------------------------------------------- where early losses mislead


def overtaking(trials: int, steps: int, seed: int) -> DrawnTrials:
    """The lower the end, the later the fall: a sigmoid each."""
    chance = Random(seed)
    curves = []
    for _ in range(trials):
        end = chance.random()
        at = 0.1 * steps + (1 - end) * 0.6 * steps
        curves.append(tuple(end + (1.2 - end) / (1 + exp((age - at) / 2)) for age in range(steps)))
    return drawn(curves)


def misled(trials: int = 6, steps: int = 26) -> Study:
    """Three are done, and the one that led at first is the last of them."""
    study = study_of(
        *[(0.1 * n + 1,) * (steps - 1) + (1 - 0.3 * n,) for n in range(3)],
        *[(1.0 + 0.05 * n,) * 8 for n in range(3, trials)],
        steps=steps,
    )
    for trial in study.trials[:3]:
        trial.standing = DONE
    return study


def test_a_studys_own_ends_say_whether_early_losses_mislead() -> None:
    kept = study_of(*[tuple(n + 1 / age for age in range(1, 27)) for n in range(4)], steps=26)
    assert promise(kept).constancy == 1.0
    assert promise(misled()).constancy < 0.0
    assert promise(study_of(*[falling(0.2, 5)] * 3, steps=26)).constancy == 1.0  # none is done


def test_a_single_pair_that_was_overtaken_does_not_overrule_the_prior() -> None:
    study = study_of((1.0,) * 25 + (0.9,), (1.1,) * 25 + (0.8,), *[(1.2,)] * 6, steps=26)
    assert promise(study).constancy > Default().misled


def test_where_early_losses_mislead_nobody_gives_way_and_the_worst_come_first() -> None:
    study = misled()
    running = study.trials[3]
    running.standing, running.turn = RUNNING, 8
    assert Default().pick(study, running) is running
    assert Default().pick(study, None) is study.trials[5]


@pytest.mark.parametrize("slots", [2, 4])
def test_slow_starters_are_found_about_as_soon_as_one_after_another(slots: int) -> None:
    studies = [overtaking(24, 26, seed) for seed in range(12)]
    logarithms = [
        log(replay(FifoRule(), own, slots=slots).to_target / run(own, slots=slots).to_target)
        for own in studies
    ]
    assert exp(sum(logarithms) / len(logarithms)) >= 0.8


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("slots", [2, 4, 8])
def test_whatever_the_curves_do_the_best_is_done_in_a_time_that_can_be_told(
    slots: int, seed: int
) -> None:
    """At worst: the time of the prior, one trial's until a slot is free, and then half of the
    slots take the trials in order."""
    chance, steps, cost = Random(seed), 20, 0.25
    walks = [tuple(chance.gauss(0, 1) for _ in range(steps)) for _ in range(20)]
    study = drawn(walks)
    whole = steps + cost
    trusted = Default().trusted * len(walks) / slots * steps
    in_order = ceil((study.best + 1) / (Default().in_order * slots))
    assert run(study, slots=slots).best_done <= trusted + whole + in_order * (whole + cost)


def test_with_one_slot_it_is_in_order_every_second_turn() -> None:
    rule, study = Default(), Study(10, 1, planned=20)
    wanted = []
    for turn in range(3, 9):
        study.now = 10.0 * turn
        wanted.append(rule._wanted_in_order(study))
    assert wanted in ([0, 1] * 3, [1, 0] * 3)


def test_the_trials_run_in_order_after_an_eighth_of_the_study_and_sooner_in_a_small_one() -> None:
    wanted = []
    for trials, now in ((32, 9.9), (32, 10.0), (16, 2.4), (16, 2.5)):
        study = Study(10, 4, planned=trials)
        study.now = now
        wanted.append(Default()._wanted_in_order(study))
    assert wanted == [0, 2, 0, 2]


def test_the_first_to_run_in_order_is_the_one_that_looks_worst() -> None:
    curves = [tuple(n + 1 / age for age in range(1, 5)) for n in (2, 0, 5, 1)]
    study = study_of(*curves, [nan] * 4, *[()] * 11, steps=26)
    study.now = 26.0 * 2
    assert Default().pick(study, None) is study.trials[2]
    for trial in (study.trials[1], study.trials[3]):  # as many as there are slots
        trial.standing = DONE
    assert Default().pick(study, None) is study.trials[0]


def test_who_leads_keeps_its_slot_and_another_makes_room_for_a_trial_in_order() -> None:
    """A leader that is suspended on one of several nodes could go on only there."""
    young = [[n + 1 / age for age in range(1, 5)] for n in (8, 9, 1, 5, 0, 4)]
    ended = [[n + 1 / age for age in range(1, 27)] for n in range(10, 20)]
    study = study_of(*young, *ended, steps=26, slots=4)
    for trial in study.trials[2:6]:
        trial.standing = RUNNING
    for trial in study.trials[6:]:
        trial.standing = DONE
    study.now = 26.0 * 2
    first, _, second_best, bad, best, poor, *_ = study.trials
    found = [Default().pick(study, trial) for trial in (second_best, bad, best, poor)]
    assert found == [second_best, first, best, first]


def test_slow_starters_are_known_before_any_of_them_is_done() -> None:
    """Half way, each has overtaken all that were ahead of it when young."""
    young = [(1.0 + 0.1 * n,) * 10 + (0.9 - 0.1 * n,) * 5 for n in range(4)]
    study = study_of(*young, *[(1.2,) * 4] * 4, steps=26)
    assert promise(study).constancy < Default().misled


def test_who_is_overtaken_late_is_known_although_half_way_all_was_in_order() -> None:
    kept = [(1.0 + 0.1 * n,) * 20 for n in range(6)]
    study = study_of(*kept, *[(1.0 + 0.1 * n,) * 25 + (0.9 - 0.1 * n,) for n in range(4)], steps=26)
    assert promise(study).constancy < Default().misled


def test_small_studies_of_slow_starters_too_are_done_about_as_soon_as_in_order() -> None:
    studies = [overtaking(16, 40, seed) for seed in range(10)]
    logarithms = [log(replay(FifoRule(), own).to_target / run(own).to_target) for own in studies]
    assert exp(sum(logarithms) / len(logarithms)) >= 0.8


def test_what_is_counted_step_by_step_is_what_the_curves_say() -> None:
    chance = Random(4)
    study = study_of(*[[chance.choice((nan, chance.random()))] for _ in range(12)], steps=9)
    for _ in range(60):
        trial = chance.choice(study.trials)
        if len(trial.losses) < study.steps:
            trial.report(chance.choice((nan, chance.random(), chance.random(), 0.5)))
        curves = promise(study).curves
        assert curves.beaten.tolist() == curves.above.sum(axis=1).tolist()
        assert curves.leaders == pytest.approx(np.sort(curves.lowest, axis=0)[:2])
        grown = [own for own in study.trials if len(own.losses) >= 2 and own.loss < inf]
        pairs = [
            np.sign(curves.first[one.number] - curves.first[other.number])
            * np.sign(one.loss - other.loss)
            for one, other in combinations(grown, 2)
        ]
        assert curves.concord == pytest.approx(sum(pairs) / (len(pairs) + 10))


def test_time_in_which_trials_only_started_does_not_bring_on_the_order_of_creation() -> None:
    """Trials of pods take steps to start: a rule that looks at all of them has seen little by then."""
    curves = [falling(0.9 - number / 40, 4) for number in range(32)]
    study = study_of(*curves, slots=4)
    study.now = 60.0
    first = study.trials[0]
    assert Default(in_order=1.0).pick(study, None) is first
    study.starting = 50.0
    assert Default(in_order=1.0).pick(study, None) is not first
