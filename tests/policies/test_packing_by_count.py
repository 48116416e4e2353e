from random import Random

import pytest

from dovetail.core.model import JobId
from dovetail.policies.goodput.packing import packed_rows
from dovetail.policies.goodput.taking import Row

A, B, C, D = (JobId(name) for name in "abcd")


def test_who_keeps_its_count_keeps_its_nodes_and_whole_nodes_go_first() -> None:
    rows = packed_rows({A: 2, B: 8, C: 1}, {A: ((1, 2),)}, {0: 4, 1: 4, 2: 4})
    assert rows == {A: ((1, 2),), B: ((0, 4), (2, 4)), C: ((1, 1),)}


def test_smaller_jobs_make_room_for_whole_nodes_and_are_placed_again() -> None:
    rows = packed_rows({A: 1, B: 1, C: 4}, {A: ((0, 1),), B: ((1, 1),)}, {0: 4, 1: 4})
    assert sum(len(rows[one]) for one in (A, B, C)) == 3
    assert rows[A][0][0] == rows[B][0][0] != rows[C][0][0]


def test_a_job_that_there_is_no_room_for_gets_nothing() -> None:
    assert packed_rows({A: 4, B: 4}, {}, {0: 4}) == {A: ((0, 4),), B: ()}


@pytest.mark.parametrize("seed", range(20))
def test_powers_of_two_and_whole_nodes_that_fit_by_number_always_find_nodes(seed: int) -> None:
    chance = Random(seed)
    room, left = dict.fromkeys(range(5), 4), 20
    wanted: dict[JobId, int] = {}
    while left:
        gpus = chance.choice([one for one in (1, 2, 4, 8, 12) if one <= left])
        wanted[JobId(f"j{len(wanted)}")] = gpus
        left -= gpus
    held: dict[JobId, Row] = {}
    for n in range(5):
        held[JobId(f"j{n}")] = ((n, chance.choice([1, 2, 4])),)
    rows = packed_rows(wanted, held, room)
    used = [sum(gpus for row in rows.values() for n, gpus in row if n == node) for node in room]
    assert used == [4] * 5
    assert {job_id: sum(gpus for _, gpus in row) for job_id, row in rows.items()} == wanted
    assert all(len(rows[job_id]) == max(gpus // 4, 1) for job_id, gpus in wanted.items())
