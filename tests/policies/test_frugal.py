"""Frugal: waits for company, hurries no more than it must, and protects value when it is crowded."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given

from chances import CHANCES
from dovetail.core.model import Estimate, Job, JobId, Node, Option
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.hourly import HOUR_S, Hourly
from dovetail.models.workload import Arrival
from dovetail.policies.andreas.problem import Way
from dovetail.policies.frugal.deciding import FrugalDecision, decide
from dovetail.policies.frugal.draft import PlannedJob, Seat, settled
from dovetail.policies.frugal.floor import Floor, Seats
from dovetail.policies.frugal.hours import PriceForecast, signal
from dovetail.policies.frugal.ladder import Rates, ladder
from dovetail.traces.readers.andreas_folder import timed_job

BIG, SMALL = 0, 1  # pools
RATES: Rates = ((0.0, 0.121, 0.160, 0.199, 0.237), (0.0, 0.091, 0.110))
COSTS = Costs({"big": NodeRates(per_hour=RATES[BIG]), "small": NodeRates(per_hour=RATES[SMALL])})
NODES = (Seats(BIG, 4), Seats(SMALL, 2), Seats(BIG, 4))
ON_TWO = 1.25  # times as fast with two big GPUs
ON_SMALL = 2.3  # times as slow on a small one


def task(
    seconds: float = 1000.0,
    deadline: float = inf,
    late_per_s: float = 3e-4,
    left: float = 1.0,
    at: tuple[int, int] | None = None,
    dear: bool = False,
) -> PlannedJob:
    """Ways 0, 1 and 2: one big GPU, two big ones, a small one."""
    times = ((BIG, 1, seconds), (BIG, 2, seconds / ON_TWO), (SMALL, 1, seconds * ON_SMALL))
    ways = tuple([Way(*way, cost=0.0) for way in times])
    return PlannedJob(ladder(ways, RATES), left, deadline, late_per_s, at, dear=dear)


def decided(
    *tasks: PlannedJob, nodes: tuple[Seats, ...] = NODES, margin: float = 0.0
) -> FrugalDecision:
    return decide(0.0, tasks, nodes, RATES, margin=margin)


def ways(decision: FrugalDecision) -> dict[int, int]:
    return {i: way for i, (way, _) in sorted(decision.seats.items())}


# ------------------------------------------------------------------------------------- one decision


def test_a_lone_job_with_slack_waits_until_its_last_moment() -> None:
    assert decided(task(1000.0, deadline=3000.0)) == ({}, 2000.0)


def test_a_margin_makes_the_last_moment_come_earlier() -> None:
    assert decided(task(1000.0, deadline=3000.0), margin=0.1).wake == pytest.approx(1900.0)


def test_a_job_without_slack_starts_at_once_in_its_thriftiest_way() -> None:
    assert ways(decided(task(1000.0, deadline=1000.0))) == {0: 0}


def test_a_job_with_slack_rides_on_a_node_that_another_needs() -> None:
    seats = decided(task(1000.0, deadline=1000.0), task(1000.0, deadline=9000.0)).seats
    assert seats[0][1] == seats[1][1]


def test_jobs_with_slack_start_together_once_they_fill_a_node() -> None:
    patient = task(1000.0, deadline=9000.0)
    assert not decided(*[patient] * 3).seats
    assert len({node for _, node in decided(*[patient] * 4).seats.values()}) == 1


def test_a_job_that_would_be_late_is_given_more_gpus_until_it_has_caught_up() -> None:
    decision = decided(task(1250.0, deadline=1100.0))
    assert ways(decision) == {0: 1}
    assert decision.wake == pytest.approx(150.0 / (ON_TWO - 1))


def test_a_job_that_loses_nothing_by_being_late_is_not_hurried() -> None:
    decision = decided(task(1250.0, 1100.0, late_per_s=0.0), task(1250.0, deadline=1250.0))
    assert ways(decision)[0] == 0


def test_when_not_all_can_run_the_most_value_per_gpu_second_goes_first() -> None:
    long, short, dear = task(9000.0, 0.0), task(900.0, 0.0), task(9000.0, 0.0, late_per_s=5e-3)
    assert set(ways(decided(long, short, dear, nodes=(Seats(BIG, 2),)))) == {1, 2}


def test_the_faster_way_goes_to_the_one_whose_lateness_costs_more() -> None:
    cheap, dear = task(9000.0, 0.0, late_per_s=1e-4), task(9000.0, 0.0, late_per_s=4e-4)
    assert ways(decided(cheap, dear, nodes=(Seats(BIG, 3),))) == {0: 0, 1: 1}


def test_others_make_room_for_a_job_that_needs_a_whole_node() -> None:
    rates: Rates = ((0.0, *[0.5 * k for k in range(1, 9)]),)
    times = [(0, 1, 8000.0), (0, 8, 4000.0)]
    steps = ladder(tuple([Way(*way, cost=0.0) for way in times]), rates)
    late, easy = PlannedJob(steps, 1.0, 4000.0, 0.01), PlannedJob(steps, 1.0, 8000.0, 0.01)
    decision = decide(0.0, [easy, late, easy], [Seats(0, 8), Seats(0, 8)], rates, margin=0.0)
    assert ways(decision) == {0: 0, 1: 1, 2: 0}


def test_a_job_alone_on_a_node_is_sped_up_if_that_is_cheaper() -> None:
    steps = ladder((Way(BIG, 1, 1000.0, 0.0), Way(BIG, 2, 600.0, 0.0)), RATES)
    assert ways(decided(PlannedJob(steps, 1.0, 1000.0, 3e-4))) == {0: 1}


def test_a_job_that_waits_for_a_cheaper_hour_does_not_even_ride() -> None:
    assert ways(decided(task(1000.0, 1000.0), task(1000.0, 9000.0, dear=True))) == {0: 0}


def test_nodes_that_others_keep_on_are_company_too() -> None:
    decision = decided(task(1000.0, 9000.0), nodes=(Seats(BIG, 4), Seats(BIG, 4, taken=2)))
    assert decision.seats == {0: (0, 1)}


@given(chance=CHANCES)
def test_no_node_is_ever_oversold_and_no_job_without_slack_waits_beside_free_gpus(
    chance: Random,
) -> None:
    nodes = [Seats(pool, size, chance.choice([0, 0, 1])) for pool, size in [(0, 4), (1, 2), (0, 4)]]
    tasks = [
        task(
            chance.uniform(100, 9000),
            chance.uniform(-500, 20000),
            chance.choice([0.0, 3e-4]),
            chance.uniform(0.01, 1),
            chance.choice([None, (0, 0), (2, 1), (1, 2)]),
        )
        for _ in range(chance.randint(1, 14))
    ]
    decision = decide(0.0, tasks, nodes, RATES)
    busy = [node.taken for node in nodes]
    for i, (way, n) in decision.seats.items():
        assert tasks[i].ladder.ways[way].pool == nodes[n].pool
        busy[n] += tasks[i].ladder.ways[way].gpus
    assert all(used <= node.gpus for used, node in zip(busy, nodes, strict=True))
    if sum(busy) < sum(node.gpus for node in nodes):
        assert all(t.deadline - t.usual > 0 for i, t in enumerate(tasks) if i not in decision.seats)


# ------------------------------------------------------------------------------------ ways and seats


def test_a_way_that_switching_between_two_others_beats_is_left_out() -> None:
    times = {1: 161.0, 2: 155.0, 4: 131.0, 8: 78.0}  # as measured for one job on K80s
    rates: Rates = ((0.0, *[0.56 * k for k in range(1, 9)]),)
    steps = ladder(tuple([Way(0, k, t, 0.0) for k, t in times.items()]), rates)
    assert [steps.ways[k].gpus for k in steps.climbs[0]] == [1, 8]


def test_jobs_stay_where_they_are_though_the_draft_has_them_elsewhere() -> None:
    seats = [Seat(0, 0, 0, 1, 2), Seat(1, 0, 0, 1, 2), Seat(2, 0, 0, 1, 1)]
    found = settled([Seats(BIG, 4)] * 3, seats)
    assert found == {0: (0, 2), 1: (0, 2), 2: (0, 2)}


def test_the_floor_prefers_the_tightest_node_in_use_to_one_that_is_off() -> None:
    floor = Floor([Seats(BIG, 4), Seats(BIG, 4), Seats(BIG, 4)])
    floor.put(0, 1, 1)
    floor.put(1, 2, 2)
    assert floor.room(BIG, 2) == 2
    assert floor.room(BIG, 3) == 1
    assert floor.room(BIG, 4) == 0
    assert floor.room(BIG, 4, opening=False) is None


# ---------------------------------------------------------------------------------------- the hours

CHEAP_NIGHTS = Hourly([1.0] * 6 + [3.0] * 18, "price")


def test_a_job_that_fits_into_the_cheap_hours_waits_for_them() -> None:
    seen = PriceForecast(CHEAP_NIGHTS, 12 * HOUR_S).outlook(36 * HOUR_S, 2 * HOUR_S)
    assert (seen.window, seen.dear) == (6 * HOUR_S, True)
    assert seen.excess == pytest.approx(2.0 / 2.5)


def test_in_the_cheap_hours_it_is_not_dear() -> None:
    assert not PriceForecast(CHEAP_NIGHTS, 2 * HOUR_S).outlook(26 * HOUR_S, 2 * HOUR_S).dear


def test_a_job_that_needs_all_of_its_time_takes_any_hour() -> None:
    seen = PriceForecast(CHEAP_NIGHTS, 12 * HOUR_S).outlook(20 * HOUR_S, 8 * HOUR_S)
    assert (seen.window, seen.dear) == (8 * HOUR_S, False)


def test_carbon_counts_beside_the_price() -> None:
    costs = Costs(price=Hourly([0.2]), carbon=Hourly([100.0] * 12 + [300.0] * 12))
    assert signal(costs, 0.0) is None
    mixed = signal(costs, 1.0)
    assert mixed is not None
    assert [mixed.at(0.0), mixed.at(13 * HOUR_S)] == pytest.approx([0.3, 0.5])


# --------------------------------------------------------------------------------------- whole runs


def drawn(chance: Random, nodes: int, jobs: int, gap_s: float) -> tuple[list[Arrival], list[Node]]:
    """As ANDREAS' generator has it: kinds in turn, deadlines between the fastest and the slowest."""
    cluster = [
        Node(f"n{i}", 2, "small") if i % 2 else Node(f"n{i}", 4, "big") for i in range(nodes)
    ]
    arrivals, at = [], 0.0
    for i in range(jobs):
        seconds = chance.choice([3300.0, 5200.0, 6900.0, 13800.0])
        faster, slower = chance.choice([(1.15, 2.0), (1.25, 1.7), (1.41, 2.57)])
        deadline = at + chance.uniform(seconds / faster, seconds * slower)
        options = [
            Option("big", 1, seconds),
            Option("big", 2, seconds / faster),
            Option("small", 1, seconds * slower),
        ]
        arrivals.append(timed(f"j{i}", at, options, deadline, chance.uniform(2.5e-4, 4.4e-4)))
        at += chance.expovariate(1 / gap_s)
    return arrivals, cluster


def timed(
    name: str, at: float, options: list[Option], deadline: float, late_cost_per_s: float
) -> Arrival:
    job = timed_job(name, options, options, deadline=deadline, late_cost_per_s=late_cost_per_s)
    return Arrival(at, job, job.options[0].seconds)


def summary(
    arrivals: list[Arrival], nodes: list[Node], policy: str, costs: Costs
) -> Mapping[str, Any]:
    return simulate(Experiment(arrivals, nodes, costs=costs), policy).summary


@pytest.mark.parametrize("gap_s", [500.0, 800.0, 3000.0])
def test_it_costs_a_tenth_less_than_greedy_and_nothing_is_late(gap_s: float) -> None:
    for seed in range(2):
        arrivals, nodes = drawn(Random(f"{seed}/{gap_s}"), 10, 60, gap_s)
        ours = summary(arrivals, nodes, "frugal", COSTS)
        assert ours["tardiness_s"] == 0
        assert (
            ours["total_cost"]
            < 0.9 * summary(arrivals, nodes, "andreas-greedy", COSTS)["total_cost"]
        )


def test_in_overload_it_beats_every_baseline_by_a_tenth() -> None:
    arrivals, nodes = drawn(Random("overload"), 4, 60, 300.0)
    ours = summary(arrivals, nodes, "frugal", COSTS)["total_cost"]
    for policy in ("andreas-fifo", "andreas-edf", "andreas-priority", "andreas-greedy"):
        assert ours < 0.9 * summary(arrivals, nodes, policy, COSTS)["total_cost"], policy


def test_cheap_hours_are_used_and_every_deadline_is_met() -> None:
    chance = Random("night")
    nodes = [Node(f"n{i}", 1, "one") for i in range(12)]
    price = Hourly([0.1] * 8 + [0.3] * 16, "price")
    costs = Costs({"one": NodeRates(watts=(0.0, 300.0))}, price=price)
    arrivals = []
    for i in range(40):
        at, seconds = i * 0.9 * HOUR_S, chance.uniform(1, 8) * HOUR_S
        options = [Option("one", 1, seconds)]
        arrivals.append(timed(f"j{i}", at, options, at + seconds + 24 * HOUR_S, 1e-3))
    ours = summary(arrivals, nodes, "frugal", costs)
    at_once = summary(arrivals, nodes, "andreas-fifo", costs)
    assert ours["deadline_misses"] == 0
    assert ours["energy_cost"] < 0.6 * at_once["energy_cost"]


def test_moving_jobs_is_rarer_when_it_costs_something() -> None:
    arrivals, nodes = drawn(Random("moves"), 6, 60, 600.0)
    free = summary(arrivals, nodes, "frugal", COSTS)
    dear = summary(arrivals, nodes, "frugal", Costs(COSTS.rates, move=0.5))
    assert dear["migrations"] <= free["migrations"]


def test_more_gpus_are_taken_for_a_deadline_though_lateness_has_no_price() -> None:
    options = [Option("big", 1, 7200.0), Option("big", 2, 5400.0)]
    run = summary([timed("a", 0.0, options, 6000.0, 0.0)], [Node("n", 4, "big")], "frugal", COSTS)
    assert run["deadline_misses"] == 0


def test_where_only_time_counts_the_least_work_goes_first_whatever_its_gpus() -> None:
    """A wide job of 90 s holds up eight narrow ones of 100 s: that makes more waiting than it saves."""
    wide = Arrival(0.0, Job(JobId("wide"), gpus=8, estimate=Estimate(90.0)), 90.0)
    narrow = [Arrival(0.0, Job(JobId(f"n{i}"), estimate=Estimate(100.0)), 100.0) for i in range(8)]
    run = simulate(Experiment([wide, *narrow], [Node("n", 8)]), "frugal").summary
    assert run["mean_jct_s"] == pytest.approx((8 * 100.0 + 190.0) / 9)
