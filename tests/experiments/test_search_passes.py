"""Policies that search say how much they did, others say nothing of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dovetail.core.model import Job, JobId, Node, Option
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.experiments.summary_table import searches_told
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.hourly import Hourly
from dovetail.models.workload import Arrival

COSTS = Costs({"gpu": NodeRates((0.0, 300.0, 500.0))}, Hourly([0.2]))
NODES = [Node("a", 2), Node("b", 2)]


def experiment() -> Experiment:
    jobs = [
        Job(JobId(f"j{i}"), kinds=("gpu",), deadline=900.0 * i + 2000, late_cost_per_s=0.001 * (i + 1),
            options=(Option("gpu", 1, 1500.0 + 100 * i), Option("gpu", 2, 1000.0)))
        for i in range(8)
    ]  # fmt: skip
    arrivals = [Arrival(200.0 * i, job, job.options[0].seconds) for i, job in enumerate(jobs)]
    return Experiment(arrivals, NODES, costs=COSTS)


def test_a_search_tells_its_passes_and_that_none_was_cut_short() -> None:
    summary: Mapping[str, Any] = simulate(experiment(), "andreas-random-greedy").summary
    assert summary["searches"] >= 8
    assert summary["search_passes"] > summary["searches"]
    assert summary["searches_cut"] == 0
    (line,) = searches_told([summary])
    assert line.endswith(f"passes in {summary['searches']} decisions")


@pytest.mark.parametrize("name", ["random-greedy", "local-search", "path-relinking"])
def test_one_without_time_says_so(name: str) -> None:
    summary: Mapping[str, Any] = simulate(experiment(), f"andreas-{name}:limit_s=1e-9").summary
    assert 0 < summary["searches_cut"] <= summary["search_passes"] <= summary["searches"]
    told = " ".join(searches_told([summary]))
    assert told.endswith(f"{summary['searches_cut']} of them cut short by limit_s")


def test_who_does_not_search_says_nothing_of_it() -> None:
    summary = simulate(experiment(), "andreas-greedy").summary
    assert not {"searches", "search_passes", "searches_cut"} & summary.keys()
    assert searches_told([summary]) == []
