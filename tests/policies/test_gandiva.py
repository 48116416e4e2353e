"""Gandiva: time slices, pairs that stay while they pay, and migration to fewer nodes."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.entries import NodeDraining, NodeUp, Preempt, Resize, Start
from dovetail.core.model import Interruption, Job, Tenant
from dovetail.models.speed import by_kind_and_placement, same_for_all_pairs
from dovetail.testing import Audit, PolicyRun, arrival, nodes, run_trace


def speeds(first: float, second: float) -> Callable[[Job, Job, str], float]:
    return lambda job, other, kind: first if job.id < other.id else second


def pair(
    interference: Callable[[Job, Job, str], float], text: str = "gandiva:slice_s=1000"
) -> PolicyRun:
    arrivals = [arrival("a", 0.0, 60.0), arrival("b", 0.0, 60.0)]
    return run_trace(text, arrivals, nodes(1, 1), interference=interference)


def test_a_pair_whose_speeds_sum_up_to_more_than_one_stays_packed() -> None:
    run = pair(speeds(0.6, 0.6))
    assert run.ends_at == {"a": 100.0, "b": 100.0}
    assert not run.of(Preempt)
    assert len([entry for entry in run.of(Start) if entry.placement.share == 500]) == 1


def test_a_pair_whose_speeds_sum_up_to_less_than_one_is_parted() -> None:
    run = pair(speeds(0.4, 0.5))
    assert run.of(Preempt)
    assert run.ends_at["a"] < 70.0
    assert run.ends_at["b"] == pytest.approx(120.0, abs=2.0)


def test_a_pair_that_does_no_more_than_one_alone_is_parted() -> None:
    run = pair(speeds(0.5, 0.5))
    assert run.of(Preempt)
    assert run.ends_at["a"] == 60.0
    assert run.ends_at["b"] == 120.0


def test_a_pair_is_measured_by_what_one_alone_does_on_the_same_gpus() -> None:
    """On GPUs of half the speed 0.6 + 0.6 is 0.3 + 0.3 by the clock."""
    run = run_trace(
        "gandiva:slice_s=1000",
        [arrival("a", 0.0, 60.0), arrival("b", 0.0, 60.0)],
        nodes(1, 1, kind="old"),
        speed=by_kind_and_placement({"old": 0.5}),
        interference=same_for_all_pairs(0.6),
    )
    assert run.ends_at == pytest.approx({"a": 200.0, "b": 200.0})
    assert not run.of(Preempt)


@pytest.mark.parametrize("trials", [1, 2, 5])
def test_a_job_is_left_alone_after_so_many_pairs_that_did_not_pay(trials: int) -> None:
    run = run_trace(
        f"gandiva:slice_s=3:trials={trials}",
        [arrival(f"j{i}", 0.0, 50.0 + i) for i in range(10)],
        nodes(1, 2),
        interference=same_for_all_pairs(0.4),
    )
    tried = Counter(entry.job_id for entry in run.of(Start) if entry.placement.share == 500)
    tried.update(entry.job_id for entry in run.of(Resize) if entry.placement.share == 500)
    assert max(tried.values()) == trials


def test_a_third_job_takes_the_gpu_of_a_pair_from_both() -> None:
    """At 5 s `c` takes over; one of the two goes on beside it at once, so that 1.2 are done at all
    times but the last."""
    arrivals = [arrival("a", 0.0, 30.0), arrival("b", 0.0, 30.0), arrival("c", 1.0, 30.0)]
    run = run_trace(
        "gandiva:slice_s=5", arrivals, nodes(1, 1), interference=same_for_all_pairs(0.6)
    )
    Audit().read(run.entries)
    stopped = [entry.job_id for at, entry in run.entries if at == 5.0 and type(entry) is Preempt]
    assert set(stopped) == {"a", "b"}
    assert max(run.ends_at.values()) == pytest.approx(75.0)


def test_a_pair_that_need_not_make_way_is_spared() -> None:
    arrivals = [arrival(name, 0.0, 30.0) for name in "abcd"]
    run = run_trace(
        "gandiva:slice_s=5",
        [*arrivals, arrival("e", 1.0, 30.0)],
        nodes(1, 2),
        interference=same_for_all_pairs(0.6),
    )
    kinds = [type(entry) for at, entry in run.entries if at == 5.0]
    assert kinds[: kinds.index(Start)].count(Preempt) == 2


def test_halves_of_gpus_count_as_halves_in_a_quota() -> None:
    """The pair holds 2 GPUs of a quota of 2, and its turn ends while another tenant waits in vain."""
    run = run_trace(
        "gandiva:slice_s=5",
        [
            arrival("a", 0.0, 30.0, 2, tenant="us"),
            arrival("b", 0.0, 30.0, 2, tenant="us"),
            arrival("s", 0.0, 40.0, 1, share=500),
            arrival("large", 1.0, 30.0, 3),
        ],
        nodes(1, 3),
        tenants=[Tenant("us", 2.0)],
        interference=same_for_all_pairs(0.6),
    )
    Audit().read(run.entries)
    assert set(run.ended) == {"a", "b", "s", "large"}


def test_the_threshold_can_be_moved() -> None:
    assert not pair(speeds(0.4, 0.5), "gandiva:slice_s=1000:threshold=0.8").of(Preempt)
    assert pair(speeds(0.6, 0.6), "gandiva:slice_s=1000:threshold=1.3").of(Preempt)


def test_packing_can_be_turned_off() -> None:
    assert not pair(speeds(0.9, 0.9), "gandiva:slice_s=1000:pack=false").of(Resize)


def test_the_one_that_is_left_gets_its_whole_gpu_back() -> None:
    run = run_trace(
        "gandiva:slice_s=1000",
        [arrival("a", 0.0, 6.0), arrival("b", 0.0, 12.0)],
        nodes(1, 1),
        interference=same_for_all_pairs(0.6),
    )
    assert run.ends_at == {"a": 10.0, "b": 16.0}
    assert run.of(Resize)[-1].placement.share == 1000


def test_a_pair_on_a_draining_node_may_end_there() -> None:
    run = run_trace(
        "gandiva:slice_s=1000",
        [arrival("a", 0.0, 6.0), arrival("b", 0.0, 12.0)],
        nodes(1, 1),
        interference=same_for_all_pairs(0.6),
        node_events=[NodeDraining(5.0, "n0"), NodeUp(500.0, "n0")],
    )
    assert run.ends_at == {"a": 10.0, "b": 16.0}


def test_one_of_a_pair_does_not_grow_over_a_share_that_has_moved_in() -> None:
    """At the end of its slice one of the pair makes way for a job that asked for half a GPU."""
    arrivals = [arrival("a", 0.0, 30.0), arrival("b", 0.0, 30.0), arrival("s", 1.0, 9.0, share=500)]
    run = run_trace("gandiva:slice_s=5:threshold=0.9", arrivals, nodes(1, 1))
    assert Audit().read(run.entries).busy_gpu_s == pytest.approx(30.0 + 30.0 + 4.5)
    assert run.of(Preempt)


def test_only_gangs_of_one_size_are_paired() -> None:
    run = run_trace(
        "gandiva:slice_s=1000",
        [arrival("two", 0.0, 10.0, 2), arrival("one", 0.0, 10.0, 1)],
        nodes(1, 2),
        interference=same_for_all_pairs(0.9),
    )
    assert not run.of(Resize)


def test_there_is_no_packing_while_everything_fits() -> None:
    run = run_trace("gandiva", [arrival(f"j{i}") for i in range(4)], nodes(1, 4))
    assert not run.of(Resize)


@given(
    number=st.integers(2, 6),
    duration=st.integers(20, 100).map(float),
    slice_s=st.sampled_from([1.0, 3.0, 7.0]),
    switch_s=st.sampled_from([0.0, 0.2]),
)
def test_equal_jobs_on_one_gpu_all_finish_close_together(
    number: int, duration: float, slice_s: float, switch_s: float
) -> None:
    """Between (n - 1)·d and n·d plus the switches, if a slice is short against d."""
    arrivals = [
        arrival(f"j{i}", 0.0, duration, interruption=Interruption(0.0, switch_s))
        for i in range(number)
    ]
    run = run_trace(f"gandiva:slice_s={slice_s}:pack=false", arrivals, nodes(1, 1))
    switches = sum(track.preemptions for track in run.ended.values())
    latest = number * duration + switches * switch_s
    for end in run.ends_at.values():
        assert (number - 1) * duration - number * slice_s <= end <= latest + 1e-6
    assert max(run.ends_at.values()) == pytest.approx(latest)


def test_a_job_spread_over_nodes_moves_together_when_it_can() -> None:
    run = run_trace(
        "gandiva",
        [
            arrival("a", 0.0, 10.0, 3),
            arrival("b", 0.0, 1000.0, 3),
            arrival("split", 0.0, 100.0, 2),
        ],
        nodes(2, 4),
    )
    starts = [entry.placement for entry in run.of(Start) if entry.job_id == "split"]
    assert [len(where.slices) for where in starts] == [2, 1]
    assert run.ends_at["split"] == 100.0


def test_migration_can_be_turned_off() -> None:
    arrivals = [
        arrival("a", 0.0, 10.0, 3),
        arrival("b", 0.0, 1000.0, 3),
        arrival("split", 0.0, 100.0, 2),
    ]
    assert not run_trace("gandiva:migrate=false", arrivals, nodes(2, 4)).of(Preempt)


def test_the_same_seed_makes_the_same_pairs_and_another_seed_others() -> None:
    arrivals = [arrival(f"j{i}", 0.0, 50.0 + i) for i in range(16)]

    def text(seed: int) -> str:
        run = run_trace(
            f"gandiva:slice_s=1000:seed={seed}",
            arrivals,
            nodes(1, 8),
            interference=same_for_all_pairs(0.8),
        )
        Audit().read(run.entries)
        return run.text

    assert text(1) == text(1)
    assert text(1) != text(2)
