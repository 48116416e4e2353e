"""A job that says on how many nodes it runs has exactly those, all or none, the same on each."""

import pytest

from dovetail.core.entries import NodeJoined, Start, Submitted
from dovetail.core.errors import IllegalEntry
from dovetail.core.journal import decode, job_from
from dovetail.core.model import Job, JobId, Node, Placement, Slice
from dovetail.core.plan import Plan
from dovetail.core.shape import Shape
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.policies.placement import PLACEMENTS
from dovetail.testing import arrival, job, nodes, run_trace

every_rule = pytest.mark.parametrize("rule", PLACEMENTS)


def state_of(asked: Job, *cluster: Node) -> State:
    state = State()
    for node in cluster or nodes(3, 4):
        state.record(NodeJoined(0.0, node))
    state.record(Submitted(0.0, asked))
    return state


def on(*parts: tuple[int, int]) -> Placement:
    return Placement(tuple(Slice(n, mask) for n, mask in parts))


def test_gpus_that_do_not_divide_are_refused_in_one_line() -> None:
    with pytest.raises(
        ValueError, match="7 GPUs on 2 nodes, which cannot have equally many; ask"
    ) as e:
        Job(JobId("j"), gpus=7, nodes=2)
    assert "\n" not in str(e.value)
    with pytest.raises(ValueError, match="-1 nodes; ask for 1 or more"):
        Job(JobId("j"), nodes=-1)


def test_a_job_of_an_older_journal_says_nothing_of_nodes() -> None:
    entry = decode('{"at":0,"submitted":{"id":"j","gpus":4}}')
    assert isinstance(entry, Submitted)
    assert entry.job.nodes == 0
    assert "nodes" not in entry.job.text()
    again = job_from({"id": "j", "gpus": 4, "nodes": 2})
    assert again == Job(JobId("j"), gpus=4, nodes=2)
    assert '"nodes":2' in again.text()


@every_rule
@pytest.mark.parametrize(("gpus", "number"), [(8, 2), (6, 3), (2, 2), (4, 1), (12, 3)])
def test_every_rule_gives_equal_parts_on_exactly_so_many_nodes(
    rule: str, gpus: int, number: int
) -> None:
    state = state_of(job("j", gpus, nodes=number))
    placement = PLACEMENTS[rule](state.room, state.tracks[JobId("j")].shape)
    assert placement is not None
    assert [mask.bit_count() for _, mask in placement.slices] == [gpus // number] * number
    state.record(Start(JobId("j"), placement))
    again = restore(take(state), 10)
    assert again.tracks[JobId("j")].placement == placement
    assert again.room.free == state.room.free


@every_rule
def test_all_of_its_nodes_or_none(rule: str) -> None:
    state = state_of(job("first", 1))
    state.record(Start(JobId("first"), on((0, 1))))
    state.record(Submitted(0.0, job("j", 12, nodes=3)))
    assert PLACEMENTS[rule](state.room, state.tracks[JobId("j")].shape) is None
    assert state.room.pools[0].free == 11


@every_rule
def test_cpus_and_memory_are_counted_on_each_node(rule: str) -> None:
    hosts = [Node(f"n{i}", 4, cpus=cpus, memory_gb=100.0) for i, cpus in enumerate((8, 3, 8))]
    state = state_of(job("j", 4, cpus=8.0, memory_gb=20.0, nodes=2), *hosts)
    track = state.tracks[JobId("j")]
    placement = PLACEMENTS[rule](state.room, track.shape)
    assert placement is not None
    assert sorted(n for n, _ in placement.slices) == [0, 2]
    state.record(Start(JobId("j"), placement))
    assert (state.room.cpus, state.room.memory_gb) == ([4.0, 3.0, 4.0], [90.0, 100.0, 90.0])


@every_rule
def test_a_job_without_gpus_may_run_on_several_nodes(rule: str) -> None:
    hosts = [Node(f"n{i}", gpus, cpus=4.0) for i, gpus in enumerate((0, 2, 2))]
    state = state_of(job("j", 0, cpus=6.0, nodes=3), *hosts)
    track = state.tracks[JobId("j")]
    placement = PLACEMENTS[rule](state.room, track.shape)
    assert placement is not None
    state.record(Start(JobId("j"), placement))
    assert state.room.cpus == [2.0, 2.0, 2.0]
    state.record(Submitted(0.0, job("k", 0, cpus=9.0, nodes=3)))
    assert PLACEMENTS[rule](state.room, state.tracks[JobId("k")].shape) is None


ILLEGAL = [
    (job("j", 8, nodes=2), on((0, 15)), "with 4 GPUs: it asked for 2 nodes, each with 4"),
    (job("j", 6, nodes=2), on((0, 3), (1, 3), (2, 3)), "needs 2 nodes.*and gets 3 of the nodes"),
    (job("j", 6, nodes=3), on((0, 7), (1, 7)), "needs 3 nodes.*and gets 2 of the nodes"),
    (job("j", 4, nodes=2), on((0, 1), (1, 7)), "gets 1 and 3 on its nodes"),
    (job("j", 4, nodes=1), on((0, 3), (1, 3)), "and gets 2 of the nodes"),
    (job("j", 4, nodes=2), on((0, 3), (0, 12)), "names no node, or one twice"),
    (job("j", 0, cpus=4.0, nodes=2), on((0, 0)), "and gets 1 of the nodes"),
    (job("j", 0, cpus=4.0), on((0, 0), (1, 0)), "and gets 2 of the nodes"),
]


@pytest.mark.parametrize(("asked", "placement", "reason"), ILLEGAL)
def test_another_number_of_nodes_is_refused_drafted_or_not(
    asked: Job, placement: Placement, reason: str
) -> None:
    state = state_of(asked)
    with pytest.raises(IllegalEntry, match=reason):
        state.record(Start(asked.id, placement))
    if placement.gpus == asked.gpus:
        with pytest.raises(IllegalEntry, match=reason):
            Plan(state, PLACEMENTS["count"]).start_at(state.tracks[asked.id], placement)
        state.settle()
    with pytest.raises(IllegalEntry, match=reason):
        state.record(Start(asked.id, placement))
    assert [bin(mask) for mask in state.room.free] == ["0b1111"] * 3


def test_what_no_cluster_could_give_is_said_in_nodes() -> None:
    assert state_of(job("j", 16, nodes=4)).unplaceable[JobId("j")] == (
        "it needs 4 nodes, each with 4 GPUs, and of all that it may use 3 can have as much"
    )
    assert state_of(job("j", 10, nodes=2)).unplaceable[JobId("j")] == (
        "it needs 2 nodes, each with 5 GPUs, and of all that it may use none can have as much"
    )
    assert state_of(job("j", 8, nodes=1)).unplaceable[JobId("j")] == (
        "it needs 8 GPUs on one node, and the largest possible placement is 4 GPUs"
    )
    assert not state_of(job("j", 12, nodes=3)).unplaceable


def test_a_shape_is_told_by_the_part_of_each_node() -> None:
    asked = job("j", 8, kinds=("A100",), cpus=16.0, memory_gb=64.0, nodes=2)
    assert str(Shape(0, asked, "")) == (
        "2 nodes, each with 4 GPUs of kind A100, 8 CPUs, 32 GB of memory"
    )
    assert str(Shape(0, job("j", 1, nodes=1), "")) == "1 GPU"


@pytest.mark.parametrize(
    ("policy", "at"), [("srtf", 10.0), ("priority", 10.0), ("las:quantum=60", 60.0), ("srsf", 10.0)]
)
def test_whole_nodes_are_cleared_for_a_job_that_goes_first(policy: str, at: float) -> None:
    small = [arrival(f"s{i}", 0.0, 1000.0, 1, priority=0.0) for i in range(12)]
    wide = arrival("wide", 10.0, 10.0, 8, nodes=2, priority=5.0)
    run = run_trace(policy, [*small, wide], nodes(3, 4))
    assert run.first_starts["wide"] == at
    (start,) = [entry for entry in run.of(Start) if entry.job_id == "wide"][:1]
    assert sorted(mask.bit_count() for _, mask in start.placement.slices) == [4, 4]


def test_topology_takes_one_rack_if_it_has_enough_nodes() -> None:
    cluster = [Node(f"n{i}", 4, rack=rack) for i, rack in enumerate("abab")]
    state = state_of(job("j", 4, nodes=2), *cluster)
    placement = PLACEMENTS["topology"](state.room, state.tracks[JobId("j")].shape)
    assert placement is not None
    assert len({cluster[n].rack for n, _ in placement.slices}) == 1
