"""What every study rule must keep, on curves made by chance."""

from __future__ import annotations

from importlib.util import find_spec
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.errors import DovetailError
from dovetail.tune.replay import DrawnTrials, _World
from dovetail.tune.rules import BUILTIN, Rule, Verdict, make
from dovetail.tune.study import DONE, NEW, PAUSED, RUNNING, STOPPED, Study, Trial

MORE = ["hermes:reading=early", "hermes:reading=slope", "successive-halving:pause=true"]
MORE += ["asha-promote:eta=2:rungs=2/3", "round-robin:quantum=3", "pbt:every=2"]
TEXTS = [name for name, (module, _) in BUILTIN.items() if find_spec(module)] + MORE
STOPPING = ("median-stop", "asha-stop", "hyperband", "pop")
LOSSES = st.one_of(st.sampled_from([0.0, 1.0, -1.0, inf]), st.floats(-10, 10, width=16))


def throws_away(text: str) -> bool:
    return text.partition(":")[0] in STOPPING or text == "successive-halving"


@st.composite
def worlds(draw: st.DrawFn) -> tuple[DrawnTrials, int, float, int]:
    steps = draw(st.integers(1, 12))
    curve = st.lists(LOSSES, min_size=steps, max_size=steps).map(tuple)
    curves = tuple(draw(st.lists(curve, min_size=1, max_size=9)))
    return (
        DrawnTrials(curves, None, 0.0),
        draw(st.integers(1, 4)),
        draw(st.sampled_from([0, 0.25])),
        steps,
    )


class Watched:
    """Asks a rule twice, and one that has no memory at all; writes down what it says."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.rule: Rule = make(text)
        self.said: list[object] = []

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        assert trial.standing is RUNNING
        assert trial.steps < study.steps
        verdict = self.rule.verdict(study, trial)
        assert verdict == self.rule.verdict(study, trial) == make(self.text).verdict(study, trial)
        self.said.append((trial.number, str(type(verdict))))
        return verdict

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        before = [(trial.standing, trial.steps, trial.turn) for trial in study.trials]
        chosen = self.rule.pick(study, leaving)
        assert chosen is self.rule.pick(study, leaving)
        assert chosen is make(self.text).pick(study, leaving)
        assert before == [(trial.standing, trial.steps, trial.turn) for trial in study.trials]
        assert chosen is None or chosen is leaving or chosen.standing in (NEW, PAUSED)
        self.said.append((study.now, chosen and chosen.number))
        return chosen


def run(
    text: str, drawn: DrawnTrials, slots: int, cost: float, steps: int
) -> tuple[Watched, Study]:
    study = Study(steps, slots, switch_cost=cost, planned=len(drawn.curves), seed=7)
    study.trials = [Trial(number, {"x": 1.0 + number}) for number in range(len(drawn.curves))]
    rule = Watched(text)
    _World(rule, drawn, study).run()
    return rule, study


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=25, deadline=None)
@given(world=worlds())
def test_every_trial_ends_and_deciding_is_pure(
    text: str, world: tuple[DrawnTrials, int, float, int]
) -> None:
    rule, study = run(text, *world)
    for trial in study.trials:
        assert trial.standing in (DONE, STOPPED)
        assert (trial.standing is DONE) == (trial.steps == study.steps)
    if not throws_away(text):
        assert all(trial.standing is DONE for trial in study.trials)
    again, _ = run(text, *world)
    assert again.said == rule.said


def test_a_rule_that_leaves_trials_waiting_for_ever_is_told() -> None:
    class Idle:
        def verdict(self, study: Study, trial: Trial) -> Verdict:
            return None

        def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
            return None

    study = Study(1, planned=1)
    study.trials = [Trial(0, {})]
    with pytest.raises(DovetailError, match="left 1 trials waiting at t=0 with every slot free"):
        _World(Idle(), DrawnTrials(((1.0,),), None, 0.0), study).run()


def test_a_rule_that_picks_who_runs_elsewhere_is_told() -> None:
    class Greedy:
        def verdict(self, study: Study, trial: Trial) -> Verdict:
            return None

        def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
            return study.trials[0]

    study = Study(2, 2, planned=2)
    study.trials = [Trial(number, {}) for number in range(2)]
    with pytest.raises(DovetailError, match="picked trial 0, which is running"):
        _World(Greedy(), DrawnTrials(((1.0, 1.0),) * 2, None, 0.0), study).run()
