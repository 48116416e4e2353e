"""Rules that extrapolate learning curves: POP and freeze-thaw."""

from __future__ import annotations

import pytest

from dovetail.tune.decay import forecasts
from dovetail.tune.rules import GiveUp
from dovetail.tune.rules.freeze_thaw import FreezeThaw
from dovetail.tune.rules.pop import Pop, threshold
from dovetail.tune.study import PAUSED, RUNNING, Study, Trial


def study_of(*curves: list[float], target: float | None = None) -> Study:
    study = Study(27, 2, target=target, planned=len(curves))
    for number, losses in enumerate(curves):
        trial = Trial(number, {})
        trial.standing = PAUSED if losses else trial.standing
        for loss in losses:
            trial.report(loss)
        study.trials.append(trial)
    return study


def falling(to: float, steps: int) -> list[float]:
    return [to + (1 - to) / step for step in range(1, steps + 1)]


def test_the_threshold_is_where_the_promising_desire_as_many_slots_as_they_deserve() -> None:
    # From 0.8 on two desire a slot and deserve 3.2; from 0.5 on three desire one and deserve 2.
    assert threshold([0.1, 0.9, 0.5, 0.8], 4) == (0.8, 2)
    assert threshold([0.2, 0.2, 0.2], 4)[1] == 0
    assert threshold([], 4)[1] == 0


def test_the_surer_they_are_the_more_slots_the_promising_have() -> None:
    dedicated = [threshold([chance] * 8, 4)[1] for chance in (0.1, 0.3, 0.5, 0.8, 1.0)]
    assert dedicated == sorted(dedicated)
    assert dedicated[-1] == 4


def test_a_trial_without_a_chance_is_killed_when_it_is_first_checked() -> None:
    flat = [1.0] * 4
    study = study_of(flat, falling(0.1, 20), target=0.05)
    assert isinstance(Pop().verdict(study, study.trials[0]), GiveUp)
    early = study_of(flat[:3], falling(0.1, 20), target=0.05)
    assert Pop().verdict(early, early.trials[0]) is None


def test_who_has_reached_the_target_is_not_killed() -> None:
    study = study_of(falling(0.1, 4), falling(0.1, 20), target=0.5)
    assert Pop().verdict(study, study.trials[0]) is None


def test_a_forecast_lies_between_where_a_curve_is_and_where_it_leads() -> None:
    study = study_of(falling(0.2, 8), falling(0.6, 8), falling(0.4, 27))
    low, high = (forecasts(study).at(trial, 27) for trial in study.trials[:2])
    assert low.mean < high.mean
    assert low.mean < study.trials[0].loss
    early = forecasts(study_of(falling(0.2, 2), falling(0.4, 27)))
    assert early.at(study_of(falling(0.2, 2)).trials[0], 27).deviation > low.deviation


def test_freeze_thaw_goes_on_with_the_curve_that_leads_lowest() -> None:
    study = study_of(falling(0.6, 6), falling(0.1, 6), falling(0.5, 6))
    assert FreezeThaw().pick(study, None) is study.trials[1]


def test_freeze_thaw_does_not_leave_in_the_middle_of_a_turn() -> None:
    study = study_of(falling(0.6, 5), falling(0.1, 6))
    study.trials[0].standing = RUNNING
    assert FreezeThaw().pick(study, study.trials[0]) is study.trials[0]


def test_a_diverged_curve_is_no_trouble() -> None:
    study = study_of([float("nan")] * 6, falling(0.3, 6), [])
    assert FreezeThaw().pick(study, None) is not study.trials[0]


@pytest.mark.parametrize("rule", [lambda: Pop(check=0), lambda: Pop(poor=1), lambda: FreezeThaw(0)])
def test_bad_parameters_are_told(rule: object) -> None:
    with pytest.raises(ValueError, match=r"give (at least 1 step|a chance)"):
        rule()  # type: ignore[operator]
