"""Frugal and energy beyond GPUs and nodes: power limits, hours, and what it believes of them."""

from __future__ import annotations

from dataclasses import replace
from math import pi, sin
from random import Random
from typing import Any

import pytest

from dovetail.core.entries import JournalEntry, Preempt, Resize
from dovetail.core.loop import run
from dovetail.core.model import Node, Seconds
from dovetail.core.state import State
from dovetail.experiments.experiment import Experiment, simulate, with_errors
from dovetail.models.cost import Costs, rates_of
from dovetail.models.hourly import HOUR_S, Hourly
from dovetail.models.power import Limited, PowerTable
from dovetail.models.workload import Arrival
from dovetail.policies.frugal.policy import Frugal
from dovetail.testing import arrival, told_to

POWER = PowerTable(
    {
        ("net", "gpu"): (
            Limited(0, 1.0, 250.0),
            Limited(200, 1.05, 200.0),
            Limited(150, 1.2, 150.0),
            Limited(100, 1.6, 105.0),
        )
    }
)
ONE = Node("n0", 1, gpu_watts=250.0)


def costs_of(nodes: list[Node], price: float = 0.2) -> Costs:
    return Costs(rates_of(nodes), price=Hourly([price]), power=POWER)


def spent(policy: str, node: Node = ONE, price: float = 0.2, **wishes: Any) -> dict[str, Any]:
    one = arrival("a", 0.0, HOUR_S, model="net", **wishes)
    experiment = Experiment([one], [node], costs=costs_of([node], price))
    return dict(simulate(experiment, policy).summary)


def took(policy: str = "frugal", **wishes: Any) -> float:
    return float(spent(policy, **wishes)["mean_jct_s"]) / HOUR_S


# ------------------------------------------------------------------------------------ power limits


def test_a_job_with_slack_has_the_limit_that_needs_least_energy() -> None:
    run = spent("frugal", deadline=24 * HOUR_S, late_cost_per_s=1.0)
    assert run["energy_kwh"] == pytest.approx(1.6 * 0.105)
    assert run["deadline_misses"] == 0


def test_without_a_price_less_energy_is_still_better() -> None:
    assert spent("frugal", price=0.0, deadline=24 * HOUR_S)["energy_kwh"] == pytest.approx(
        1.6 * 0.105
    )


def test_a_tight_deadline_is_met_under_the_limit_that_just_does() -> None:
    run = spent("frugal", deadline=1.3 * HOUR_S, late_cost_per_s=1.0)
    assert run["deadline_misses"] == 0
    assert run["preemptions"] == 0
    assert 1.6 * 0.105 < run["energy_kwh"] < 1.2 * 0.150  # less than any one limit that is in time


def test_a_deadline_that_needs_all_power_gets_it() -> None:
    run = spent("frugal", deadline=1.03 * HOUR_S, late_cost_per_s=1.0)
    assert run["deadline_misses"] == 0


@pytest.mark.parametrize("hours", [1.04, 1.1, 1.3, 24.0])
def test_a_deadline_is_met_though_lateness_has_no_price(hours: float) -> None:
    assert spent("frugal", deadline=hours * HOUR_S)["deadline_misses"] == 0


def test_without_a_deadline_time_is_worth_energy() -> None:
    assert took() == pytest.approx(1.05)
    assert took("frugal:haste=0") == pytest.approx(1.6)
    assert took("frugal:haste=10") == pytest.approx(1.0)


def test_the_longer_a_node_is_on_the_more_it_draws_by_itself() -> None:
    slack = {"deadline": 24 * HOUR_S, "late_cost_per_s": 1.0}
    assert spent("frugal", replace(ONE, idle_watts=50.0), **slack)["energy_kwh"] == pytest.approx(
        1.2 * 0.2
    )
    assert spent("frugal", replace(ONE, idle_watts=600.0), **slack)["energy_kwh"] == pytest.approx(
        1.05 * 0.8
    )


def test_a_limit_is_changed_without_stopping_the_job() -> None:
    """Late at first, since another is before it; in time again under a higher limit."""
    experiment = Experiment(
        [arrival("a", 0.0, HOUR_S, model="net", deadline=1.3 * HOUR_S, late_cost_per_s=1.0)],
        [ONE],
        costs=costs_of([ONE]),
    )
    seen: list[JournalEntry] = []

    def note(entry: JournalEntry, now: Seconds) -> None:
        seen.append(entry)

    run(experiment.world(), [experiment.policy("frugal")], State(), told_to(note))
    limits = [entry.placement.limit for entry in seen if isinstance(entry, Resize)]
    assert limits
    assert not [entry for entry in seen if isinstance(entry, Preempt)]


def test_haste_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="haste=-1: give 0"):
        Frugal(haste=-1)


# ------------------------------------------------------------------------------------------- hours

# Days and weeks of wind and sun, between 120 and 520 grams.
CARBON = Hourly(
    [320 + 120 * sin(2 * pi * h / 24) + 80 * sin(2 * pi * h / 90) for h in range(24 * 30)], "carbon"
)
SERVERS = [Node(f"n{i}", 8, idle_watts=800.0, gpu_watts=300.0) for i in range(3)]


def patient(every_s: Seconds) -> list[Arrival]:
    chance = Random("patient")
    jobs = []
    for i in range(int(24 * 28 * HOUR_S / every_s)):
        at, seconds = i * every_s, chance.uniform(1, 8) * HOUR_S
        due = at + seconds + 24 * HOUR_S
        jobs.append(arrival(f"j{i}", at, seconds, deadline=due, late_cost_per_s=1e-3))
    return jobs


def co2(policy: str, nodes: list[Node], every_s: Seconds, carbon_error: float = 0.0) -> float:
    costs = Costs(rates_of(nodes), carbon=CARBON)
    believed = with_errors(costs, 0.0, carbon_error, seed=1) if carbon_error else None
    experiment = Experiment(patient(every_s), nodes, costs=costs, believed=believed)
    summary = simulate(experiment, policy).summary
    assert summary["deadline_misses"] == 0
    return float(summary["co2_kg"])


def test_work_that_can_wait_a_day_saves_a_fifth_of_its_carbon() -> None:
    nodes = [Node(f"n{i}", 1, gpu_watts=300.0) for i in range(16)]
    assert co2("frugal:carbon=1", nodes, 6 * HOUR_S) < 0.8 * co2("fifo", nodes, 6 * HOUR_S)


@pytest.mark.parametrize("every_h", [3, 12])
def test_cheap_hours_are_not_bought_with_empty_servers(every_h: int) -> None:
    """Who waits for a cheap hour rides along where that is cheaper."""
    shifting = co2("frugal:carbon=1", SERVERS, every_h * HOUR_S)
    assert shifting < 1.02 * co2("frugal", SERVERS, every_h * HOUR_S)


def test_what_policies_believe_may_be_wrong_and_costs_something() -> None:
    nodes = [Node(f"n{i}", 1, gpu_watts=300.0) for i in range(16)]
    right, wrong = (co2("frugal:carbon=1", nodes, 6 * HOUR_S, error) for error in (0.0, 0.6))
    assert right < wrong < co2("fifo", nodes, 6 * HOUR_S)


def test_errors_leave_the_truth_alone_and_stay_within_their_bounds() -> None:
    costs = Costs(price=Hourly([0.1, 0.2, 0.3], "price"), carbon=CARBON)
    believed = with_errors(costs, 0.1, 0.3, seed=7)
    assert costs.carbon is CARBON
    for told, true, most in (
        (believed.price, costs.price, 0.1),
        (believed.carbon, costs.carbon, 0.3),
    ):
        parts = [one / other - 1 for one, other in zip(told.values, true.values, strict=True)]
        assert 0 < max(map(abs, parts)) <= most
    assert with_errors(costs, 0.1, 0.3, seed=7).price.values == believed.price.values
    assert with_errors(costs, 0.1, 0.3, seed=8).price.values != believed.price.values
