"""A policy that cannot go on is a defect of ours, whatever the world: see `make fuzz` for many more."""

import os
from random import Random

import pytest

from contracts_texts import TEXTS
from dovetail.core.entries import NodeLeft, Started
from dovetail.core.model import Interruption, Node, Option
from dovetail.core.track import Phase
from dovetail.models.failures import NodeFailures
from dovetail.models.speed import by_kind_and_placement, same_for_all_pairs
from dovetail.policies.placement import PLACEMENTS
from dovetail.testing import (
    World,
    arrival,
    check_ends_and_laws,
    nodes,
    over_nodes,
    policy_for,
    run_trace,
    run_world,
    wild_world,
)

WORLDS = int(os.environ.get("DOVETAIL_FUZZ", "60"))

# Found by `make fuzz`: the number of the world, the policy, the placement.
FOUND = [
    (222, "conservative", "consolidated"),
    (528, "andreas-greedy", "consolidated"),
    (534, "tiresias:queues=2:limits=60:late=true", "spread"),
    (789, "las:quantum=60", "spread"),
    (968, "andreas-local-search:passes=5:repaired=true", "consolidated"),
    (1202, "andreas-fifo", "topology"),
    (2325, "tiresias:queues=2:limits=60:promote=2", "count"),
    (3041, "andreas-fifo", "consolidated"),
    (5086, "andreas-local-search:passes=5:repaired=true", "topology"),
    (5787, "conservative:predictor=noisy-oracle", "spread"),
    (5901, "las:quantum=60", "consolidated"),
    (7930, "andreas-random-greedy:passes=10", "spread"),
]


def goes_on(number: int, text: str, place: str, spans: bool = False) -> None:
    chance = Random(f"wild/{number}")
    world = wild_world(chance)
    if spans:
        world = over_nodes(world, chance)
    check_ends_and_laws(world, lambda: policy_for(world, text, place))


@pytest.mark.parametrize(("number", "text", "place"), FOUND)
def test_what_once_stopped_a_policy_does_so_no_more(number: int, text: str, place: str) -> None:
    goes_on(number, text, place)


def test_every_policy_goes_on_in_wild_worlds() -> None:
    texts = [text for text in TEXTS if not text.startswith("frugal")]  # it has tests of its own
    for number in range(WORLDS):
        chance = Random(f"fuzz/{number}")
        for text in chance.sample(texts, 6):
            place = chance.choice(sorted(PLACEMENTS))
            try:
                goes_on(number, text, place, spans=number % 2 == 1)
            except Exception as error:
                raise AssertionError(f"world {number}, {text}, {place}: {error}") from error


def test_least_laxity_goes_on_where_gpus_are_faster_than_one() -> None:
    jobs = [
        arrival("a", 0.0, 100.0, deadline=400.0),
        arrival("b", 0.0, 1700.0, deadline=3500.0),
        arrival("c", 0.0, 300.0, deadline=600.0),
    ]
    speed = by_kind_and_placement({"A": 2.0})
    run = run_trace("least-laxity", jobs, [Node("n0", 1, "A")], speed=speed)
    assert max(run.ends_at.values()) == pytest.approx(1050.0)


@pytest.mark.parametrize("length", [0.0, 5.0])
def test_a_start_is_told_though_a_neighbour_ends_at_the_very_instant(length: float) -> None:
    """The neighbour's end changes the speed of one that is about to be at work."""
    cost = Interruption(save_s=5.0)
    jobs = [
        arrival("first", 0.0, 60.0, interruption=cost),
        arrival("none", 10.0, length, share=500, interruption=cost, priority=2.0),
        arrival("half", 10.0, 20.0, share=500, interruption=cost, priority=1.0),
    ]
    pairs = same_for_all_pairs(0.6)
    run = run_trace("priority", jobs, [Node("n0", 1)], interference=pairs)
    for job_id in ("none", "half", "first"):
        assert job_id in {entry.job_id for entry in run.of(Started)}


def test_a_failure_that_is_expected_of_a_node_that_has_left_does_not_end_the_world() -> None:
    failures = NodeFailures(mtbf_s=50.0, repair_s=1.0)
    jobs = [arrival("long", 0.0, 1000.0, interruption=Interruption(lost_s=0.0))]
    world = World(jobs, nodes(2, 1), node_events=[NodeLeft(1.0, "n1")], failures=failures)
    assert run_world(world, policy_for(world, "fifo")).phase("long") is Phase.FINISHED


def test_a_job_whose_first_option_is_not_to_be_had_runs_in_another() -> None:
    ways = (Option("A", 1, 10.0), Option("C", 1, 20.0))
    jobs = [arrival("j", 0.0, 10.0, kinds=("A",), options=ways)]
    speed = by_kind_and_placement({})
    for text in ("fifo", "srtf", "easy", "conservative", "gandiva", "drf", "andreas-greedy"):
        run = run_trace(text, jobs, [Node("n0", 1, "C")], speed=speed)
        assert run.ends_at["j"] == pytest.approx(20.0), text
