"""Studies beside all other work: who of their trials has which slot, and when they are over."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dovetail.policies.queueing import FifoSkip
from dovetail.policies.registry import BUILTIN
from dovetail.tune.live import Exchanging
from dovetail.tune.replay import Drawn, _World
from dovetail.tune.rules.registry import make as make_rule
from dovetail.tune.study import Study, Trial
from study_worlds import Curves, run_curves

SHORT = {"las": "las:quantum=3", "round-robin": "round-robin:slice_s=3"}
SHORT |= {"tiresias": "tiresias:queues=2:limits=6", "gittins": "gittins:quantum=3"}
SHORT |= {"multilevel-feedback": "multilevel-feedback:levels=2:slice_s=3"}
SHORT |= {"gandiva": "gandiva:slice_s=4", "least-laxity": "least-laxity:quantum_s=3"}
POLICIES = [SHORT.get(name, name) for name in sorted(BUILTIN)]
SAME = 1e-9


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
