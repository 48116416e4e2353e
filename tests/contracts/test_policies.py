"""What every registered policy must keep, on worlds made by chance."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.policies.registry import BUILTIN
from dovetail.testing import (
    World,
    check_ends_and_laws,
    check_purity,
    check_replay,
    check_restart,
    check_same_again,
    policy_for,
    random_world,
)

# Defaults suit jobs of hours; these suit the seconds of our worlds. A quantum must be longer than
# saving and restoring a gang, or nothing but saving and restoring would ever happen.
SHORT = {
    "las": ["las:quantum=60"],
    "tiresias": [
        "tiresias:queues=3:limits=60/200",
        "tiresias:queues=2:limits=60:promote=2",
        "tiresias:queues=2:limits=60:late=true",
    ],
    "gittins": ["gittins:quantum=60", "gittins:quantum=60:horizon=100"],
    "round-robin": ["round-robin:slice_s=7"],
    "multilevel-feedback": ["multilevel-feedback:levels=3:slice_s=4"],
    "least-laxity": ["least-laxity:quantum_s=5"],
    "gandiva": ["gandiva:slice_s=6", "gandiva:slice_s=6:pack=false"],
    "fair-share": ["fair-share:half_life_s=50"],
    "srtf": ["srtf", "srtf:predictor=history-mean", "srtf:gain_s=5"],
    "priority": ["priority", "priority:preempt=false"],
    "easy": ["easy", "easy:predictor=noisy-oracle"],
    "conservative": ["conservative", "conservative:predictor=noisy-oracle"],
}
TEXTS = [text for name in BUILTIN for text in SHORT.get(name, [name])]
WORLDS = st.randoms(use_true_random=False).map(random_world)
TURNS = st.integers(0, 30)
every_policy = pytest.mark.parametrize("text", TEXTS)


@every_policy
@given(world=WORLDS)
def test_every_job_ends_once_and_no_law_of_the_cluster_is_broken(text: str, world: World) -> None:
    check_ends_and_laws(world, lambda: policy_for(world, text))


@every_policy
@given(world=WORLDS)
def test_deciding_is_pure(text: str, world: World) -> None:
    check_purity(world, lambda: policy_for(world, text))


@every_policy
@given(world=WORLDS, turns=TURNS)
def test_replaying_the_journal_rebuilds_the_state(text: str, world: World, turns: int) -> None:
    check_replay(world, lambda: policy_for(world, text), turns)


@every_policy
@given(world=WORLDS, turns=TURNS)
def test_a_crash_at_any_turn_loses_no_job(text: str, world: World, turns: int) -> None:
    check_restart(world, lambda: policy_for(world, text), turns)


@every_policy
@given(world=WORLDS)
def test_the_same_world_gives_the_same_journal_byte_for_byte(text: str, world: World) -> None:
    check_same_again(world, lambda: policy_for(world, text))
