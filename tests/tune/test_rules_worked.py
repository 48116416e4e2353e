"""Study rules on examples worked by hand, after the papers that describe them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random
from statistics import fmean

import pytest

from dovetail.core.errors import BadInput
from dovetail.tune.replay import DrawnTrials, _World, replay
from dovetail.tune.rules import Copy, Cull, GiveUp, Rule, Verdict, make
from dovetail.tune.rules.asha import unlocked
from dovetail.tune.rules.convergence import last_normalised_drop
from dovetail.tune.rules.halving import brackets
from dovetail.tune.study import DONE, NEW, PAUSED, RUNNING, Study, Trial


def study_of(*curves: Sequence[float], steps: int = 100, **more: object) -> Study:
    """Trials that have come so far and wait."""
    study = Study(steps, planned=len(curves), **more)  # type: ignore[arg-type]
    for number, losses in enumerate(curves):
        trial = Trial(number, {})
        for loss in losses:
            trial.report(loss)
        trial.standing = PAUSED if losses else NEW
        study.trials.append(trial)
    return study


def picked(rule: str, study: Study, leaving: int | None = None) -> int | None:
    left = None if leaving is None else study.trials[leaving]
    if left is not None:
        left.standing = RUNNING
    chosen = make(rule).pick(study, left)
    return None if chosen is None else chosen.number


class Noted:
    """A rule, and the trials it gave a slot, one number for each turn."""

    def __init__(self, text: str) -> None:
        self.rule: Rule = make(text)
        self.turns: list[int] = []

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        return self.rule.verdict(study, trial)

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        chosen = self.rule.pick(study, leaving)
        if chosen is not None and chosen is not leaving:
            self.turns.append(chosen.number)
        return chosen


def trained(rule: str, curves: Sequence[Sequence[float]], slots: int = 1) -> list[int]:
    """How many steps each trial has made in the end."""
    study = Study(len(curves[0]), slots, planned=len(curves))
    study.trials = [Trial(number, {}) for number in range(len(curves))]
    _World(make(rule), DrawnTrials(tuple(map(tuple, curves)), None, 0.0), study).run()
    return [trial.steps for trial in study.trials]


def flat(values: Sequence[float], steps: int) -> list[tuple[float, ...]]:
    return [(value,) * steps for value in values]


def shuffled(number: int, steps: int) -> list[tuple[float, ...]]:
    values = [float(value) for value in range(1, number + 1)]
    Random(number).shuffle(values)
    return flat(values, steps)


# ----------------------------------------------------------------------------------- halving, HyperBand


def test_halving_nine_trials_by_thirds_costs_27_units_of_81() -> None:
    steps = trained("successive-halving:eta=3:first=1", shuffled(9, 9))
    reached = {rung: sum(made >= rung for made in steps) for rung in (1, 3, 9)}
    assert reached == {1: 9, 3: 3, 9: 1}
    assert sum(rung * number for rung, number in reached.items()) == 27


def test_halving_keeps_the_best_of_each_rung() -> None:
    assert trained("successive-halving:eta=2:first=1", flat([4, 1, 3, 2], 4)) == [1, 4, 1, 2]


def test_halving_gives_up_all_losers_of_a_rung_when_the_last_has_reached_it() -> None:
    study = study_of([4.0], [1.0], [3.0], [2.0], steps=4)
    study.trials[3].standing = RUNNING
    verdict = make("successive-halving:first=1").verdict(study, study.trials[3])
    assert isinstance(verdict, Cull)
    assert [trial.number for trial in verdict.trials] == [2, 0]


def test_halving_waits_for_trials_that_are_still_to_be_created() -> None:
    study = study_of([4.0], [1.0], steps=4)
    study.planned = 4
    study.trials[1].standing = RUNNING
    rule = make("successive-halving:first=1")
    assert rule.verdict(study, study.trials[1]) is None
    assert rule.pick(study, study.trials[1]) is None


def test_halving_that_pauses_lets_the_better_half_go_on_and_then_the_least_trained() -> None:
    noted = Noted("successive-halving:pause=true:first=1")
    drawn = DrawnTrials(tuple(flat([3, 1, 4, 2], 4)), None, 0.0)
    assert replay(noted, drawn, slots=1).steps == 16
    # All to 1; trial 1 to 2, alone there, and to the end; then the better half of those at 1.
    assert noted.turns[:5] == [0, 1, 2, 3, 1]
    assert noted.turns[5] == 3


def test_hyperbands_table_of_brackets() -> None:
    table = [(bracket.trials, bracket.rungs) for bracket in brackets(81, 3)]
    assert table == [
        (81, (1, 3, 9, 27, 81)),
        (34, (3, 9, 27, 81)),
        (15, (9, 27, 81)),
        (8, (27, 81)),
        (5, (81,)),
    ]


@pytest.mark.parametrize("slots", [1, 7])
def test_hyperband_halves_each_bracket_however_many_slots_there_are(slots: int) -> None:
    steps = trained("hyperband", shuffled(81 + 34 + 15 + 8 + 5, 81), slots)
    widest, second = steps[:81], steps[81:115]
    counts = [(sum(made >= rung for made in widest), rung) for rung in (1, 3, 9, 27, 81)]
    assert counts == [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)]
    assert [sum(made >= rung for made in second) for rung in (3, 9, 27, 81)] == [34, 11, 3, 1]
    assert steps[-5:] == [81] * 5


# ------------------------------------------------------------------------------------------------ ASHA


def test_asha_promotes_whoever_is_in_the_top_third_of_a_rung_before_it_starts_another() -> None:
    """Of three at rung 1 one may go on, of six two, of nine three; then the best of three at rung 3."""
    noted = Noted("asha-promote:rungs=1/3")
    values = [5, 4, 3, 9, 8, 7, 6, 10, 11]
    replay(noted, DrawnTrials(tuple(flat(values, 9)), None, 0.0), slots=1)
    # Trial 2 goes on from 1 to 3 at once, 1 when there are six, 0 when there are nine. Then, as third
    # at rung 3, trial 0 makes room for the best there, and the others follow, the lowest loss first.
    assert noted.turns == [0, 1, 2, 3, 4, 5, 1, 6, 7, 8, 0, 2, 1, 0, 6, 5, 4, 3, 7, 8]


def test_asha_promotes_from_the_highest_rung_first() -> None:
    at_three = [[3.0] * 3, [2.0] * 3, [1.0] * 3]
    at_one = [[0.5], [9.0], [9.0], [9.0], [9.0], [9.0]]
    assert picked("asha-promote", study_of(*at_three, *at_one)) == 2


def test_asha_that_stops_compares_with_those_that_came_before() -> None:
    """A third of the way from 1 to 3, by proportion between neighbours: 1.667."""
    for loss, stopped in ((1.6, False), (1.7, True)):
        study = study_of([1.0], [2.0], [3.0], [loss])
        verdict = make("asha-stop").verdict(study, study.trials[3])
        assert isinstance(verdict, GiveUp) == stopped


def test_asha_that_stops_judges_only_at_rungs() -> None:
    study = study_of([1.0, 1.0], [2.0, 2.0], [3.0, 3.0])
    assert make("asha-stop").verdict(study, study.trials[2]) is None


# ----------------------------------------------------------------------------------------------- PASHA


def test_pasha_begins_with_two_rungs_and_keeps_them_while_the_ranking_stays() -> None:
    study = study_of([3.0, 2.5, 2.0], [2.0, 1.5, 1.0], [9.0])
    assert unlocked(study.trials, (1, 3, 9)) == 2


def test_pasha_unlocks_a_rung_when_the_ranking_changes() -> None:
    study = study_of([3.0, 2.5, 0.5], [2.0, 1.5, 1.0], [9.0])
    assert unlocked(study.trials, (1, 3, 9)) == 3


def test_pasha_takes_no_notice_of_trials_that_cross_to_and_fro() -> None:
    restless = [2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 0.9]
    steady = [1.5] * 9
    study = study_of(restless, steady)
    assert unlocked(study.trials, (3, 9, 27)) == 2


# ------------------------------------------------------------------------------------ SLAQ and Hermes


@pytest.mark.parametrize(
    ("losses", "drop"),
    [
        ([4.0, 2.0, 1.0], 0.5),  # fell by 2, then by 1
        ([8.0, 7.0, 3.0], 1.0),  # its last fall is its largest
        ([8.0, 4.0, 5.0], -0.25),
        ([0.04, 0.02, 0.01], 0.5),  # whatever the scale
        ([1.0, 2.0], -inf),
        ([4.0, 2.0, inf], -inf),
        ([4.0], inf),
    ],
)
def test_slaq_measures_the_last_fall_by_the_largest(losses: list[float], drop: float) -> None:
    (trial,) = study_of(losses).trials
    assert last_normalised_drop(trial) == pytest.approx(drop)


def test_slaq_gives_the_turn_to_whoever_still_falls_not_to_the_best() -> None:
    study = study_of([4.0, 1.0, 0.9], [8.0, 7.0, 6.0], [5.0, 3.0, 2.0])
    assert picked("slaq", study, leaving=0) == 1


def test_slaq_looks_at_everyone_twice_first() -> None:
    assert picked("slaq", study_of([4.0, 1.0], [8.0], [])) == 1


def test_the_readings_of_hermes_differ() -> None:
    far_down = [10.0, 4.0, 3.0, 2.9, 2.9]
    low_early = [3.0, 2.5, 2.2, 2.1, 2.1]
    falling = [9.0, 8.9, 8.8, 7.0, 5.0]
    study = study_of(far_down, low_early, falling)
    assert picked("hermes", study) == 0
    assert picked("hermes:reading=early", study) == 1
    assert picked("hermes:reading=slope:smoothing=0:window=2", study) == 2


def test_hermes_keeps_the_slot_unless_another_is_better_by_the_gain_asked_for() -> None:
    study = study_of([10.0, 5.0], [10.0, 4.9])
    assert picked("hermes", study, leaving=0) == 1
    assert picked("hermes:gain=0.1", study, leaving=0) == 0


def test_hermes_puts_a_diverged_trial_last() -> None:
    assert picked("hermes", study_of([inf, inf], [1.0, 1.0])) == 1


# ---------------------------------------------------------------------------------------- median stop


def test_median_stop_compares_the_best_value_with_the_others_means() -> None:
    """The others' means after two steps are 3, 4 and 5."""
    others = ([4.0, 2.0], [5.0, 3.0], [6.0, 4.0])
    for losses, stopped in (([9.0, 4.0], False), ([9.0, 4.1], True), ([3.9, 9.0], False)):
        study = study_of(*others, losses)
        verdict = make("median-stop:grace=1:others=3").verdict(study, study.trials[3])
        assert isinstance(verdict, GiveUp) == stopped


def test_median_stop_judges_nobody_early_nor_against_few() -> None:
    study = study_of([4.0, 2.0], [5.0, 3.0], [6.0, 4.0], [9.0, 9.0])
    for rule in ("median-stop:grace=3:others=3", "median-stop:grace=1:others=4"):
        assert make(rule).verdict(study, study.trials[3]) is None


# ----------------------------------------------------------------------------------------- HyperSched


def test_hypersched_does_as_asha_when_all_curves_are_equal() -> None:
    drawn = DrawnTrials(tuple([(3.0, 2.0, 1.0) * 4] * 6), None, 0.0)
    turns = []
    for text in ("hypersched", "asha-stop"):
        noted = Noted(text)
        replay(noted, drawn, slots=2)
        turns.append(noted.turns)
    assert turns[0] == turns[1]


def test_hypersched_cuts_a_running_trial_between_rungs_when_others_have_overtaken_it() -> None:
    study = study_of([5.0, 5.0], [1.0], [2.0], [3.0], steps=27)
    assert picked("hypersched", study, leaving=0) == 1


def test_hypersched_lets_a_trial_come_back_when_the_cut_has_moved() -> None:
    ahead = [[1.0] * 27, [3.0]]
    for more, chosen in (([], 2), ([[9.0], [9.0], [9.0]], 1)):
        study = study_of(*ahead, *more, [], steps=27)
        study.trials[0].standing = DONE
        assert picked("hypersched", study) == chosen


def test_hypersched_starts_no_trial_that_comes_too_late() -> None:
    """The leader has made 9 steps: three times as many are needed, or a whole trial's 27."""
    for now, begun in ((70.0, 1), (74.0, 0)):
        study = study_of([1.0] * 9, [], steps=27, deadline=100.0)
        study.now = now
        study.trials[0].standing = RUNNING
        assert (picked("hypersched", study) == 1) == bool(begun)


def test_hypersched_leaves_a_slot_empty_rather_than_to_one_that_cannot_reach_the_leader() -> None:
    study = study_of([1.0] * 20, [2.0] * 5, [3.0] * 18, steps=27, deadline=100.0)
    study.now = 95.0
    study.trials[0].standing = RUNNING
    assert picked("hypersched", study) == 2
    study.trials[2].standing = RUNNING
    assert picked("hypersched", study) is None


def power_laws(chance: Random, number: int, steps: int) -> tuple[tuple[float, ...], ...]:
    """Curves that fall to limits of their own; few end well."""
    made = []
    for _ in range(number):
        limit, height, speed = (
            chance.random() ** 0.5,
            chance.uniform(0.5, 2),
            chance.uniform(0.3, 2),
        )
        made.append(tuple(limit + height * step**-speed for step in range(1, steps + 1)))
    return tuple(made)


def test_hypersched_has_as_good_a_best_at_the_deadline_as_asha() -> None:
    """With time for two whole trials in each slot."""

    def best(text: str, seed: int) -> float:
        curves = power_laws(Random(seed), 27, 27)
        study = Study(27, 4, switch_cost=0.25, deadline=60.0, planned=27, seed=seed)
        study.trials = [Trial(number, {}) for number in range(27)]
        _World(make(text), DrawnTrials(curves, None, 0.0), study).run()
        return min(trial.loss for trial in study.trials)

    rules = ("hypersched", "asha-stop", "asha-promote")
    mean, stopping, promoting = (fmean(best(text, seed) for seed in range(40)) for text in rules)
    assert mean <= stopping
    assert mean <= promoting


# ------------------------------------------------------------------------------------------------- PBT


def population() -> Study:
    study = study_of(*([[9.0] * 4 + [float(loss)] for loss in range(1, 9)]))
    for trial in study.trials:
        trial.settings = {"lr": 0.1 * (trial.number + 1), "units": 64, "kind": "adam"}
    return study


def test_pbts_worst_quarter_copies_one_of_the_best_quarter() -> None:
    study = population()
    rule = make("pbt:every=5:part=0.25:anew=0")
    for number in range(8):
        verdict = rule.verdict(study, study.trials[number])
        assert isinstance(verdict, Copy) == (number >= 6)
        if isinstance(verdict, Copy):
            assert verdict.source.number in (0, 1)


def test_pbt_moves_numbers_by_a_fifth_within_what_there_is_and_leaves_choices() -> None:
    study = population()
    verdict = make("pbt:anew=0").verdict(study, study.trials[7])
    assert isinstance(verdict, Copy)
    lr = verdict.source.settings["lr"]
    assert isinstance(lr, float)
    assert verdict.settings["lr"] in (pytest.approx(max(lr * 0.8, 0.1)), pytest.approx(lr * 1.2))
    assert (verdict.settings["units"], verdict.settings["kind"]) == (64, "adam")


def test_pbt_draws_anew_from_what_the_study_has_seen() -> None:
    study = population()
    verdict = make("pbt:anew=1").verdict(study, study.trials[7])
    assert isinstance(verdict, Copy)
    assert verdict.settings["lr"] in [trial.settings["lr"] for trial in study.trials]


def test_pbt_judges_only_every_so_many_steps() -> None:
    study = population()
    assert make("pbt:every=4").verdict(study, study.trials[7]) is None


def test_a_copy_goes_on_along_the_curve_of_its_source() -> None:
    good = tuple(1.0 / step for step in range(1, 11))
    bad = (5.0,) * 10
    study = Study(10, 4, planned=4)
    study.trials = [Trial(number, {}) for number in range(4)]
    _World(make("pbt:every=5"), DrawnTrials((good, bad, bad, bad), None, 0.0), study).run()
    copies = [trial for trial in study.trials[1:] if trial.losses[5:] == list(good[5:])]
    assert len(copies) >= 1
    assert all(trial.standing is DONE for trial in study.trials)


# ------------------------------------------------------------------------------------------ from text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hermse", "there is no study policy 'hermse'; did you mean 'hermes'?"),
        ("hermes:reading=late", "choose from cumulative, early, slope"),
        ("asha-promote:eta=1", "eta=1; give at least 2"),
        ("asha-promote:rungs=3/1", "rungs=3/1; give them in rising order"),
        ("asha-promote:rungs=1.5/3", "give whole numbers of steps"),
        ("round-robin:quantum=0", "quantum=0; give at least 1 step"),
        ("round-robin:quantum=x", "quantum='x' is not a whole number"),
        ("fifo:eta=3", "has no parameter 'eta'; it has none"),
        ("pbt:part=0.6", "at most 0.5"),
        ("successive-halving:pause=perhaps", "is not true or false"),
    ],
)
def test_a_wrong_text_is_told_in_one_line(text: str, told: str) -> None:
    with pytest.raises(BadInput) as error:
        make(text)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
