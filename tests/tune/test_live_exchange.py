"""Studies beside all other work: who of their trials has which slot, and when they are over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chances import CHANCES
from dovetail.core.entries import (
    Action,
    Branch,
    Cancelled,
    Displaced,
    Event,
    Failed,
    Finished,
    GroupAction,
    Held,
    NodeDraining,
    NodeJoined,
    Occupied,
    Pinned,
    Preempt,
    Restored,
    Saved,
    Start,
    Started,
    Stop,
    Submitted,
    Wake,
    Woke,
)
from dovetail.core.journal import decode, encode
from dovetail.core.loop import Policy, run
from dovetail.core.model import JobId, Node
from dovetail.core.state import State
from dovetail.core.view import View
from dovetail.models.workload import Arrival
from dovetail.policies.queueing import FifoSkip
from dovetail.policies.registry import BUILTIN
from dovetail.testing import (
    AskedTwice,
    Paused,
    World,
    job,
    nodes,
    placement,
    policy_for,
    random_world,
    told_to,
)
from dovetail.tune import rules
from dovetail.tune.board import Mirror
from dovetail.tune.live import Exchanging
from dovetail.tune.replay import DrawnTrials, _World
from dovetail.tune.rules import Copy, GiveUp, Rule, Verdict
from dovetail.tune.rules import make as make_rule
from dovetail.tune.study import Study, Trial
from dovetail.workloads.study.entries import CloseStudy, StudyOpened
from dovetail.workloads.study.kind import studies_of
from study_state import Lived, design, trial
from study_worlds import Curves, Stepping, run_curves

SHORT = {"las": "las:quantum=3", "round-robin": "round-robin:quantum_s=3"}
SHORT |= {"tiresias": "tiresias:queues=2:limits=6", "gittins": "gittins:quantum=3"}
SHORT |= {"multilevel-feedback": "multilevel-feedback:levels=2:quantum_s=3"}
SHORT |= {"gandiva": "gandiva:quantum_s=4", "least-laxity": "least-laxity:quantum_s=3"}
POLICIES = [SHORT.get(name, name) for name in sorted(BUILTIN)]
WORLDS = CHANCES.map(lambda chance: random_world(chance, 6))


@pytest.fixture(autouse=True)
def no_mistakes(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A mistake of the exchange costs nobody anything, but is one."""
    yield
    assert "turns could not be exchanged" not in caplog.text


def curves(chance: Random, trials: int, steps: int) -> list[list[float]]:
    found = []
    for _ in range(trials):
        start, pace = chance.uniform(1, 2), chance.uniform(0.05, 0.9)
        found.append(
            [start * (1 + step) ** -pace + 1e-3 * chance.random() for step in range(steps)]
        )
    return found


# --------------------------------------------------------------------- the same as in the replay


class Replayed(_World):
    """The replay, with who was given a slot when, and who had one after each moment."""

    turns: list[tuple[float, str]]
    at_work: dict[float, set[str]]

    def decide(self, slot: int) -> None:
        super().decide(slot)
        there = {f"s1.{trial.number}" for trial in self.occupants if trial is not None}
        self.at_work[round(self.study.now, 6)] = there

    def _exchange(self, slot: int, leaving: Trial | None, chosen: Trial | None) -> None:
        super()._exchange(slot, leaving, chosen)
        if chosen is not None:
            self.turns.append((round(self.study.now, 6), f"s1.{chosen.number}"))


def replayed(text: str, drawn: list[list[float]], slots: int, cost: float) -> Replayed:
    study = Study(len(drawn[0]), slots, switch_cost=cost, planned=len(drawn), seed=0)
    study.trials = [Trial(number, {}) for number in range(len(drawn))]
    rows = tuple(tuple(curve) for curve in drawn)
    world = Replayed(make_rule(text), DrawnTrials(rows, None, -1.0), study)
    world.turns, world.at_work = [], {}
    world.run()
    return world


def changes(at_work: dict[float, set[str]]) -> list[tuple[float, set[str]]]:
    """Moments after which others had the slots than before."""
    found: list[tuple[float, set[str]]] = []
    for at, there in sorted(at_work.items()):
        if not found or there != found[-1][1]:
            found.append((at, there))
    return found


RULES = ["fifo", "round-robin", "round-robin:quantum=3", "slaq", "hermes", "hermes:reading=early"]
RULES += ["successive-halving:pause=true", "asha-promote", "pasha", "freeze-thaw", "default", "pop"]
RULES += ["successive-halving", "hyperband", "asha-stop", "median-stop"]


@pytest.fixture(autouse=True)
def known_rule(request: pytest.FixtureRequest) -> None:
    """Rules that are not there yet are skipped."""
    text = getattr(request.node, "callspec", None) and request.node.callspec.params.get("text")
    if text in RULES:
        pytest.importorskip(rules.BUILTIN[text.partition(":")[0]][0])


@pytest.mark.parametrize("text", RULES)
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_rule_decides_live_as_it_does_in_the_replay(text: str, slots: int) -> None:
    for seed in range(5):
        drawn = curves(Random(seed), 7, 6)
        world = Curves(drawn, slots, 0.0, rule=text)
        state = run_curves(world, Exchanging(FifoSkip()))
        assert changes(world.at_work) == changes(replayed(text, drawn, slots, 0.0).at_work)
        (closed,) = studies_of(state).closed
        assert re.fullmatch(
            r"all trials are done|\d of 7 trials (is|are) done, \d stopped", closed.reason
        )


@pytest.mark.parametrize("text", RULES[:3])
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_so_it_does_where_a_switch_costs_time(text: str, slots: int) -> None:
    """Rules that let trials change slots among themselves pay for that in the replay alone."""
    for seed in range(5):
        drawn = curves(Random(seed), 7, 6)
        world = Curves(drawn, slots, 0.25, rule=text)
        run_curves(world, Exchanging(FifoSkip()))
        assert sorted(world.turns) == sorted(replayed(text, drawn, slots, 0.25).turns)


# ---------------------------------------------------------------- beside other people's jobs


class Compared:
    """The policy alone and with the exchange, at every decision: others get the same, and the study
    no more than the policy gives it."""

    def __init__(self, inner: Policy, make: Callable[[str], Rule]) -> None:
        self._inner = inner
        self._exchange = Exchanging(inner, make)
        self.exchanged = 0

    def decide(self, view: View) -> Iterable[Action]:
        alone = list(self._inner.decide(view))
        view.settle()
        actions = list(self._exchange.decide(view))
        trials = {track.job.id for track in view.tracks.values() if track.job.member is not None}
        assert others(actions, trials) == others(alone, trials)
        assert held_by_trials(actions, trials, view) <= held_by_trials(alone, trials, view)
        self.exchanged += actions != alone
        return actions


def others(actions: Iterable[Action], trials: set[JobId]) -> list[Action]:
    """What concerns nobody's trials, starts after the rest as the exchange has it."""
    found = [
        action
        for action in actions
        if not isinstance(action, Wake | GroupAction) and action.job_id not in trials
    ]
    return sorted(found, key=lambda action: isinstance(action, Start))


def held_by_trials(actions: Iterable[Action], trials: set[JobId], view: View) -> int:
    held = sum(job_id in trials for job_id in view.running)
    for action in actions:
        if not isinstance(action, Wake | GroupAction) and action.job_id in trials:
            held += isinstance(action, Start)
            ends = isinstance(action, Stop | Branch) and action.job_id in view.running
            held -= isinstance(action, Preempt) or ends
    return held


def beside(world: World, text: str, make: Callable[[str], Rule], **rest: Any) -> tuple[State, Any]:
    """A study of six trials beside the jobs of the world, to the end of all."""
    trials = [Arrival(0.0, trial(number, user="w"), 5.0) for number in range(6)]
    arrivals = sorted([*trials, *world.arrivals], key=lambda arrival: arrival.at)
    world = replace(world, arrivals=arrivals)
    state = State(1000)
    cluster = Stepping(world.cluster(), state, {f"s1.{n}": 1.0 + n % 3 for n in range(6)})
    cluster.open(design(trials=6, **rest))
    policy = Compared(policy_for(world, text), make)
    run(cluster, [policy], state)
    return state, policy


@pytest.mark.parametrize("text", POLICIES)
@settings(max_examples=20)
@given(world=WORLDS, at_once=st.sampled_from([None, 2]))
def test_others_get_what_they_would_get_anyway_under_every_policy(
    text: str, world: World, at_once: int | None
) -> None:
    state, _ = beside(world, text, make_rule, rule="round-robin", at_once=at_once)
    assert not state.tracks
    assert [closed.id for closed in studies_of(state).closed] == ["s1"]


def test_turns_are_exchanged_while_others_are_there() -> None:
    world = World([Arrival(0.0, job("j", 1, user="u"), 20.0)], nodes(1, 2))
    state, policy = beside(world, "fifo", make_rule, rule="round-robin")
    assert policy.exchanged > 10
    assert not state.tracks


# ----------------------------------------------------------------------------------- one decision


@dataclass(frozen=True)
class Says:
    """A rule that says what it is told to, by trial; else the first that waits."""

    verdicts: tuple[tuple[int, Any], ...] = ()
    picks: tuple[int | None, ...] = ()
    breaks: bool = False

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        if self.breaks:
            raise RuntimeError("out of its depth")
        found = dict(self.verdicts).get(trial.number)
        return found(study) if callable(found) else found

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        waiting = study.waiting()
        for number in self.picks:
            if number is None:
                return None
            if study.trials[number] in waiting or study.trials[number] is leaving:
                return study.trials[number]
        return leaving or next(iter(waiting), None)


def at_step(rule: Rule, gpus: int = 1, **rest: Any) -> tuple[Lived, Exchanging]:
    """The first trial has just made a step on the first GPU; nothing is decided yet."""
    lived, exchange = Lived(gpus), Exchanging(FifoSkip(), lambda text: rule)
    lived.open(design(**rest))
    lived.start("s1.0")
    list(exchange.decide(lived.state))
    lived.state.settle()
    lived.report("s1.0", 1, 0.5, 1.0)
    return lived, exchange


def decided(lived: Lived, exchange: Exchanging) -> list[Action]:
    actions = list(exchange.decide(lived.state))
    lived.state.settle()
    return actions


def texts(actions: Iterable[Action]) -> list[str]:
    return [f"{action.tag} {getattr(action, 'job_id', '')}".strip() for action in actions]


def test_another_trial_goes_on_in_the_same_place() -> None:
    lived, exchange = at_step(Says(picks=(2,)))
    actions = decided(lived, exchange)
    assert texts(actions) == ["preempt s1.0", "start s1.2"]
    assert isinstance(actions[1], Start)
    assert actions[1].placement is lived.state.running[JobId("s1.0")].placement


def suspended_on_another_node() -> tuple[Lived, Exchanging]:
    """The rule wants the third trial most, whose processes wait on the first node; the first trial has
    made a step on the second."""
    lived, exchange = Lived(gpus=1), Exchanging(FifoSkip(), lambda text: Says(picks=(2, 3)))
    lived.record(NodeJoined(0.0, Node("another", 1)))
    lived.open(design())
    lived.start("s1.2")
    lived.report("s1.2", 1, 0.5, 1.0)
    lived.record(Preempt(JobId("s1.2")), Saved(1.0, JobId("s1.2"), "freeze", 0.1, 1000, True))
    lived.start("s1.1")
    lived.record(Start(JobId("s1.0"), placement((1, 1))), Started(1.0, JobId("s1.0")))
    list(exchange.decide(lived.state))
    lived.state.settle()
    lived.report("s1.0", 1, 0.5, 1.0)
    return lived, exchange


def test_a_trial_that_is_suspended_on_another_node_is_not_picked_for_this_one() -> None:
    lived, exchange = suspended_on_another_node()
    assert texts(decided(lived, exchange)) == ["preempt s1.0", "start s1.3"]
    lived.record(NodeDraining(1.0, "box"))  # it can go on elsewhere or not at all
    lived.report("s1.0", 2, 0.5, 1.0)
    assert texts(decided(lived, exchange)) == ["preempt s1.0", "start s1.2"]


def test_who_could_not_go_on_elsewhere_is_still_suspended_where_it_was() -> None:
    lived, _ = suspended_on_another_node()
    lived.record(Preempt(JobId("s1.0")), Start(JobId("s1.2"), placement((1, 1))))
    lived.record(Displaced(1.0, JobId("s1.2"), "it can go on only there"))
    assert lived.state.tracks[JobId("s1.2")].home == placement((0, 1))


def test_a_step_is_looked_at_once_and_deciding_twice_gives_the_same() -> None:
    lived, exchange = at_step(Says(picks=(2,)))
    assert decided(lived, exchange) == decided(lived, exchange)
    lived.record(Woke(2.0))  # a moment later nobody asks again
    assert decided(lived, exchange) == []


def test_a_report_without_the_metric_or_twice_of_a_step_is_no_step() -> None:
    lived, exchange = at_step(Says(picks=(2,)))
    decided(lived, exchange)
    lived.report("s1.0", 1, 0.4, 3.0)
    assert decided(lived, exchange) == []


def test_a_rung_is_not_passed_over_when_several_steps_are_told_at_once() -> None:
    def at_third(study: Study) -> Verdict:
        return GiveUp("of no use") if study.trials[0].steps == 3 else None

    lived, exchange = at_step(Says(verdicts=((0, at_third),)), steps=9)
    decided(lived, exchange)
    for step in (2, 3, 4, 5):
        lived.report("s1.0", step, 0.5, 2.0)
    assert texts(decided(lived, exchange))[0] == "stop s1.0"


def test_nobody_in_the_slot_is_a_decision_too() -> None:
    lived, exchange = at_step(Says(picks=(None,)))
    assert texts(decided(lived, exchange)) == ["preempt s1.0"]
    lived.record(Preempt(JobId("s1.0")))
    assert decided(lived, exchange) == []  # the policy would start a trial, the rule none


def test_a_pinned_trial_keeps_its_slot() -> None:
    lived, exchange = at_step(Says(picks=(2,)))
    lived.record(Pinned(1.0, JobId("s1.0"), "it holds more than host memory has room for"))
    assert decided(lived, exchange) == []


def test_a_trial_is_given_up_as_stopped_by_its_study() -> None:
    lived, exchange = at_step(Says(verdicts=((0, GiveUp("worse than the median")),)))
    stop, wake = decided(lived, exchange)
    assert stop == Stop(JobId("s1.0"), "worse than the median", None, True)
    assert wake == Wake(1.0)  # somebody else may have the slot at once


def test_a_trial_takes_over_anothers_weights() -> None:
    rule = Says(verdicts=((0, lambda study: Copy(study.trials[1], {"lr": 0.3})),))
    lived, exchange = at_step(rule)
    assert decided(lived, exchange)[0] == Branch(JobId("s1.0"), JobId("s1.1"), (("lr", 0.3),))


@dataclass(frozen=True)
class Stubborn(Says):
    """Picks the first trial, whatever it does."""

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        return study.trials[0]


@pytest.mark.parametrize("rule", [Says(breaks=True), Stubborn()], ids=["raises", "wrong"])
def test_a_rule_that_breaks_leaves_its_trials_in_order(rule: Says) -> None:
    lived, exchange = at_step(rule, gpus=2)
    lived.start("s1.1", 1)
    lived.report("s1.1", 1, 0.5, 2.0)
    assert decided(lived, exchange) == []
    assert "failed" in exchange.troubles["s1"]
    assert "run in order" in exchange.troubles["s1"]


def test_a_rule_that_cannot_be_made_leaves_its_trials_in_order() -> None:
    def make(text: str) -> Rule:
        raise ImportError("No module named 'numpy'")

    lived, exchange = Lived(1), Exchanging(FifoSkip(), make)
    lived.open(design())
    assert texts(decided(lived, exchange)) == ["start s1.0"]
    assert "numpy" in exchange.troubles["s1"]


def test_on_a_node_that_is_drained_or_beside_strangers_nobody_takes_over() -> None:
    for closing in (NodeDraining(1.0, "box"), Occupied(1.0, "box", 1)):
        lived, exchange = at_step(Says(picks=(2,)))
        lived.record(closing)
        assert decided(lived, exchange) == []


def test_who_has_made_all_steps_is_let_end() -> None:
    lived, exchange = at_step(Says(picks=(2,)), steps=1)
    assert decided(lived, exchange) == []
    lived.record(Preempt(JobId("s1.0")))  # by somebody else, at the last moment
    assert texts(decided(lived, exchange)) == ["start s1.0"]


# ------------------------------------------------------------------------------- what rules are told


def mirror_of(lived: Lived) -> Any:
    return Mirror(studies_of(lived.state).open["s1"]).sync(lived.state)


def test_a_step_is_as_long_as_reports_are_apart_and_gaps_are_filled() -> None:
    lived = Lived()
    lived.open(design(steps=20, report_every=5))
    lived.start("s1.0")
    told: list[tuple[int, float | str]] = [(5, 0.9), (8, 0.8), (20, "inf")]
    for at, (step, value) in enumerate(told, 1):
        lived.report("s1.0", step, value, float(at))
    study = mirror_of(lived).study
    assert study.steps == 4
    assert study.trials[0].losses == [0.9, 0.8, 0.8, inf]
    assert study.trials[0].best == [0.9, 0.8, 0.8, 0.8]


def test_steps_may_be_counted_from_0_and_more_may_be_better() -> None:
    lived = Lived()
    lived.open(design(steps=3, direction="max", target=0.7))
    lived.start("s1.0")
    told: list[float | str] = [0.5, "NaN", 0.6, 0.9]
    for step, value in enumerate(told):
        lived.report("s1.0", step, value, step + 1.0)
    study = mirror_of(lived).study
    assert study.trials[0].losses == [-0.5, inf, -0.6]  # the fourth is more than it has
    assert study.target == -0.7
    assert study.trials[0].standing.value == "done"


def test_the_cost_of_a_switch_is_as_measured_in_steps() -> None:
    lived = Lived(gpus=2)
    lived.open(design(steps=9))
    assert mirror_of(lived).study.switch_cost == 0.25  # nothing is known yet
    lived.start("s1.0")
    lived.report("s1.0", 1, 0.5, 6.0)
    lived.report("s1.0", 2, 0.5, 8.0)
    lived.record(Preempt(JobId("s1.0")))
    assert mirror_of(lived).study.switch_cost == 0.25  # a slow start says little of giving way
    lived.record(Saved(8.0, JobId("s1.0"), "freeze", 0.75, 1, True))
    lived.start("s1.0")
    lived.record(Restored(8.0, JobId("s1.0"), "freeze", 0.25))
    assert mirror_of(lived).study.switch_cost == pytest.approx(0.5)


def test_first_starts_are_counted_apart_from_the_time_of_the_study() -> None:
    lived = Lived(gpus=2)
    lived.open(design(steps=9))
    lived.start("s1.0")
    for step, at in enumerate((6.0, 8.0, 10.0), 1):
        lived.report("s1.0", step, 0.5, at)
    study = mirror_of(lived).study
    assert study.now == 5.0
    assert study.starting == pytest.approx((2.0 - 0.25) / 2)  # of 6 s a step takes 2; two slots


def test_turns_slots_and_time_are_counted_in_steps() -> None:
    lived = Lived(gpus=2)
    lived.open(design(trials=5, steps=9, deadline=40.0, at_once=1))
    assert mirror_of(lived).study.slots == 1
    lived.start("s1.0")
    lived.report("s1.0", 1, 0.5, 2.0)
    lived.record(Preempt(JobId("s1.0")), Woke(4.0))
    lived.start("s1.0")
    lived.report("s1.0", 2, 0.5, 6.0)
    study = mirror_of(lived).study
    assert study.trials[0].turn == 1
    assert study.trials[0].seconds == 4.0
    assert study.switches == 2
    assert (study.now, study.deadline) == (3.0, 20.0)  # a step took 2 s


def test_trials_that_cannot_be_had_are_never_picked() -> None:
    lived = Lived()
    lived.record(
        StudyOpened(0.0, design(trials=3)),
        Submitted(0.0, trial(0, job_id="stage")),
        Submitted(0.0, trial(0, job_id="first", after=("stage",))),
        Submitted(0.0, trial(1, job_id="second", after=("stage",))),
        Submitted(0.0, trial(2, job_id="third")),
    )
    lived.record(Held(0.0, JobId("third"), "paused"))
    assert [own.number for own in mirror_of(lived).study.waiting()] == [0]
    lived.start("stage")
    lived.report("stage", 1, 0.5, 1.0)
    lived.record(Finished(2.0, JobId("stage")))
    assert [own.number for own in mirror_of(lived).study.waiting()] == [0, 1]


# -------------------------------------------------------------------------------- ends of a study


def run_to_end(rule: str = "fifo", **rest: Any) -> State:
    return run_curves(Curves(curves(Random(1), 4, 6), 2, 0.0, rule=rule, **rest), tried_twice())


def tried_twice() -> Policy:
    return AskedTwice(Exchanging(FifoSkip()))


def test_a_study_ends_at_the_moment_at_which_its_time_is_over() -> None:
    for field, limit, reason in (
        ("budget_s", 3.5, "its budget of 3.5 s is spent"),
        ("deadline", 3.5, "its deadline has come"),
        ("budget_gpu_s", 7.0, "its budget of 0.00194444 GPU-hours is spent"),
    ):
        state = run_to_end("fifo", **{field: limit})
        (closed,) = studies_of(state).closed
        assert closed.reason == reason
        assert closed.closed_at == pytest.approx(3.5)
        assert not state.tracks


def test_a_study_ends_with_its_target_only_if_it_is_to() -> None:
    ends = [
        studies_of(run_to_end(target=1.4, stop_at_target=stop)).closed[0] for stop in (True, False)
    ]
    assert "has reached the target" in ends[0].reason
    assert ends[1].reason == "all trials are done"
    assert ends[0].closed_at < ends[1].closed_at


def test_a_study_of_one_trial_that_fails_says_so() -> None:
    lived, exchange = Lived(), Exchanging(FifoSkip(), lambda text: Says())
    lived.open(design(trials=1))
    lived.start("s1.0")
    lived.record(Failed(1.0, JobId("s1.0"), "exit code 1"))
    (close,) = [action for action in decided(lived, exchange) if isinstance(action, CloseStudy)]
    assert close.reason == "its only trial failed without a report; trial 0: exit code 1"


def closed_because(lived: Lived) -> list[str]:
    actions = decided(lived, Exchanging(FifoSkip(), lambda text: Says()))
    return [action.reason for action in actions if isinstance(action, CloseStudy)]


def test_quick_failures_close_no_study_while_another_trial_makes_its_first_step() -> None:
    lived = Lived()
    lived.open(design(trials=6))
    lived.start("s1.0")
    for number in (1, 2, 3):
        lived.start(f"s1.{number}", gpu=1)
        lived.record(Failed(float(number), JobId(f"s1.{number}"), "exit code 1"))
        assert not closed_because(lived)
    lived.record(Failed(4.0, JobId("s1.0"), "exit code 2"))
    assert closed_because(lived) == [
        "all 4 trials that were begun failed without a report; trial 0: exit code 2"
    ]


def test_a_study_that_was_told_no_finite_number_says_how_many_were_none() -> None:
    lived = Lived()
    lived.open(design(trials=2))
    for number in (0, 1):
        lived.start(f"s1.{number}", gpu=number)
        lived.report(f"s1.{number}", 1, "NaN", 1.0)
        lived.report(f"s1.{number}", 2, "inf", 1.0)
        lived.record(Finished(1.0, JobId(f"s1.{number}")))
    (reason,) = closed_because(lived)
    assert reason == (
        "all trials are done; none of them reported a finite number as loss: 4 values were none"
    )


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ("dd", "all trials are done"),
        ("dfd", "2 of 3 trials are done, 1 failed"),
        ("dffs", "1 of 4 trials is done, 2 failed, 1 stopped"),
        ("ss", "none of 2 trials is done, 2 stopped"),
    ],
)
def test_a_study_that_is_over_says_how_many_of_its_trials_are_done(ends: str, reason: str) -> None:
    lived = Lived()
    lived.open(design(trials=len(ends)))
    for number, end in enumerate(ends):
        job_id = JobId(f"s1.{number}")
        lived.start(job_id)
        lived.report(job_id, 1, 0.5, 1.0)
        told: dict[str, Event] = {
            "d": Finished(1.0, job_id),
            "f": Failed(1.0, job_id, "exit code 1"),
            "s": Cancelled(1.0, job_id, "cancelled by ann"),
        }
        lived.record(told[end])
    assert closed_because(lived) == [reason]


def test_while_none_has_lasted_longer_than_those_that_failed_no_other_is_begun() -> None:
    lived = Lived()
    lived.open(design(trials=6))
    for number in (0, 1, 2):
        lived.start(f"s1.{number}")
        lived.record(Failed(2.0 + number, JobId(f"s1.{number}"), "exit code 1"))
        if number == 1:
            lived.start("s1.3", gpu=1)
    actions = decided(lived, Exchanging(FifoSkip()))
    (wake,) = actions
    assert isinstance(wake, Wake)
    lived.record(Woke(wake.at))
    starts = decided(lived, Exchanging(FifoSkip()))
    assert [action.job_id for action in starts if isinstance(action, Start)] == ["s1.4"]


# ------------------------------------------------------------------------ what users of others miss


@pytest.mark.parametrize("text", RULES)
def test_every_rung_is_there_after_a_restart_at_any_moment(text: str) -> None:
    """Killed after any turn: a fresh exchange on the replayed journal goes on as the first would."""
    drawn = curves(Random(3), 6, 9)
    whole = Curves(drawn, 2, 0.25, rule=text)
    run_curves(whole, Exchanging(FifoSkip()))
    for turns in range(2, 40, 7):
        world, entries = Curves(drawn, 2, 0.25, rule=text), list[tuple[Any, float]]()
        journal = told_to(partial(_keep, entries))
        run(Paused(world, turns), [Exchanging(FifoSkip())], State(100), journal)
        state = State(100)
        for entry, at in entries:
            state.record(decode(encode(entry, at)))
        run(world, [Exchanging(FifoSkip())], state)
        assert world.turns == whole.turns


def _keep(entries: list[tuple[Any, float]], entry: Any, at: float) -> None:
    entries.append((entry, at))


def test_brackets_do_not_depend_on_the_number_of_slots() -> None:
    pytest.importorskip("dovetail.tune.rules.halving")
    drawn, made = curves(Random(5), 12, 9), []
    for slots in (1, 2, 4):
        world = Curves(drawn, slots, 0.0, rule="hyperband")
        run_curves(world, Exchanging(FifoSkip()))
        made.append(sorted(world.made.values()))
    assert made[0] == made[1] == made[2]


def test_shares_of_a_gpu_are_on_one_card_and_within_its_memory() -> None:
    lived, exchange = Lived(2), Exchanging(FifoSkip(), lambda text: Says())
    lived.record(NodeJoined(0.0, Node("cards", 2, kind="h100", gpu_memory_gb=80.0)))
    part: dict[str, Any] = {"share": 400, "kinds": ("h100",)}
    lived.open(design(trials=6), gpu_memory_gb=30.0, **part)
    for action in decided(lived, exchange):
        lived.record(action)
    cards = [track.placement.slices for track in lived.state.running.values() if track.placement]
    assert len(cards) == 4  # two on each: five would fit into the sum, not onto the cards
    assert sorted(piece.mask for (piece,) in cards) == [1, 1, 2, 2]
    lived.record(Submitted(0.0, job("large", gpu_memory_gb=40.0, **part)))
    assert "40 GB" in lived.state.unplaceable[JobId("large")]  # its part of a card has 32
