"""Gavel's programs with pairs: two jobs on the GPUs of one, in the shares and in the rounds."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog

from dovetail.core.entries import Preempt, Resize, Start
from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Placement
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.leases import in_leases
from dovetail.models.speed_table import Hardware, ModelType, SpeedTable
from dovetail.policies.gavel.choosing import RoundContender, choose
from dovetail.policies.gavel.dividing import divided, joined
from dovetail.policies.gavel.ledger import Lease, RoundLedger, ledger_of
from dovetail.policies.gavel.problem import (
    AllocationProblem,
    RateClaim,
    Shares,
    members,
    pair_of,
)
from dovetail.policies.gavel.solving import PROGRAMS, WITH_PAIRS, allocated
from dovetail.testing import arrival, run_trace
from dovetail.traces.clusters.speed_tables import read_speed_table

KINDS, COUNTS = ("v100", "p100", "k80"), (4.0, 8.0, 6.0)
Rates = tuple[float, ...]
Column = tuple[Mapping[int, float], int, float]  # steps a second of its jobs, kind, GPUs


def random_problem(seed: int, jobs: int = 16, sorts: int = 4) -> AllocationProblem:
    """Jobs of a few sorts and sizes; beside each other some do well, some badly, and some do not fit."""
    chance = Random(f"pairs/{seed}")
    speeds = [tuple(chance.uniform(1.0, 20.0) for _ in KINDS) for _ in range(sorts)]
    claims = []
    for number in range(jobs):
        sort, gpus = chance.randrange(sorts), chance.choice([1, 1, 2])
        claims.append(
            RateClaim(
                str(number),
                float(gpus),
                speeds[sort],
                speeds[sort][0],
                weight=chance.choice([1.0, 2.0]),
                left=chance.uniform(1e2, 1e5),
                age_s=chance.uniform(0.0, 1e4),
                isolated_s=chance.uniform(0.0, 5e3),
                owner=chance.choice("uv"),
                sort=f"{gpus} {sort}",
            )
        )
    names = sorted({claim.sort for claim in claims})
    beside = {
        (one, other): (_slowed(chance, speeds, one), _slowed(chance, speeds, other))
        for one in names
        for other in names
        if one[0] == other[0]
    }
    return AllocationProblem(KINDS, COUNTS, tuple(claims), side_by_side=beside)


def _slowed(chance: Random, speeds: list[Rates], sort: str) -> Rates:
    return tuple(
        rate * chance.choice([0.0, 0.4, 0.6, 0.8, 1.0]) for rate in speeds[int(sort.split()[1])]
    )


def without_pairs(problem: AllocationProblem) -> AllocationProblem:
    return replace(problem, side_by_side={})


def columns_of(problem: AllocationProblem) -> list[Column]:
    """Every job and every pair on every kind, one by one."""
    claims, found = problem.claims, list[Column]()
    for i, claim in enumerate(claims):
        found += [({i: rate}, kind, claim.gpus) for kind, rate in enumerate(claim.rates)]
        for k in range(i):
            rates = problem.side_by_side.get((claims[k].sort, claim.sort), ((), ()))
            for kind, (one, other) in enumerate(zip(*rates, strict=True)):
                if one > 0.0 and other > 0.0:
                    found.append(({k: one, i: other}, kind, claim.gpus))
    return found


def best_by_simplex(problem: AllocationProblem, objective: str) -> float:
    """The program written out with all pairs, by another solver."""
    claims, columns = problem.claims, columns_of(problem)
    jobs, kinds = len(claims), len(problem.kinds)
    table = np.zeros((2 * jobs + kinds, len(columns) + 1))
    aim, bounds = np.zeros(len(columns) + 1), np.zeros(2 * jobs + kinds)
    bounds[:jobs], bounds[jobs : jobs + kinds] = 1.0, problem.counts
    for number, (rates, kind, gpus) in enumerate(columns):
        table[jobs + kind, number] = gpus
        for job, rate in rates.items():
            claim = claims[job]
            mixture = float(np.dot(claim.rates, problem.counts)) / sum(problem.counts)
            table[job, number] = 1.0
            table[jobs + kinds + job, number] = -claim.gpus * rate / mixture / claim.weight
        if objective == "max-sum":
            aim[number] = -sum(rates.values())
    if objective == "max-min":
        aim[-1], table[jobs + kinds :, -1] = -1.0, 1.0
    return -float(linprog(aim, table, bounds).fun)


def check_is_allowed(problem: AllocationProblem, shares: Shares) -> None:
    gpus = {claim.job_id: claim.gpus for claim in problem.claims}
    time = dict.fromkeys(gpus, 0.0)
    used = [0.0] * len(problem.kinds)
    for name, row in shares.items():
        assert min(row) >= 0.0
        for job_id in members(name):
            time[job_id] += sum(row)
        for kind, share in enumerate(row):
            used[kind] += share * gpus[members(name)[0]]
    assert max(time.values()) <= 1.0 + 1e-7
    assert all(own <= count * (1 + 1e-7) for own, count in zip(used, problem.counts, strict=True))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("objective", ["max-min", "max-sum"])
def test_with_pairs_the_optimum_is_that_of_another_solver_over_all_of_them(
    seed: int, objective: str
) -> None:
    problem = random_problem(seed, jobs=8 + 2 * seed)
    found = allocated(problem, objective, aware=True)
    assert found.objective == pytest.approx(best_by_simplex(problem, objective), rel=1e-7)
    check_is_allowed(problem, found.shares)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("objective", sorted(PROGRAMS))
def test_with_pairs_no_objective_is_worse_than_without(seed: int, objective: str) -> None:
    problem = random_problem(seed, jobs=20)
    packed = allocated(problem, objective, aware=True)
    alone = allocated(without_pairs(problem), objective, aware=True)
    assert packed.objective is not None
    assert alone.objective is not None
    check_is_allowed(problem, packed.shares)
    assert not packed.timed_out
    if objective in ("finish-time", "makespan"):  # the less the better
        assert packed.objective <= alone.objective * (1 + 1e-7)
    else:
        assert packed.objective >= alone.objective * (1 - 1e-7)


def test_three_jobs_of_which_two_fit_side_by_side() -> None:
    """One GPU. Two do 0.8 of their speed together: by turns each of three has a third of the time;
    with the pair 1/2.25 of its speed each: the third job x, the pair (1 - x) · 0.8 = x."""
    claims = [RateClaim(name, 1.0, (1.0,), sort="1 small") for name in "ab"]
    claims.append(RateClaim("c", 1.0, (1.0,)))
    problem = AllocationProblem(("gpu",), (1.0,), tuple(claims))
    assert allocated(problem, "max-min", aware=True).objective == pytest.approx(1 / 3)
    packed = replace(problem, side_by_side={("1 small", "1 small"): ((0.8,), (0.8,))})
    found = allocated(packed, "max-min", aware=True)
    assert found.objective == pytest.approx(4 / 9, rel=1e-7)
    assert found.shares[pair_of("a", "b")][0] == pytest.approx(5 / 9, rel=1e-6)
    assert found.shares["c"][0] == pytest.approx(4 / 9, rel=1e-6)


@pytest.mark.parametrize("objective", WITH_PAIRS)
def test_pairs_that_do_no_harm_at_most_double_and_pairs_that_only_do_are_left_out(
    objective: str,
) -> None:
    """The hard ordering of sharing: halved at most; all-harm is no sharing."""
    problem = without_pairs(random_problem(3))
    rates = {claim.sort: claim.rates for claim in problem.claims}
    free = {(a, b): (rates[a], rates[b]) for a in rates for b in rates if a[0] == b[0]}
    harm = {
        key: tuple(tuple([0.4 * rate for rate in row]) for row in both)
        for key, both in free.items()
    }
    alone = allocated(problem, objective, aware=True)
    harmed = allocated(replace(problem, side_by_side=harm), objective, aware=True)  # type: ignore[arg-type]
    if objective in PROGRAMS:
        assert harmed.objective == pytest.approx(alone.objective, rel=1e-7)
        assert not [name for name in harmed.shares if len(members(name)) > 1]
    helped = allocated(replace(problem, side_by_side=free), objective, aware=True)
    if objective in ("max-min", "max-sum"):
        assert alone.objective is not None
        assert helped.objective is not None
        assert helped.objective <= 2.0 * alone.objective * (1 + 1e-7)


def test_in_parts_pairs_stay_within_a_part() -> None:
    problem = random_problem(5, jobs=40)
    for objective in ("max-min", "gandiva"):
        parts = divided(replace(problem, paired=(pair_of("0", "39"),)), 4)
        shares = joined([allocated(part, objective, aware=True) for part in parts]).shares
        check_is_allowed(problem, shares)


# --------------------------------------------------------------------------------- in order of arrival


def test_who_waits_in_line_is_packed_where_two_do_half_as_much_again() -> None:
    claims = [RateClaim(name, 1.0, (1.0,), sort=f"1 {name}") for name in "abcd"]
    beside = {("1 a", "1 b"): ((0.9,), (0.7,)), ("1 a", "1 c"): ((0.7,), (0.7,))}
    problem = AllocationProblem(("gpu",), (1.0,), tuple(claims), side_by_side=beside)
    shares = allocated(problem, "fifo", aware=True).shares
    assert {name for name, row in shares.items() if any(row)} == {pair_of("a", "b")}
    few = replace(problem, claims=(claims[0], *claims[2:]))
    assert pair_of("a", "c") not in allocated(few, "fifo", aware=True).shares  # 1.4 is too little


# -------------------------------------------------------------------------------------------- gandiva


def test_random_pairs_are_drawn_only_while_jobs_want_more_than_there_is() -> None:
    problem = random_problem(1, jobs=12)
    plenty = allocated(replace(problem, counts=(20.0, 20.0, 20.0)), "gandiva", aware=True)
    assert not [name for name in plenty.shares if len(members(name)) > 1]
    scarce = allocated(replace(problem, counts=(1.0, 1.0, 1.0)), "gandiva", aware=True)
    pairs = [name for name in scarce.shares if len(members(name)) > 1]
    assert pairs
    gpus = {claim.job_id: claim.gpus for claim in problem.claims}
    for name in pairs:
        one, other = members(name)
        assert gpus[one] == gpus[other]
        assert int(one) < int(other)
        assert not any(scarce.shares[one])


def test_a_random_pair_is_kept_only_while_it_pays() -> None:
    claims = tuple(RateClaim(name, 1.0, (1.0,), sort="1 x") for name in "abc")
    pair, good = pair_of("a", "b"), {("1 x", "1 x"): ((0.6,), (0.6,))}
    problem = AllocationProblem(("gpu",), (1.0,), claims, side_by_side=good, paired=(pair,))
    for at in range(8):
        assert allocated(replace(problem, at=float(at)), "gandiva", True).shares[pair] == (0.5,)
    bad = replace(problem, side_by_side={("1 x", "1 x"): ((0.4,), (0.5,))})
    drawn = [allocated(replace(bad, at=float(at)), "gandiva", True).shares for at in range(8)]
    assert not all(pair in shares for shares in drawn)


# --------------------------------------------------------------------------------------------- rounds


def ledger_with(shares: Shares) -> RoundLedger:
    ledger = ledger_of(None, ("gpu",), 360.0)
    ledger.meet([name for name in shares if len(members(name)) == 1])
    ledger.reset(0.0, shares)
    return ledger


def test_a_pair_has_its_turns_as_one_and_its_jobs_none_beside() -> None:
    pair = pair_of("a", "b")
    ledger = ledger_with({"a": (0.0,), "b": (0.0,), "c": (0.5,), pair: (0.5,)})
    contenders = [RoundContender(name, 1.0, (True,)) for name in "abc"]
    contenders.insert(2, RoundContender(pair, 1.0, (True,), jobs=("a", "b")))
    turns = []
    for number in range(6):
        (choice,) = choose(ledger, contenders, (1.0,), (0,))
        turns.append(choice.name)
        ledger.leases[choice.name] = Lease(0, 360.0 * (number + 1))
        ledger.book(360.0 * (number + 1))
    assert turns.count(pair) == turns.count("c") == 3


def test_the_account_of_a_pair_is_closed_when_one_of_its_jobs_has_ended() -> None:
    ledger = ledger_with({"a": (0.0,), "b": (0.0,), pair_of("a", "b"): (1.0,)})
    assert ledger_of(ledger.note(), ("gpu",), 360.0) == ledger
    ledger.meet(["b"])
    assert list(ledger.accounts) == ["b"]
    assert ledger.changed


TABLE = SpeedTable(
    {ModelType("x"): {Hardware("v100"): 10.0}, ModelType("y"): {Hardware("v100"): 5.0}},
    "v100",
    {
        (ModelType("x"), ModelType("x")): {Hardware("v100"): (8.0, 8.0)},
        (ModelType("x"), ModelType("y")): {Hardware("v100"): (9.0, 4.0)},
    },
)


def leased(*names: str) -> Experiment:
    arrivals = [arrival(f"{n}", 0.0, 100.0, model=name) for n, name in enumerate(names)]
    jobs = in_leases(arrivals, TABLE, ["v100"], 36.0)
    return Experiment(jobs, [Node("n0", 1, kind="v100")], speed_table=TABLE, round_s=36.0)


def test_two_jobs_side_by_side_do_their_steps_at_the_rates_of_the_pair() -> None:
    """1,000 steps each, at 8 a second side by side."""
    alone = simulate(leased("x", "x"), "gavel", rows=True)
    assert max(row.end_s for row in alone.jobs) == pytest.approx(200.0, abs=0.5)
    packed = simulate(leased("x", "x"), "gavel:packing=true", rows=True)
    assert [row.end_s for row in packed.jobs] == pytest.approx([125.0, 125.0])


def test_a_pair_is_done_when_the_later_of_the_two_is() -> None:
    """In the fourth round of 36 s x has 28 steps left, at 9 a second, and y 68 at 4: 17 s for both."""
    run = simulate(leased("y", "x"), "gavel:packing=true", rows=True)
    assert [row.end_s for row in run.jobs] == pytest.approx([108.0 + 17.0] * 2)


def test_beside_each_other_jobs_run_as_the_table_has_it_without_leases() -> None:
    jobs = [arrival("a", 0.0, 100.0, model="x"), arrival("b", 0.0, 100.0, model="x")]
    experiment = Experiment(jobs, [Node("n0", 1, kind="v100")], speed_table=TABLE, speeds="oracle")
    packed = simulate(experiment, "gavel:packing=true:round_s=36", rows=True)
    assert [row.end_s for row in packed.jobs] == pytest.approx([125.0, 125.0], abs=1.0)
    turns = simulate(experiment, "gandiva:quantum_s=1000", rows=True)
    assert [row.end_s for row in turns.jobs] == pytest.approx([125.0, 125.0], abs=1.0)


def test_a_pair_is_two_jobs_on_halves_of_the_same_gpus_and_grows_when_it_parts() -> None:
    jobs = [arrival("a", 0.0, 50.0, model="x"), arrival("b", 0.0, 500.0, model="x")]
    experiment = Experiment(jobs, [Node("n0", 1, kind="v100")], speed_table=TABLE, speeds="oracle")
    starts: list[Placement] = []
    run = run_trace(
        experiment.policy("gavel:packing=true:round_s=20"),
        jobs,
        experiment.nodes,
        interference=lambda job, other, kind: 0.8,
    )
    starts = [entry.placement for entry in run.of(Start)]
    assert [place.share for place in starts] == [500, 500]
    assert starts[0].slices == starts[1].slices
    assert not run.of(Preempt)
    assert [entry.placement.share for entry in run.of(Resize)] == [1000]
    assert run.ends_at["b"] < 62.5 + 20.0 + 450.0


@pytest.mark.parametrize("options", ["aware=false:packing=true", "objective=isolated:packing=true"])
def test_packing_where_nobody_packs_is_refused_in_one_line(options: str) -> None:
    with pytest.raises(BadInput, match="packing=true: give an objective that packs"):
        run_trace(f"gavel:{options}", [arrival("a", 0.0, 1.0)], [Node("n0", 1)])


def test_without_measured_pairs_nobody_is_packed() -> None:
    jobs = [arrival(name, 0.0, 50.0, model="x") for name in "ab"]
    run = run_trace("gavel:packing=true:round_s=10", jobs, [Node("n0", 1)])
    assert {entry.placement.share for entry in run.of(Start)} == {1000}


# ------------------------------------------------------------------------------------- tables of pairs


def test_pairs_are_read_from_gavels_tables(tmp_path: Path) -> None:
    first, second = "('A', 1)", "('B (batch size 8)', 1)"
    speeds = {
        first: {"null": 10.0, second: [9.0, 4.0], "('A', 2)": [1.0, 1.0]},
        second: {"null": 5.0},
    }
    text = json.dumps({"v100": speeds})
    path = tmp_path / "table.json"
    path.write_text(text)
    table = read_speed_table(path)
    one, two = ModelType("a"), ModelType("b", 8)
    assert table.pairs == {(one, two): {Hardware("v100"): (9.0, 4.0)}}
    assert table.beside(two, one, Hardware("v100")) == (4.0, 9.0)
    assert table.beside(one, two, Hardware("k80")) == (0.0, 0.0)
    hidden = table.without(lambda model: model == two)
    assert hidden.pairs == {}


def test_pairs_are_read_from_the_flat_form(tmp_path: Path) -> None:
    path = tmp_path / "flat.csv"
    path.write_text(
        "table,gpu,job_type,scale_factor,co_job_type,co_scale_factor,steps_per_s,co_steps_per_s\n"
        "t,k80,A,1,,,10,\n"
        "t,k80,B,1,,,5,\n"
        "t,k80,A,1,B,1,9,4\n"
    )
    table = read_speed_table(path)
    assert table.beside(ModelType("a"), ModelType("b"), Hardware("k80")) == (9.0, 4.0)
