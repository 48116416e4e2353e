from itertools import product

import numpy as np
import pytest

from dovetail.policies.goodput.configurations import Configuration, configurations
from dovetail.policies.goodput.dividing import divided, solved_in_parts
from dovetail.policies.goodput.program import NONE, Program, costs, solved, total

NOWHERE = np.array([NONE, NONE])


def example(rounded: bool = True) -> Program:
    speedup = np.array([[1.0, 1.8, 3.0], [1.0, 1.2, 1.3]])
    cost = costs(speedup, NOWHERE, np.ones(2), -0.5) if rounded else speedup**-0.5
    return Program(
        cost,
        without=1.1,
        gpus=np.array([1, 2, 4]),
        kind=np.zeros(3, dtype=np.int64),
        room=np.array([4]),
        kept=NOWHERE,
    )


def drawn(seed: int, jobs: int) -> Program:
    chance = np.random.default_rng(seed)
    columns = configurations(0, 2, 4) + configurations(1, 1, 8)
    gpus = np.array([one.gpus for one in columns])
    speedup = gpus ** chance.uniform(0.2, 1.0, (jobs, 1)) * chance.uniform(
        0.8, 1.25, (jobs, len(gpus))
    )
    kept = np.full(jobs, NONE)
    kept[0] = 2
    return Program(
        costs(speedup, kept, np.full(jobs, 0.8), -0.5),
        without=1.1,
        gpus=gpus,
        kind=np.array([one.kind for one in columns]),
        room=np.array([8, 8]),
        kept=kept,
    )


def test_two_and_two_is_the_cheapest_in_the_worked_example() -> None:
    plain = example(rounded=False)
    found = solved(plain, 1.0)
    assert list(found.configuration) == [1, 1]
    assert found.cost == pytest.approx(1.6582, abs=5e-5)
    assert total(plain, np.array([2, NONE])) == pytest.approx(1.6774, abs=5e-5)
    assert total(plain, np.array([0, 0])) == pytest.approx(2.0)


def test_rounding_to_two_decimals_keeps_that_choice() -> None:
    found = solved(example(), 1.0)
    assert list(found.configuration) == [1, 1]
    assert found.cost == pytest.approx(1.66)


def test_configurations_are_powers_of_two_in_a_node_and_then_whole_nodes() -> None:
    assert [tuple(one)[1:] for one in configurations(0, 3, 4)] == [
        (1, 1),
        (1, 2),
        (1, 4),
        (2, 8),
        (3, 12),
    ]
    assert configurations(1, 1, 6)[-1] == Configuration(1, 1, 6)


@pytest.mark.parametrize("seed", range(6))
def test_no_choice_that_fits_is_cheaper(seed: int) -> None:
    program = drawn(seed, jobs=3)
    found = solved(program, 5.0, gap=0.0)
    best = min(
        total(program, choice)
        for choice in map(np.array, product(range(NONE, len(program.gpus)), repeat=3))
        if choice[0] == program.kept[0] and _fits(program, choice)
    )
    assert _fits(program, found.configuration)
    assert found.cost == pytest.approx(best)
    assert found.gap == pytest.approx(0.0, abs=1e-6)


def test_rigid_jobs_of_one_kind_are_chosen_to_be_as_many_as_fit() -> None:
    sizes = np.array([4, 3, 3, 2, 1])
    cost = np.where(np.arange(1, 5) == sizes[:, None], 1.0, np.inf)
    program = Program(
        cost, 1.1, np.arange(1, 5), np.zeros(4, dtype=np.int64), np.array([6]), np.full(5, NONE)
    )
    assert np.count_nonzero(solved(program, 1.0).configuration != NONE) == 3


def test_without_time_a_choice_that_fits_is_made_and_the_gap_is_told() -> None:
    program = drawn(1, jobs=300)
    found = solved(program, 0.0)
    assert _fits(program, found.configuration)
    assert found.configuration[0] == program.kept[0]
    assert found.out_of_time
    assert found.gap > 0.0


def _fits(program: Program, choice: np.ndarray) -> bool:
    some = choice != NONE
    used = np.bincount(
        program.kind[choice[some]], program.gpus[choice[some]], minlength=len(program.room)
    )
    finite = np.isfinite(program.cost[np.nonzero(some)[0], choice[some]]).all()
    return bool(finite and (used <= program.room).all())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("parts", [2, 3])
def test_a_program_in_parts_is_legal_and_hardly_dearer(seed: int, parts: int) -> None:
    chance, jobs = np.random.default_rng(seed), 120
    columns = configurations(0, 10, 4) + configurations(1, 6, 8)
    gpus = np.array([one.gpus for one in columns])
    speedup = gpus ** chance.uniform(0.2, 1.0, (jobs, 1)) * np.where(gpus <= 8, 1.0, 0.0)
    program = Program(
        costs(speedup, np.full(jobs, NONE), np.ones(jobs), -0.5),
        without=1.1,
        gpus=gpus,
        kind=np.array([one.kind for one in columns]),
        room=np.array([40, 48]),
        kept=np.full(jobs, NONE),
    )
    whole, found = solved(program, 20.0), solved_in_parts(program, parts, 20.0)
    used = np.zeros(2, dtype=np.int64)
    there = found.configuration[found.configuration != NONE]
    np.add.at(used, program.kind[there], program.gpus[there])
    assert (used <= program.room).all()
    assert found.cost == pytest.approx(total(program, found.configuration))
    assert whole.cost - 1e-6 <= found.cost <= 1.02 * whole.cost


def test_the_parts_have_all_jobs_and_all_gpus_once() -> None:
    program = drawn(3, 11)
    parts = divided(program, 4)
    assert sorted(job for jobs, _ in parts for job in jobs) == list(range(11))
    assert np.sum([part.room for _, part in parts], axis=0).tolist() == program.room.tolist()


def test_more_parts_than_jobs_are_as_many_as_jobs() -> None:
    assert solved_in_parts(example(), 50, 5.0).cost >= solved(example(), 5.0).cost
