"""ANDREAS: the authors' totals, a second implementation, and what a decision looks like."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.model import JobId, Node, Option
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.workload import Arrival
from dovetail.policies.andreas.drafting import with_fewest_moves
from dovetail.policies.andreas.filling import greedy
from dovetail.policies.andreas.improving import local_search, path_relinking
from dovetail.policies.andreas.problem import (
    Assignment,
    Demand,
    Menu,
    NodePool,
    Problem,
    Spot,
    Way,
    busy_by_node,
    proxy,
)
from dovetail.policies.andreas.random_greedy import Solution, random_greedy
from dovetail.traces.readers.andreas_folder import read_instance, timed_job
from policies.andreas_reference import total_cost

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "andreas"
if not GOLDEN.exists():  # a checkout in another place: look beside the folder the tests run in
    GOLDEN = Path.cwd().parent / "shared" / "golden" / "andreas"
needs_golden = pytest.mark.skipif(not GOLDEN.exists(), reason="the authors' results are not here")
FOLDERS = sorted(p.name for p in GOLDEN.glob("*-N*")) if GOLDEN.exists() else ["none"]
METHODS = {
    "G": "andreas-greedy",
    "FIFO": "andreas-fifo",
    "EDF": "andreas-edf",
    "PS": "andreas-priority",
}
NAMES = {"andreas-greedy": "greedy", "andreas-fifo": "fifo", "andreas-edf": "edf",
         "andreas-priority": "priority"}  # fmt: skip
COSTS = Costs(
    {
        "big": NodeRates(per_hour=(0.0, 0.121, 0.160, 0.199, 0.237)),
        "small": NodeRates(per_hour=(0.0, 0.091, 0.110)),
    }
)


def authors_totals(folder: str) -> dict[str, float]:
    """By method; of one that was run twice the last."""
    with open(GOLDEN / folder / "results.csv", newline="") as file:
        return {row[0]: float(row[7]) for row in csv.reader(file)}


@needs_golden
@pytest.mark.parametrize("folder", FOLDERS)
def test_deterministic_methods_cost_what_the_authors_report(folder: str) -> None:
    instance = read_instance(GOLDEN / folder)
    experiment = Experiment(instance.trace.arrivals, instance.nodes, costs=instance.costs)
    wanted = authors_totals(folder)
    found = {m: simulate(experiment, policy).summary["total_cost"] for m, policy in METHODS.items()}
    assert found == {m: pytest.approx(wanted[m], rel=2e-5) for m in METHODS}


def drawn(chance: Random) -> tuple[list[Arrival], list[Node]]:
    """A small instance with everything that decides ties: equal nodes, jobs and times."""
    kinds = [chance.choice(["big", "small"]) for _ in range(chance.randint(1, 5))] + ["big"]
    nodes = [Node(f"n{i}", 4 if kind == "big" else 2, kind) for i, kind in enumerate(kinds)]
    return sorted([_drawn_job(chance, i) for i in range(12)], key=lambda a: a.at), nodes


def _drawn_job(chance: Random, number: int) -> Arrival:
    at = chance.choice([0.0, 0.0, 1000.0, 30000.0 * chance.random()])
    t = chance.choice([3000.0, 5000.0, 3000.0 + 20000 * chance.random()])
    options = [Option("big", 1, t), Option("big", 2, t / chance.uniform(1.1, 1.9))]
    options += [Option("big", 4, t / 2.5)] if chance.random() < 0.3 else []
    options += [Option("small", 1, t * 2.3)] if chance.random() < 0.7 else []
    job = timed_job(
        f"j{number}",
        options,
        options,
        deadline=at + t * chance.uniform(0.3, 3.0),
        late_cost_per_s=chance.choice([0.0003, 0.0004, chance.uniform(0.0002, 0.02)]),
    )
    return Arrival(at, job, job.options[0].seconds)


@pytest.mark.parametrize("policy", NAMES)
@settings(max_examples=12)
@given(seed=st.integers(0, 10**9))
def test_small_instances_cost_what_the_short_program_says(policy: str, seed: int) -> None:
    arrivals, nodes = drawn(Random(seed))
    run = simulate(Experiment(arrivals, nodes, costs=COSTS), policy).summary
    said = total_cost(arrivals, nodes, COSTS, NAMES[policy])
    assert run["total_cost"] == pytest.approx(said, rel=1e-9)


# ----------------------------------------------------------------------------------------- problems


def crowded(chance: Random, jobs: int = 9) -> Problem:
    """More jobs than GPUs, some of them late."""
    demands = []
    for i in range(jobs):
        t = chance.uniform(1000.0, 9000.0)
        ways = [(1, t), (2, t / chance.uniform(1.1, 1.9)), (4, t / 2.2)]
        due = t * chance.uniform(0.2, 2.0)
        demands.append(demand(str(i), *ways, deadline=due, late=chance.uniform(1e-4, 1e-2)))
    return problem(*demands)


def is_legal(given: Problem, plan: Assignment) -> bool:
    busy = busy_by_node(plan)
    pool = given.pools[0]
    fits = all(busy.get(n, 0) <= free for n, free in zip(pool.nodes, pool.free, strict=True))
    return fits and all(spot.way in given.demands[i].menu.ways for i, spot in plan.items())


@pytest.mark.parametrize("repaired", [False, True])
@given(seed=st.integers(0, 10**9))
def test_random_greedy_is_legal_and_never_worse_than_greedy(repaired: bool, seed: int) -> None:
    given_ = crowded(Random(seed))
    found = random_greedy(given_, Random(seed), repaired=repaired, passes=30, elite=10)
    costs = [solution.cost for solution in found.elite]
    assert all(is_legal(given_, solution.assignment) for solution in found.elite)
    assert costs == sorted(costs)
    assert costs[0] <= proxy(given_, greedy(given_))
    assert found.passes == 30


@given(seed=st.integers(0, 10**9))
def test_local_search_and_path_relinking_are_legal_and_never_worse(seed: int) -> None:
    given_ = crowded(Random(seed))
    elite = random_greedy(given_, Random(seed), repaired=True, passes=20, elite=10).elite
    for better in (local_search(given_, elite), path_relinking(given_, elite)):
        assert is_legal(given_, better.assignment)
        assert better.cost == pytest.approx(proxy(given_, better.assignment))
        assert better.cost <= elite[0].cost


def test_local_search_leaves_alone_what_makes_nobody_late() -> None:
    """As in the authors' results: their local search costs what their random greedy does."""
    wide = [demand(str(i), (1, 4000.0), (2, 2800.0), (4, 2500.0)) for i in range(6)]
    elite = random_greedy(problem(*wide), Random(1), passes=50, elite=10).elite
    assert local_search(problem(*wide), elite) == elite[0]


def test_local_search_gives_a_tardy_job_the_place_of_a_relaxed_one() -> None:
    tardy = demand("a", (1, 3000.0), (4, 1000.0), deadline=1500.0)
    relaxed = demand("b", (1, 3000.0), (4, 1000.0), deadline=9000.0)
    rates = [COSTS.per_hour("big", k) for k in range(5)]
    given_ = Problem(0.0, [tardy, relaxed], [NodePool("big", [0, 1], [1, 4], [3, 0], rates)])
    slow, fast = tardy.menu.ways
    bad = {0: Spot(slow, 0), 1: Spot(slow, 1)}
    better = local_search(given_, [Solution(proxy(given_, bad), bad)])
    assert better.assignment == {0: Spot(fast, 1), 1: Spot(slow, 0)}


def test_a_time_limit_ends_the_search_and_the_passes_are_told() -> None:
    found = random_greedy(crowded(Random(1), 40), Random(1), limit_s=0.0)
    assert found.passes == 1
    assert found.elite[0].cost <= proxy(crowded(Random(1), 40), greedy(crowded(Random(1), 40)))


def test_there_are_no_more_passes_than_nodes_times_jobs_times_gpus() -> None:
    assert random_greedy(crowded(Random(1), 3), Random(1)).passes == 2 * 3 * 4


def test_chance_in_the_ways_is_felt_only_when_repaired() -> None:
    alone = problem(demand("a", (1, 4000.0), (2, 2800.0)), demand("b", (1, 4000.0), (2, 2600.0)))
    literal = random_greedy(alone, Random(1), passes=50)
    assert literal.best == greedy(alone)
    assert random_greedy(alone, Random(1), passes=50, repaired=True).best != greedy(alone)


@needs_golden
def test_the_literal_random_greedy_is_close_to_the_authors_on_small_clusters() -> None:
    parts = []
    for folder in [name for name in FOLDERS if name.startswith("ANDREAS-N3-")]:
        instance = read_instance(GOLDEN / folder)
        experiment = Experiment(instance.trace.arrivals, instance.nodes, costs=instance.costs)
        cost = simulate(experiment, "andreas-random-greedy").summary["total_cost"]
        parts.append(float(cost) / authors_totals(folder)["RG"] - 1)
    assert abs(sum(parts) / len(parts)) < 0.005


def demand(name: str, *ways: tuple[int, float], deadline: float = 1e6, node: int = -1, gpus: int = 0,
           late: float = 1.0) -> Demand:  # fmt: skip
    menu = Menu([Way(0, g, s, COSTS.per_hour("big", g) * s) for g, s in ways], ways[0][1])
    return Demand(JobId(name), menu, 1.0, deadline, late, node, gpus)


def problem(*demands: Demand, nodes: int = 2) -> Problem:
    rates = [COSTS.per_hour("big", k) for k in range(5)]
    pool = NodePool("big", list(range(nodes)), [4] * nodes, [0] * nodes, rates)
    return Problem(0.0, demands, [pool])


def test_the_most_pressing_job_goes_first_and_takes_the_cheapest_way_in_time() -> None:
    late, relaxed = demand("a", (1, 900.0), (2, 700.0), deadline=800.0), demand("b", (1, 900.0))
    plan = greedy(problem(relaxed, late, nodes=1))
    assert (plan[1].way.gpus, plan[0].way.gpus) == (2, 1)


def test_a_job_that_will_be_late_anyway_takes_the_fastest_way() -> None:
    assert greedy(problem(demand("a", (1, 900.0), (4, 500.0), deadline=100.0)))[0].way.gpus == 4


def test_who_does_not_fit_in_the_best_way_goes_down_its_list_and_then_waits() -> None:
    wide = [demand(str(i), (3, 900.0), (1, 2000.0), deadline=1000.0 + i) for i in range(4)]
    plan = greedy(problem(*wide, nodes=1))
    assert {i: spot.way.gpus for i, spot in plan.items()} == {0: 3, 1: 1}


def test_the_proxy_counts_the_time_to_the_first_finish_and_postponed_lateness_a_hundredfold() -> (
    None
):
    short, other = demand("a", (1, 3600.0)), demand("b", (2, 7200.0), deadline=7000.0, late=0.01)
    both = greedy(problem(short, other))
    assert proxy(problem(short, other), both) == pytest.approx(0.199)
    alone = {0: both[0]}
    assert proxy(problem(short, other), alone) == pytest.approx(0.121 + 100 * 0.01 * 200)


def test_jobs_stay_where_they_are_when_only_the_names_of_nodes_differ() -> None:
    here = [
        demand("a", (2, 10.0), node=1, gpus=2),
        demand("b", (4, 10.0), node=0, gpus=4),
        demand("c", (1, 10.0)),
    ]
    planned = {0: Spot(here[0].menu.ways[0], 0), 1: Spot(here[1].menu.ways[0], 2),
               2: Spot(here[2].menu.ways[0], 1)}  # fmt: skip
    moved = with_fewest_moves(problem(*here, nodes=3), planned)
    assert {i: spot.node for i, spot in moved.items()} == {0: 1, 1: 0, 2: 2}


@given(seed=st.integers(0, 10**9))
def test_renaming_nodes_never_puts_two_plans_on_one_node(seed: int) -> None:
    chance = Random(seed)
    jobs = [
        demand(str(i), (1, 10.0), node=chance.randint(-1, 4), gpus=1)
        for i in range(chance.randint(1, 8))
    ]
    planned = {i: Spot(job.menu.ways[0], chance.randint(0, 4)) for i, job in enumerate(jobs)}
    moved = with_fewest_moves(problem(*jobs, nodes=5), planned)
    pairs = {(planned[i].node, moved[i].node) for i in planned}
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)
