"""What every policy must keep holds too where it goes by trees that were fitted on the way."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import pytest

from dovetail.core.journal import read
from dovetail.core.model import Node
from dovetail.core.state import State
from dovetail.policies.placement import PLACEMENTS
from dovetail.policies.registry import Knowledge, make
from dovetail.predict.learned import Followed, Learned
from dovetail.testing import (
    Paused,
    PolicyRun,
    World,
    check_ends_and_laws,
    check_purity,
    check_replay,
    check_restart,
    check_same_again,
    policy_for,
    run_world,
)
from dovetail.testing.runs import go_on
from stand_in_months import months

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="needs scikit-learn")

TEXTS = ["qssf:predictor=mixture", "srtf:predictor=mixture", "easy:predictor=boosted"]
TURNS = 430  # on the second day: trees are in force, jobs wait, and there are jobs to come
every_text = pytest.mark.parametrize("text", TEXTS)


@cache
def world() -> World:
    """A busy node for more than a day; trees are fitted after the first."""
    return World(months(300, 1.6), [Node("n0", 12)])


@every_text
def test_every_job_ends_and_deciding_is_pure(text: str) -> None:
    check_ends_and_laws(world(), lambda: policy_for(world(), text))
    check_purity(world(), lambda: policy_for(world(), text))


@every_text
def test_replay_and_restart_lose_nothing(text: str) -> None:
    check_replay(world(), lambda: policy_for(world(), text), TURNS)
    check_restart(world(), lambda: policy_for(world(), text), TURNS)
    check_same_again(world(), lambda: policy_for(world(), text))


@every_text
def test_nothing_happens_differently_before_the_truth_comes_to_light(text: str) -> None:
    first = run_world(world(), policy_for(world(), text))
    late = next(a for a in world().arrivals if a.at > 90_000.0)
    other = [replace(a, work_s=a.work_s * 9) if a is late else a for a in world().arrivals]
    second = run_world(replace(world(), arrivals=other), policy_for(world(), text))
    known_at = first.ended[late.job.id].ended_at
    before = [[repr(e) for then, e in run.entries if then < known_at] for run in (first, second)]
    assert before[0] == before[1]


@every_text
def test_what_was_learned_is_there_after_a_restart(text: str) -> None:
    """Trees are in force in that world, and a daemon that reads the journal has the same."""
    policy, way = text.split(":predictor=")
    learned, afresh = Learned(way), Learned(way)
    decider = make(policy, PLACEMENTS["consolidated"], Knowledge({way: learned}, way))
    state = State(1000)
    done = go_on(Paused(world().cluster(), TURNS), decider, PolicyRun(state))
    copy = State(1000)
    for entry in read(done.text.splitlines()):
        copy.record(entry)
    waiting = [track.job for track in state.tracks.values()]
    assert len(waiting) > 5
    assert [learned.belief(job, state) for job in waiting] == [
        afresh.belief(job, copy) for job in waiting
    ]
    followed = state.index(learned)
    assert isinstance(followed, Followed)
    assert followed.learner.at(state.now).lessons >= 100
