"""Frugal's figures on instances drawn as the authors of ANDREAS draw theirs; all of them, with more
seeds and larger clusters, are in benchmarks/andreas_table.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dovetail.bounds.solver import solved
from dovetail.bounds.time_slots import Slotted
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.traces.readers.andreas_folder import Instance
from dovetail.traces.synthetic.andreas_instances import Scenario, draw

SEED = 300  # settled nothing: the constants are from seeds 0 to 4
LOADS = ("high", "mixed", "low", "exponential:5000", "exponential:8000")
BASELINES = ("andreas-fifo", "andreas-edf", "andreas-priority")


def summary(instance: Instance, policy: str) -> Mapping[str, Any]:
    experiment = Experiment(instance.trace.arrivals, instance.nodes, costs=instance.costs)
    return simulate(experiment, policy).summary


@pytest.mark.parametrize("load", LOADS)
def test_it_costs_a_tenth_less_than_random_greedy_and_nothing_is_late(load: str) -> None:
    instance = draw(Scenario(10, 60, load, SEED))
    ours = summary(instance, "frugal")
    theirs = summary(instance, "andreas-random-greedy:passes=20")
    assert ours["total_cost"] < 0.9 * theirs["total_cost"]
    assert ours["tardiness_cost"] <= 0.01 * ours["total_cost"]


@pytest.mark.parametrize("load", LOADS)
def test_it_is_within_a_tenth_of_what_nobody_can_go_below(load: str) -> None:
    pytest.importorskip("scipy")
    instance = draw(Scenario(3, 30, load, SEED))
    program = Slotted(instance.trace.arrivals, instance.nodes, instance.costs, 300.0, relaxed=True)
    least = solved(program, 60.0)
    assert least.in_time
    assert least.bound <= summary(instance, "frugal")["total_cost"] <= 1.1 * least.bound


@pytest.mark.parametrize("load", ["high", "mixed", "low", "exponential:50000"])
def test_on_rented_nodes_it_is_a_tenth_below_every_baseline(load: str) -> None:
    instance = draw(Scenario(3, 30, load, SEED, "datacenter"))
    best = min(summary(instance, policy)["total_cost"] for policy in BASELINES)
    assert summary(instance, "frugal")["total_cost"] < 0.9 * best
