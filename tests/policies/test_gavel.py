"""Gavel's objectives by their worked examples, and its rounds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog

from dovetail.core.entries import Action, NodeLeft
from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.core.view import View
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.leases import in_leases
from dovetail.models.speed_table import Hardware, ModelType, SpeedTable
from dovetail.policies.gavel import objectives
from dovetail.policies.gavel.allox import allox
from dovetail.policies.gavel.choosing import KindOrder, RoundContender, choose
from dovetail.policies.gavel.dividing import divided, joined
from dovetail.policies.gavel.ledger import Lease, RoundLedger, ledger_of
from dovetail.policies.gavel.problem import AllocationProblem, RateClaim, Shares
from dovetail.policies.gavel.solving import OBJECTIVES, allocated, kind_blind
from dovetail.policies.gavel.table import RateTable
from dovetail.policies.gavel.trading import fair_with_trades, in_strides, trade
from dovetail.policies.solving import Solving, solved_at_once
from dovetail.testing import World, arrival, nodes, policy_for, run_trace, run_world

KINDS = ("v100", "k80")


def three_jobs(left: float = 100.0) -> AllocationProblem:
    """The example of the specification: one GPU of each of two kinds."""
    rates = ((4.0, 1.0), (3.0, 1.0), (2.0, 1.0))
    claims = [RateClaim(str(i), 1.0, row, row[0], left=left) for i, row in enumerate(rates)]
    return AllocationProblem(KINDS, (1.0, 1.0), tuple(claims))


def random_problem(chance: Random, jobs: int = 12) -> AllocationProblem:
    claims = []
    for number in range(jobs):
        slow = chance.uniform(0.5, 20.0)
        rates = (slow * chance.uniform(1.0, 8.0), slow * chance.uniform(1.0, 3.0), slow)
        rates = rates if chance.random() < 0.8 else (*rates[:2], 0.0)
        claims.append(
            RateClaim(
                str(number),
                float(chance.choice([1, 1, 2, 4])),
                rates,
                rates[0],
                weight=chance.choice([1.0, 1.0, 2.0]),
                left=chance.uniform(1e2, 1e5),
                age_s=chance.uniform(0.0, 1e4),
                isolated_s=chance.uniform(0.0, 5e3),
                owner=chance.choice("uv"),
            )
        )
    return AllocationProblem(("v100", "p100", "k80"), (4.0, 8.0, 6.0), tuple(claims))


def done_by(problem: AllocationProblem, shares: Shares) -> list[float]:
    """Steps a second of each job."""
    return [
        sum(rate * share for rate, share in zip(claim.rates, shares[claim.job_id], strict=True))
        for claim in problem.claims
    ]


def normalised(problem: AllocationProblem, shares: Shares) -> list[float]:
    counts = problem.counts
    usual = [sum(map(lambda r, n: r * n, c.rates, counts)) / sum(counts) for c in problem.claims]
    return [
        done * claim.gpus / claim.weight / part
        for done, claim, part in zip(done_by(problem, shares), problem.claims, usual, strict=True)
    ]


def test_max_min_of_the_worked_example() -> None:
    problem = three_jobs()
    equal = done_by(problem, allocated(problem, "isolated", aware=True).shares)
    assert equal == pytest.approx([5 / 3, 4 / 3, 1.0])
    found = done_by(problem, allocated(problem, "max-min", aware=True).shares)
    assert found == pytest.approx([1.8182, 1.4545, 1.0909], abs=1e-4)
    ratios = [done / alone for done, alone in zip(found, equal, strict=True)]
    assert ratios == pytest.approx([12 / 11] * 3, rel=1e-6)


def test_makespan_of_the_worked_example_is_75_s() -> None:
    table = RateTable(three_jobs())
    assert 1.0 / table.most(table.column("left") / table.fastest).figure == pytest.approx(75.0)
    longest = allocated(three_jobs(left=1e5), "makespan", aware=True)
    assert longest.objective is not None
    assert 75_000.0 <= longest.objective <= 75_000.0 * 1.05
    for done in done_by(three_jobs(), longest.shares):
        assert 1e5 / done <= longest.objective * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_max_min_is_that_of_another_solver(seed: int) -> None:
    problem = random_problem(Random(seed))
    found = allocated(problem, "max-min", aware=True)
    assert found.objective == pytest.approx(_max_min_by_simplex(problem), rel=1e-7)
    assert min(normalised(problem, found.shares)) == pytest.approx(found.objective, rel=1e-6)
    _check_is_allowed(problem, found.shares)


def _max_min_by_simplex(problem: AllocationProblem) -> float:
    jobs, kinds = len(problem.claims), len(problem.kinds)
    rows, bounds = [], []
    for i, claim in enumerate(problem.claims):
        own, time = np.zeros(jobs * kinds + 1), np.zeros(jobs * kinds + 1)
        mixture = sum(map(lambda r, n: r * n, claim.rates, problem.counts)) / sum(problem.counts)
        for j in range(kinds):
            own[i * kinds + j] = -claim.gpus * claim.rates[j] / mixture / claim.weight
            time[i * kinds + j] = 1.0
        own[-1] = 1.0
        rows += [own, time]
        bounds += [0.0, 1.0]
    for j, count in enumerate(problem.counts):
        cap = np.zeros(jobs * kinds + 1)
        cap[j : jobs * kinds : kinds] = [claim.gpus for claim in problem.claims]
        rows.append(cap)
        bounds.append(count)
    aim = np.zeros(jobs * kinds + 1)
    aim[-1] = -1.0
    return float(-linprog(aim, np.array(rows), bounds).fun)


def _check_is_allowed(problem: AllocationProblem, shares: Shares) -> None:
    for row in shares.values():
        assert min(row) >= 0.0
        assert sum(row) <= 1.0 + 1e-8
    for kind, count in enumerate(problem.counts):
        assert sum(c.gpus * shares[c.job_id][kind] for c in problem.claims) <= count * (1 + 1e-8)


@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if name != "fifo"])
@pytest.mark.parametrize("aware", [True, False])
def test_every_objective_gives_shares_that_can_be_given(objective: str, aware: bool) -> None:
    for seed in range(4):
        problem = random_problem(Random(seed), jobs=1 + 5 * seed)
        found = allocated(problem, objective, aware)
        _check_is_allowed(problem, found.shares)
        assert not found.timed_out


@pytest.mark.parametrize("seed", range(12))
def test_who_sees_kinds_is_never_worse_in_the_smallest_share(seed: int) -> None:
    problem = random_problem(Random(f"order/{seed}"))
    aware = allocated(problem, "max-min", aware=True)
    blind = allocated(problem, "max-min", aware=False)
    assert aware.objective is not None
    assert min(normalised(problem, blind.shares)) <= aware.objective * (1 + 1e-9)


def test_finish_time_fairness_is_least_where_no_smaller_ratio_is_possible() -> None:
    problem = random_problem(Random(1))
    table = RateTable(problem)
    found = objectives.finish_time(table)
    assert found.objective is not None
    alone = table.alone()
    spans = table.column("isolated_s") + table.column("left") / alone
    ratios = [
        (claim.age_s + claim.left / done) / span
        for claim, done, span in zip(
            problem.claims, done_by(problem, found.shares), spans, strict=True
        )
    ]
    assert max(ratios) == pytest.approx(found.objective, rel=1e-6)
    smaller = found.objective * (1 - 1e-6)
    needed = table.column("left") / table.fastest / (smaller * spans - table.column("age_s"))
    assert table.most(needed).figure < 1.0


def test_water_filling_raises_those_that_can_have_more() -> None:
    """The first job can use one kind only, and that is taken; the others share the rest."""
    claims = (
        RateClaim("a", 1.0, (1.0, 0.0)),
        RateClaim("b", 1.0, (1.0, 0.0)),
        RateClaim("c", 1.0, (0.0, 1.0)),
    )
    problem = AllocationProblem(KINDS, (1.0, 1.0), claims)
    filled = allocated(problem, "water-filling", aware=True)
    assert done_by(problem, filled.shares) == pytest.approx([0.5, 0.5, 1.0], rel=1e-6)


def test_users_are_equal_in_the_hierarchy_however_many_jobs_they_have() -> None:
    claims = [RateClaim(str(i), 1.0, (1.0,), owner="u" if i else "v") for i in range(4)]
    problem = AllocationProblem(("gpu",), (2.0,), tuple(claims))
    found = allocated(problem, "hierarchical", aware=True)
    assert done_by(problem, found.shares) == pytest.approx([1.0, *[1 / 3] * 3], rel=1e-6)


def test_deadlines_are_kept_where_cost_alone_would_not() -> None:
    rates = ((4.0, 1.0), (8.0, 1.0))
    claims = [RateClaim(str(i), 1.0, row, left=100.0) for i, row in enumerate(rates)]
    claims[0] = claims[0]._replace(due_in_s=40.0)
    problem = AllocationProblem(KINDS, (1.0, 1.0), tuple(claims), prices=(2.0, 1.0))
    assert done_by(problem, allocated(problem, "cost", True).shares)[0] < 2.0
    assert done_by(problem, allocated(problem, "cost-slo", True).shares)[0] >= 2.5 * (1 - 1e-6)
    hopeless = replace(problem, claims=(claims[0]._replace(due_in_s=1.0), claims[1]))
    assert allocated(hopeless, "cost-slo", True).objective == pytest.approx(
        allocated(problem, "cost", True).objective
    )


def test_a_search_that_runs_out_of_time_says_so() -> None:
    found = allocated(random_problem(Random(0)), "max-min", aware=True, limit_s=-1.0)
    assert found.timed_out
    assert found.gap > 1e-7


def test_the_kind_blind_know_one_rate() -> None:
    blind = kind_blind(three_jobs(), all_alike=False)
    assert [claim.rates for claim in blind.claims] == [(4.0, 4.0), (3.0, 3.0), (2.0, 2.0)]


# -------------------------------------------------------------------------------------------- AlloX


def test_allox_has_the_least_sum_of_completions() -> None:
    """J1 takes 2 on the GPU and 6 on the CPU, J2 3 and 4, J3 1 and 5: J3 then J1, and J2."""
    times = {"1": (2.0, 6.0), "2": (3.0, 4.0), "3": (1.0, 5.0)}
    claims = [RateClaim(name, 1.0, (1 / a, 1 / b), age_s=1.0) for name, (a, b) in times.items()]
    found = allox(AllocationProblem(("gpu", "cpu"), (1.0, 1.0), tuple(claims)))
    assert found.shares == {"1": (0.0, 0.0), "2": (0.0, 1.0), "3": (1.0, 0.0)}
    assert min(_sums(times)) == 8.0


def _sums(times: dict[str, tuple[float, float]]) -> list[float]:
    """Of completion times, in every order and split."""
    found = []
    for order in permutations(times):
        for split in range(len(order) + 1):
            total = 0.0
            for machine, line in enumerate((order[:split], order[split:])):
                at = 0.0
                for name in line:
                    at += times[name][machine]
                    total += at
            found.append(total)
    return found


def test_allox_does_not_move_who_runs() -> None:
    runs = RateClaim("old", 1.0, (1.0, 9.0), had=(1.0, 0.0))
    comes = RateClaim("new", 1.0, (5.0, 5.0))
    found = allox(AllocationProblem(KINDS, (1.0, 1.0), (runs, comes)))
    assert found.shares == {"old": (1.0, 0.0), "new": (0.0, 1.0)}


# ------------------------------------------------------------------------------------------- rounds


def _ledger(shares: Shares) -> RoundLedger:
    ledger = ledger_of(None, KINDS, 360.0)
    ledger.meet(list(shares))
    ledger.reset(0.0, shares)
    return ledger


def test_fractions_received_come_within_a_round_of_the_shares() -> None:
    shares = dict(allocated(three_jobs(), "max-min", aware=True).shares)
    ledger, rounds = _ledger(shares), 200
    had = {(job_id, kind): 0 for job_id in shares for kind in (0, 1)}
    contenders = [RoundContender(job_id, 1.0, (True, True)) for job_id in shares]
    for number in range(rounds):
        for choice in choose(ledger, contenders, (1.0, 1.0), (0, 1)):
            had[choice.name, choice.kind] += 1
            ledger.leases[choice.name] = Lease(choice.kind, 360.0 * (number + 1))
        ledger.book(360.0 * (number + 1))
    for (job_id, kind), times in had.items():
        assert times / rounds == pytest.approx(shares[job_id][kind], abs=2 / rounds)


def test_who_came_after_the_reset_keeps_gpus_from_others_and_does_not_run() -> None:
    ledger = _ledger({"old": (0.0, 1.0)})
    ledger.meet(["old", "new"])
    contenders = [
        RoundContender("new", 1.0, (True, True)),
        RoundContender("old", 1.0, (True, True)),
    ]
    first, second = choose(ledger, contenders, (1.0, 1.0), (1, 0))
    assert (first.name, first.kind, first.runs) == ("old", 1, True)
    assert (second.name, second.kind, second.runs) == ("new", 0, False)


def test_a_ledger_is_the_same_from_its_note() -> None:
    ledger = _ledger({"a": (0.5, 0.5)})
    ledger.leases["a"] = Lease(1, 300.0)
    copy = ledger_of(ledger.note(), KINDS, 360.0)
    assert copy == ledger
    assert ledger_of(ledger.note(), ("other",), 360.0).accounts == {}


def test_kinds_are_shuffled_in_the_order_of_gavel() -> None:
    order = KindOrder(range(3), seed=0)
    assert [list(order.at(n)) for n in range(4)] == [[0, 1, 2], [0, 1, 2], [1, 0, 2], [2, 0, 1]]


def test_on_one_kind_max_min_is_round_robin_and_processor_sharing() -> None:
    jobs = [arrival(f"j{i}", 0.0, 600.0) for i in range(4)]
    turns = run_trace("round-robin:quantum_s=10", jobs, nodes(1, 2))
    rounds = run_trace("gavel:round_s=10:reset_s=0", jobs, nodes(1, 2))
    for run in (turns, rounds):
        for end in run.ends_at.values():
            assert end == pytest.approx(4 * 600.0 / 2, abs=10.0)


def test_five_jobs_on_two_gpus_are_never_more_than_two_rounds_apart() -> None:
    jobs = [arrival(f"j{i}", 0.0, 600.0) for i in range(5)]
    ends = run_trace("gavel:round_s=10:reset_s=0", jobs, nodes(1, 2)).ends_at.values()
    assert max(ends) == 1500.0
    assert min(ends) >= 1480.0


# ------------------------------------------------------------------------------- users, and in parts


def test_users_take_strides_by_their_tickets() -> None:
    ledger = ledger_of(None, ("gpu",), 360.0)
    ledger.meet(["a", "b"])
    ledger.reset(0.0, {"a": (0.25,), "b": (0.75,)})
    contenders = [RoundContender(name, 1.0, (True,), owner=name) for name in "ab"]
    order = ""
    for number in range(12):
        (choice,) = in_strides(ledger, contenders, (1.0,))
        order += choice.name
        ledger.leases[choice.name] = Lease(0, 360.0 * (number + 1))
        ledger.book(360.0 * (number + 1))
    assert order == "abbb" * 3


def test_a_trade_lets_both_do_more_and_keeps_the_gpus() -> None:
    speedups = {"low": 1.2, "high": 4.0}
    before = {user: [2.0, 2.0] for user in speedups}
    after = {user: list(own) for user, own in before.items()}
    trade(after, speedups, fast=0, slow=1)
    for user, speedup in speedups.items():
        assert after[user][0] * speedup + after[user][1] > 2.0 * speedup + 2.0 + 0.1
    for kind in (0, 1):
        assert after["low"][kind] + after["high"][kind] == pytest.approx(4.0)


def test_what_a_user_cannot_use_goes_to_the_others() -> None:
    claims = [RateClaim("a", 1.0, (1.0,), owner="u")]
    claims += [RateClaim(f"b{i}", 1.0, (1.0,), owner="v") for i in range(6)]
    shares = fair_with_trades(AllocationProblem(("gpu",), (4.0,), tuple(claims))).shares
    assert shares["a"] == (1.0,)
    assert shares["b0"] == pytest.approx((0.5,))


def test_two_users_have_equal_time_however_many_jobs_they_submit() -> None:
    jobs = [arrival(f"u{i}", 0.0, 1000.0, user="u") for i in range(10)]
    jobs.append(arrival("v", 0.0, 300.0, user="v"))
    run = run_trace("gandiva-fair:round_s=10:reset_s=0", jobs, nodes(1, 1))
    assert run.ends_at["v"] == pytest.approx(600.0, abs=10.0)


@pytest.mark.parametrize("objective", ["max-min", "finish-time", "makespan"])
def test_in_parts_the_smallest_share_is_hardly_smaller(objective: str) -> None:
    problem = replace(random_problem(Random(5), jobs=400), counts=(80.0, 160.0, 120.0))
    whole = allocated(problem, objective, aware=True)
    parts = joined([allocated(part, objective, aware=True) for part in divided(problem, 4)])
    _check_is_allowed(problem, parts.shares)
    least = min(normalised(problem, whole.shares))
    assert objective != "max-min" or min(normalised(problem, parts.shares)) >= 0.98 * least


@dataclass(frozen=True)
class PosedAndUsed:
    """Asks a policy as a daemon does that lets its solver think."""

    policy: Solving

    def decide(self, view: View) -> Sequence[Action]:
        return solved_at_once(self.policy, view)


@pytest.mark.parametrize("name", ["gavel", "allox", "gandiva-fair"])
def test_posed_solved_and_used_is_as_decided_in_one_go(name: str) -> None:
    jobs = [arrival(f"j{i}", 5.0 * i, 40.0, user="uv"[i % 2]) for i in range(6)]
    world = World(jobs, nodes(1, 2))
    whole = policy_for(world, f"{name}:round_s=10:reset_s=0")
    assert isinstance(whole, Solving)
    assert run_world(world, PosedAndUsed(whole)).text == run_world(world, whole).text


def test_pop_is_another_policy_in_parts() -> None:
    jobs = [arrival(f"j{i}", 0.0, 100.0) for i in range(6)]
    run = run_trace("pop:k=2:policy=gavel/round_s=10/reset_s=0", jobs, nodes(1, 2))
    assert max(run.ends_at.values()) == pytest.approx(300.0, abs=10.0)
    with pytest.raises(BadInput, match="solves no program in parts; give one that does"):
        run_trace("pop:policy=fifo", jobs, nodes(1, 2))


def test_rates_are_those_of_the_job_whatever_was_found_for_others() -> None:
    """Two jobs of one model, of which one may not be on the faster kind; and the kind that goes."""
    speeds = {ModelType("x"): {Hardware("v100"): 4.0, Hardware("k80"): 1.0}}
    table = SpeedTable(speeds, "v100")
    jobs = [
        arrival("any", 0.0, 90.0, model="x"),
        arrival("slow", 0.0, 90.0, model="x", kinds=("k80",)),
    ]
    leased = in_leases(jobs, table, KINDS, 36.0)
    cluster = [Node("n0", 1, kind="v100"), Node("n1", 1, kind="k80")]
    experiment = Experiment(leased, cluster, speed_table=table, round_s=36.0)
    run = simulate(experiment, "gavel", rows=True)
    assert {row.job_id: row.end_s for row in run.jobs} == pytest.approx(
        {"any": 90.0, "slow": 360.0}
    )
    gone = Experiment(
        leased,
        cluster,
        speed_table=table,
        round_s=36.0,
        node_events=[NodeLeft(20.0, "n0")],
    )
    ends = {row.job_id: row.end_s for row in simulate(gone, "gavel", rows=True).jobs}
    assert ends["any"] > 400.0
