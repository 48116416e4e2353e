"""Studies beside all other work: who of their trials has which slot, and when they are over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.entries import (
    Action,
    Branch,
    CloseStudy,
    Failed,
    Finished,
    Pinned,
    Preempt,
    Restored,
    Saved,
    Start,
    Stop,
    StudyOpened,
    Submitted,
    Wake,
    Woke,
)
from dovetail.core.loop import Policy, run
from dovetail.core.model import JobId
from dovetail.core.state import State
from dovetail.core.view import View
from dovetail.models.workload import Arrival
from dovetail.policies.queueing import FifoSkip
from dovetail.policies.registry import BUILTIN
from dovetail.testing import AskedTwice, World, job, nodes, policy_for, random_world
from dovetail.tune.live import Exchanging
from dovetail.tune.replay import Drawn, _World
from dovetail.tune.rules import Copy, GiveUp, Rule, Verdict
from dovetail.tune.rules.registry import make as make_rule
from dovetail.tune.study import Study, Trial
from study_state import Lived, design, trial
from study_worlds import Curves, Stepping, run_curves

SHORT = {"las": "las:quantum=3", "round-robin": "round-robin:slice_s=3"}
SHORT |= {"tiresias": "tiresias:queues=2:limits=6", "gittins": "gittins:quantum=3"}
SHORT |= {"multilevel-feedback": "multilevel-feedback:levels=2:slice_s=3"}
SHORT |= {"gandiva": "gandiva:slice_s=4", "least-laxity": "least-laxity:quantum_s=3"}
POLICIES = [SHORT.get(name, name) for name in sorted(BUILTIN)]
WORLDS = st.randoms(use_true_random=False).map(lambda chance: random_world(chance, 6))


def curves(chance: Random, trials: int, steps: int) -> list[list[float]]:
    found = []
    for _ in range(trials):
        start, pace = chance.uniform(1, 2), chance.uniform(0.05, 0.9)
        found.append(
            [start * (1 + step) ** -pace + 1e-3 * chance.random() for step in range(steps)]
        )
    return found


# --------------------------------------------------------------------- the same as in the replay


class ReplayedTurns(_World):
    """The replay, with who was given a slot when."""

    turns: list[tuple[float, str]]

    def _exchange(self, slot: int, leaving: Trial | None, chosen: Trial | None) -> None:
        super()._exchange(slot, leaving, chosen)
        if chosen is not None:
            self.turns.append((round(self.study.now, 6), f"s1.{chosen.number}"))


def replayed(text: str, drawn: list[list[float]], slots: int, cost: float) -> list[Any]:
    study = Study(len(drawn[0]), slots, switch_cost=cost, planned=len(drawn), seed=0)
    study.trials = [Trial(number, {}) for number in range(len(drawn))]
    rows = tuple(tuple(curve) for curve in drawn)
    world = ReplayedTurns(make_rule(text), Drawn(rows, None, -1.0), study)
    world.turns = []
    world.run()
    return world.turns


RULES = ["fifo", "round-robin", "round-robin:quantum=3"]


@pytest.mark.parametrize("text", RULES)
@pytest.mark.parametrize("cost", [0.0, 0.25])
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_rule_decides_live_as_it_does_in_the_replay(text: str, cost: float, slots: int) -> None:
    for seed in range(5):
        drawn = curves(Random(seed), 7, 6)
        world = Curves(drawn, slots, cost, rule=text)
        state = run_curves(world, Exchanging(FifoSkip()))
        assert sorted(world.turns) == sorted(replayed(text, drawn, slots, cost))
        assert [closed.reason for closed in state.studies.closed] == ["all trials are done"]


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
        trials = {track.job.id for track in view.tracks.values() if track.job.trial is not None}
        assert others(actions, trials) == others(alone, trials)
        assert held_by_trials(actions, trials, view) <= held_by_trials(alone, trials, view)
        self.exchanged += actions != alone
        return actions


def others(actions: Iterable[Action], trials: set[JobId]) -> list[Action]:
    """What concerns nobody's trials, starts after the rest as the exchange has it."""
    found = [
        action
        for action in actions
        if not isinstance(action, Wake | CloseStudy) and action.job_id not in trials
    ]
    return sorted(found, key=lambda action: isinstance(action, Start))


def held_by_trials(actions: Iterable[Action], trials: set[JobId], view: View) -> int:
    held = sum(job_id in trials for job_id in view.running)
    for action in actions:
        if not isinstance(action, Wake | CloseStudy) and action.job_id in trials:
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
    assert [closed.id for closed in state.studies.closed] == ["s1"]


def test_turns_are_exchanged_while_others_are_there() -> None:
    world = World([Arrival(0.0, job("j", 1, user="u"), 20.0)], nodes(1, 2))
    state, policy = beside(world, "fifo", make_rule, rule="round-robin")
    assert policy.exchanged > 10
    assert not state.tracks
