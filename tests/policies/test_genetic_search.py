from itertools import product

import numpy as np
import pytest

from dovetail.policies.goodput.genetic import (
    SearchEffort,
    Sharing,
    States,
    repaired,
    search,
    value,
)


def drawn(seed: int, jobs: int, nodes: int, each: int = 3, kinds: int = 1) -> Sharing:
    """Speed-ups that grow less and less, less over nodes, for jobs that may have held something."""
    chance = np.random.default_rng(seed)
    total = nodes * each
    grows = chance.uniform(0.3, 1.0, (jobs, 1, 1))
    apart = np.array([1.0, chance.uniform(0.5, 1.0)]).reshape(1, 2, 1)
    sharing = Sharing(
        speedup=np.arange(total + 1) ** grows * apart * (np.arange(total + 1) > 0),
        held=np.zeros((jobs, nodes), dtype=np.int64),
        kept=chance.uniform(0.3, 1.0, jobs),
        least=np.zeros(jobs, dtype=np.int64),
        most=chance.integers(1, total + 1, jobs),
        room=np.full(nodes, each),
        legal=np.ones((jobs, nodes), dtype=np.int64),
        kinds=np.arange(nodes) % kinds,
    )
    held = repaired(sharing, chance.integers(0, each + 1, (1, jobs, nodes)), chance)[0]
    return Sharing(**{**vars(sharing), "held": held * chance.integers(0, 2, (jobs, 1))})


def is_legal(sharing: Sharing, state: States) -> bool:
    spans = (np.count_nonzero(state, axis=1) > 1)[:, None] & (state > 0)
    mixed = any(len(set(sharing.kinds[row > 0])) > 1 for row in state)
    gpus = state.sum(axis=1)
    return bool(
        (state.sum(axis=0) <= sharing.room).all()
        and (spans.sum(axis=0) <= 1).all()
        and ((gpus <= sharing.most) & ((gpus >= sharing.least) | (gpus == 0))).all()
        and (state <= sharing.legal * sharing.room).all()
        and not mixed
    )


def best_of_all(sharing: Sharing) -> float:
    """By trying every state there is: jobs one after the other, each node's GPUs shared out."""
    jobs, nodes = sharing.held.shape
    rows = [np.array(row) for row in product(*[range(room + 1) for room in sharing.room])]
    found = [np.zeros((0, nodes), dtype=np.int64)]
    for _ in range(jobs):
        found = [
            np.vstack((state, row))
            for state in found
            for row in rows
            if (state.sum(axis=0) + row <= sharing.room).all()
        ]
    legal = np.stack([state for state in found if is_legal(sharing, state)])
    return float(value(sharing, legal).max())


@pytest.mark.parametrize(("jobs", "nodes"), [(1, 1), (2, 1), (4, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_the_search_comes_within_two_percent_of_trying_everything(
    seed: int, jobs: int, nodes: int
) -> None:
    sharing = drawn(seed, jobs, nodes)
    found = search(sharing, sharing.held[None], SearchEffort(), seed)
    assert is_legal(sharing, found.state)
    assert found.value >= 0.98 * best_of_all(sharing)


def test_it_comes_as_near_with_four_jobs_on_two_nodes() -> None:
    sharing = drawn(11, 4, 2, each=2)
    found = search(sharing, sharing.held[None], SearchEffort(), 5)
    assert found.value >= 0.98 * best_of_all(sharing)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_repaired_is_legal(seed: int) -> None:
    sharing = drawn(seed, 6, 5, kinds=2)
    sharing = Sharing(**{**vars(sharing), "least": np.minimum(sharing.most, 2)})
    chance = np.random.default_rng(seed)
    states = repaired(sharing, chance.integers(0, 4, (50, 6, 5)), chance)
    assert all(is_legal(sharing, state) for state in states)


def test_the_same_seed_finds_the_same_and_what_runs_is_never_made_worse() -> None:
    sharing = drawn(3, 5, 4)
    one, other = (search(sharing, sharing.held[None], SearchEffort(), 7) for _ in range(2))
    assert np.array_equal(one.state, other.state)
    assert one.value >= value(sharing, sharing.held[None])[0]


def test_a_job_is_not_moved_for_less_than_its_restart_costs() -> None:
    sharing = drawn(0, 1, 2)
    held = np.array([[2, 0]])
    steep = np.zeros((1, 2, 7)) + np.array([0.0, 1.0, 1.9, 2.0, 2.1, 2.1, 2.1])
    for kept, gpus in ((0.9, 2), (1.0, 3)):
        changed = {"held": held, "speedup": steep, "kept": np.array([kept]), "most": np.array([3])}
        found = search(Sharing(**{**vars(sharing), **changed}), held[None], SearchEffort(), 1)
        assert found.state.sum() == gpus


def test_the_search_ends_when_its_time_is_up() -> None:
    sharing = drawn(1, 12, 8)
    found = search(sharing, sharing.held[None], SearchEffort(seconds=0.0), 1)
    assert found.out_of_time
    assert is_legal(sharing, found.state)
