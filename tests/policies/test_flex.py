"""Shares by weighted proportional fairness, and `flex`, which carries them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dovetail.core.entries import Resize, Start
from dovetail.core.journal import Journal
from dovetail.core.loop import run
from dovetail.core.model import Interruption, Job, JobId, Node, Placement, Slice
from dovetail.core.state import State
from dovetail.models.speed import by_kind_and_placement
from dovetail.models.workload import Arrival
from dovetail.policies.flex.claims import Claimant, GpuWay
from dovetail.policies.flex.policy import Flex
from dovetail.policies.flex.shares import shares
from dovetail.policies.reallocation import shrunk
from dovetail.predict.duration import Oracle
from dovetail.worlds.simulated import SimulatedCluster


def claimant(name: str, rates: Sequence[float], left_gpu_s: float = 100.0, **more: Any) -> Claimant:
    """Of one pool; the rates on 1, 2, … GPUs, 0 where it cannot run."""
    ways = [GpuWay(0, gpus, rate) for gpus, rate in enumerate(rates, 1) if rate > 0]
    return Claimant(JobId(name), ways, left_gpu_s, **more)


def counts(claimants: Sequence[Claimant], gpus: int) -> dict[str, int]:
    return {str(job): way.gpus for job, way in shares(claimants, {0: gpus}).items()}


def power(exponent: float, most: int = 8) -> list[float]:
    return [float(gpus**exponent) for gpus in range(1, most + 1)]


def test_equal_jobs_share_equally() -> None:
    assert counts([claimant("a", power(0.8)), claimant("b", power(0.8))], 8) == {"a": 4, "b": 4}


def test_a_job_of_more_weight_gets_more() -> None:
    heavy, light = claimant("a", power(0.8), weight=3.0), claimant("b", power(0.8))
    assert counts([heavy, light], 8) == {"a": 6, "b": 2}


def test_where_there_are_more_jobs_than_gpus_those_with_least_left_run() -> None:
    jobs = [claimant(str(left), power(0.8), left_gpu_s=left) for left in (30.0, 10.0, 20.0)]
    assert counts(jobs, 2) == {"10.0": 1, "20.0": 1}


def test_a_higher_priority_is_admitted_before_a_shorter_job() -> None:
    jobs = [
        claimant("short", power(0.8), left_gpu_s=1.0),
        claimant("first", power(0.8), priority=1),
    ]
    assert counts(jobs, 1) == {"first": 1}


def test_a_job_that_gains_only_from_four_gpus_is_not_stuck_below() -> None:
    stepped = claimant("a", [1.0, 1.0, 1.0, 4.0])
    assert counts([stepped, claimant("b", [1.0, 1.1, 1.15, 1.2])], 5) == {"a": 4, "b": 1}


def test_a_gang_gets_all_or_nothing() -> None:
    gang = claimant("gang", [0, 0, 0, 1.0], left_gpu_s=200.0)
    assert counts([claimant("a", [1.0]), gang], 4) == {"a": 1}


def test_the_fast_kind_goes_to_who_gains_most_from_it() -> None:
    gains = Claimant(JobId("gains"), [GpuWay(0, 1, 4.0), GpuWay(1, 1, 1.0)], 100.0)
    little = Claimant(JobId("little"), [GpuWay(0, 1, 1.2), GpuWay(1, 1, 1.0)], 10.0)
    assert shares([gains, little], {0: 1, 1: 1}) == {
        "gains": gains.ways[0],
        "little": little.ways[1],
    }


def test_a_shrunk_placement_keeps_the_nodes_with_most_of_its_gpus() -> None:
    before = Placement((Slice(0, 0b1), Slice(1, 0b1111), Slice(2, 0b11)))
    assert shrunk(before, 5).slices == (Slice(1, 0b1111), Slice(2, 0b10))


def journal_of(arrivals: Sequence[Arrival], gpus: int, **options: Any) -> list[object]:
    flex = Flex(
        predictor=Oracle({arrival.job.id: arrival.work_s for arrival in arrivals}), **options
    )
    entries: list[object] = []
    world = SimulatedCluster([Node("n", gpus)], arrivals, speed=by_kind_and_placement({}))
    journal = Journal(lambda some, times: entries.extend(some))
    run(world, [flex], State(), journal)
    journal.flush()
    return entries


def elastic(name: str, cost_s: float = 0.0) -> Job:
    cost = Interruption(save_s=cost_s, restore_s=cost_s)
    return Job(JobId(name), 1, min_gpus=1, max_gpus=8, interruption=cost)


def sizes(entries: Sequence[object]) -> list[tuple[str, int]]:
    return [(str(e.job_id), e.placement.gpus) for e in entries if isinstance(e, Resize)]


def test_a_running_job_makes_room_and_grows_again_when_it_is_alone() -> None:
    arrivals = [Arrival(0.0, elastic("long"), 5000.0), Arrival(100.0, elastic("short"), 500.0)]
    moves = sizes(journal_of(arrivals, 8))
    assert moves[0][0] == "long"
    assert moves[0][1] < 8
    assert ("long", 8) in moves


def test_the_job_with_the_fewest_gpu_seconds_left_goes_first() -> None:
    """The gang would be over sooner, and take more GPU-seconds until then."""
    gang, small = Job(JobId("gang"), 4), Job(JobId("small"), 1)
    arrivals = [
        Arrival(0.0, Job(JobId("first"), 4), 10.0),
        Arrival(1.0, gang, 100.0),
        Arrival(2.0, small, 150.0),
    ]
    entries = journal_of(arrivals, 4)
    assert [str(e.job_id) for e in entries if isinstance(e, Start)] == ["first", "small", "gang"]


def test_a_move_that_does_not_pay_is_not_made() -> None:
    """When the other ends, 50 s are left of this one: a GPU more would cost it 180 s."""
    other = Job(JobId("other"), 1)
    arrivals = [Arrival(0.0, elastic("long", cost_s=90.0), 400.0), Arrival(0.0, other, 350.0)]
    assert sizes(journal_of(arrivals, 2)) == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"favour": 2.0}, "favour=2: give a number from 0 to 1"),
        ({"horizon_s": 0.0}, "horizon_s=0: give a positive number of seconds"),
        ({"round_s": -1.0}, "round_s=-1: give a positive number of seconds"),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Flex(**options)
