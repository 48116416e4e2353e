"""Where jobs go: the examples of the consolidation family, islands, racks and shares."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.model import Node, Placement, Tenant
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.policies.placement import PLACEMENTS, consolidated, count, spread, topology
from dovetail.testing import job, nodes, placement

ANY = Shape(0, job("someone"), "")


def room_with(*free: int, size: int = 4, **fields: Any) -> Room:
    """Nodes of that size with so many free GPUs each."""
    return of_nodes(nodes(len(free), size, **fields), *free)


def of_nodes(cluster: Any, *free: int) -> Room:
    room = Room()
    for n, node in enumerate(cluster):
        room.add(node)
        taken = node.gpus - (free[n] if n < len(free) else node.gpus)
        if taken:
            room.take(placement((n, (1 << taken) - 1)), ANY)
    return room


def shape(gpus: int = 1, tenant: str = "", **fields: Any) -> Shape:
    return Shape(0, job("j", gpus, **fields), tenant)


def where(found: Placement | None) -> dict[int, int]:
    """How many GPUs on which node."""
    assert found is not None
    return {piece.node: piece.mask.bit_count() for piece in found.slices}


def test_consolidated_takes_the_tightest_node_that_is_enough() -> None:
    assert where(consolidated(room_with(4, 2), shape(2))) == {1: 2}
    assert where(consolidated(room_with(4, 2), shape(4))) == {0: 4}
    assert where(consolidated(room_with(4, 3, 2), shape(1))) == {2: 1}


def test_consolidated_uses_the_fewest_nodes_where_one_is_not_enough() -> None:
    assert where(consolidated(room_with(1, 4, 2, 3), shape(6))) == {1: 4, 2: 2}
    assert where(consolidated(room_with(4, 4, 4), shape(9))) == {0: 4, 1: 4, 2: 1}


def test_consolidated_puts_the_last_piece_where_it_fits_most_tightly() -> None:
    assert where(consolidated(room_with(4, 3, 1), shape(5))) == {0: 4, 2: 1}


def test_count_takes_the_rests_first() -> None:
    assert where(count(room_with(4, 1, 2), shape(3))) == {1: 1, 2: 2}


def test_spread_takes_one_gpu_a_node_from_the_emptiest() -> None:
    assert where(spread(room_with(4, 2, 3, 0), shape(2))) == {0: 1, 2: 1}
    assert where(spread(room_with(4, 2, 3, 0), shape(3))) == {0: 1, 1: 1, 2: 1}
    assert where(spread(room_with(4, 1, 1), shape(6))) == {0: 4, 1: 1, 2: 1}


def test_topology_keeps_a_pair_inside_one_island() -> None:
    room = Room()
    room.add(Node("n0", 4, island=2))
    room.take(placement((0, 0b0010)), ANY)  # GPUs 0, 2 and 3 are free: 0 and 2 would be lower
    assert topology(room, shape(2)) == placement((0, 0b1100))


def test_topology_takes_the_tightest_island() -> None:
    room = Room()
    room.add(Node("n0", 8, island=4))
    room.take(placement((0, 0b0011_0000)), ANY)
    assert topology(room, shape(2)) == placement((0, 0b1100_0000))
    assert topology(room, shape(3)) == placement((0, 0b0000_0111))


def test_topology_prefers_a_node_whose_islands_need_not_be_split() -> None:
    room = Room()
    for name in ("split", "whole"):
        room.add(Node(name, 4, island=2))
    room.take(placement((0, 0b0101)), ANY)  # 1 and 3 are free: one in each island
    room.take(placement((1, 0b0011)), ANY)
    assert where(topology(room, shape(2))) == {1: 2}


def test_topology_keeps_a_gang_in_one_rack_even_if_that_takes_more_nodes() -> None:
    cluster = [Node(f"n{i}", 4, rack=rack) for i, rack in enumerate("aabbb")]
    room = of_nodes(cluster, 4, 1, 2, 2, 2)
    assert where(topology(room, shape(6))) == {2: 2, 3: 2, 4: 2}
    assert where(consolidated(room, shape(6))) == {0: 4, 2: 2}


def test_topology_takes_the_tightest_rack_that_is_enough() -> None:
    cluster = [Node(f"n{i}", 4, rack=rack) for i, rack in enumerate("aabb")]
    assert where(topology(of_nodes(cluster, 4, 4, 4, 2), shape(6))) == {2: 4, 3: 2}


def test_topology_spans_racks_when_it_must() -> None:
    cluster = [Node(f"n{i}", 4, rack=rack) for i, rack in enumerate("ab")]
    assert where(topology(of_nodes(cluster), shape(8))) == {0: 4, 1: 4}


def test_a_gang_stays_on_one_gpu_kind() -> None:
    room = of_nodes([Node("a", 2, kind="a"), Node("b", 4, kind="b")])
    for place in PLACEMENTS.values():
        assert where(place(room, shape(3))) == {1: 3}
        assert place(room, shape(5)) is None
        assert where(place(room, shape(1, kinds=("b",)))) == {1: 1}


def test_a_share_goes_to_the_shared_gpu_with_the_least_left_that_is_enough() -> None:
    room = room_with(4, 4)
    part = shape(share=300)
    room.take(placement((0, 0b01), share=300), part)
    room.take(placement((1, 0b10), share=600), shape(share=600))
    assert consolidated(room, shape(share=400)) == placement((1, 0b10), share=400)
    assert consolidated(room, shape(share=500)) == placement((0, 0b01), share=500)
    assert consolidated(room, shape(share=900)) == placement((0, 0b10), share=900)


def test_shares_break_into_the_node_with_the_fewest_free_gpus() -> None:
    assert where(consolidated(room_with(4, 1, 2), shape(share=100))) == {1: 1}


def test_a_shared_gpu_is_nobodys_whole_gpu_until_all_shares_are_back() -> None:
    room, part = room_with(1, size=1), shape(share=500)
    here = placement((0, 1), share=500)
    room.take(here, part)
    room.take(here, part)
    assert consolidated(room, part) is None
    room.give(here, part)
    assert consolidated(room, shape(1)) is None
    room.give(here, part)
    assert where(consolidated(room, shape(1))) == {0: 1}


def test_gpus_without_their_cpus_are_passed_over() -> None:
    room = of_nodes([Node("a", 4, cpus=4.0), Node("b", 4, cpus=32.0)])
    assert where(consolidated(room, shape(2, cpus=16.0))) == {1: 2}
    assert where(consolidated(room, shape(5, cpus=20.0))) == {0: 1, 1: 4}
    assert consolidated(room, shape(6, cpus=24.0)) is None


def test_a_job_without_gpus_goes_where_the_fewest_gpus_are_free() -> None:
    room = room_with(4, 1, 2, cpus=8.0)
    assert consolidated(room, shape(0, cpus=2.0)) == placement((1, 0))


def test_a_quota_is_a_limit_on_what_is_held_together() -> None:
    room = room_with(4, 4)
    room.set_tenant(Tenant("us", 3.0))
    room.take(placement((0, 0b11)), shape(2, "us"))
    for place in PLACEMENTS.values():
        assert place(room, shape(2, "us")) is None
        assert place(room, shape(1, "us")) is not None
        assert place(room, shape(2, "them")) is not None


@given(
    sizes=st.lists(st.tuples(st.integers(0, 8), st.sampled_from("ab")), min_size=1, max_size=5),
    gpus=st.integers(1, 12),
    name=st.sampled_from(sorted(PLACEMENTS)),
)
def test_every_rule_places_whenever_one_kind_has_the_gpus(
    sizes: list[tuple[int, str]], gpus: int, name: str
) -> None:
    cluster = [Node(f"n{i}", 8, kind=kind, rack=str(i % 2)) for i, (_, kind) in enumerate(sizes)]
    room = of_nodes(cluster, *(free for free, _ in sizes))
    found = PLACEMENTS[name](room, shape(gpus))
    most = max(sum(free for free, kind in sizes if kind == which) for which in "ab")
    assert (found is not None) == (most >= gpus)
    if found is not None:
        assert found.gpus == gpus
        assert room.is_free(found)
        assert len(where(found)) == len(found.slices)


@given(free=st.lists(st.integers(0, 4), min_size=1, max_size=5), gpus=st.integers(1, 12))
def test_consolidated_never_uses_more_nodes_than_needed(free: list[int], gpus: int) -> None:
    found = consolidated(room_with(*free), shape(gpus))
    if found is not None:
        largest = sorted(free, reverse=True)
        needed = next(n for n in range(1, len(free) + 1) if sum(largest[:n]) >= gpus)
        assert len(found.slices) == needed


@pytest.mark.parametrize("name", sorted(PLACEMENTS))
def test_closed_nodes_are_never_used(name: str) -> None:
    room = room_with(4, 4)
    room.set_open(0, False)
    assert where(PLACEMENTS[name](room, shape(4))) == {1: 4}
    assert PLACEMENTS[name](room, shape(5)) is None
