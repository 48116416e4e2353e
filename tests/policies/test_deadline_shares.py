"""ElasticFlow's minimum satisfactory share, its worked example and what must always hold of it."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.policies.deadline.gpus_ahead import GpusAhead, Slots, all_free, gpu_seconds
from dovetail.policies.deadline.shares import (
    DueWork,
    promise,
    saved_gpu_seconds,
    smallest_share,
    spread,
)

COUNTS, RATES = (1, 2, 4), (1.0, 1.5, 2.0)
ANY_TIME = Slots()


def _demand(deadline: float, left: float = 600.0) -> DueWork:
    return DueWork(left, deadline, COUNTS, RATES)


@pytest.mark.parametrize(("deadline", "gpus"), [(700, 1), (420, 2), (310, 4)])
def test_the_fewest_gpus_that_keep_the_deadline_are_taken(deadline: float, gpus: int) -> None:
    share = smallest_share(_demand(deadline), all_free(0, 4), 4, ANY_TIME)
    assert list(share.steps) == [(0, gpus)]
    assert share.done_at <= deadline


def test_a_deadline_that_no_number_keeps_is_not_promised() -> None:
    assert promise([_demand(290)], 0, 4, ANY_TIME).late == (0,)


def test_more_gpus_cost_more_gpu_seconds_an_iteration() -> None:
    demand = _demand(700)
    costs = [gpus / demand.rate(gpus) for gpus in COUNTS]
    assert costs == pytest.approx([1, 4 / 3, 2])
    assert saved_gpu_seconds(demand, 1, 2) == pytest.approx(-200)


def test_a_share_is_as_late_as_it_can_be_where_others_leave_a_gap() -> None:
    ahead = GpusAhead((0, 100, 200), (0, 4, 4))
    share = smallest_share(DueWork(100, 300, (1,), (1.0,)), ahead, 4, ANY_TIME)
    assert list(share.steps) == [(0, 0), (200, 1)]


def test_levels_are_filled_one_after_the_other_from_the_deadline_backwards() -> None:
    ahead = GpusAhead((0, 50), (4, 3))
    share = smallest_share(DueWork(210, 200, COUNTS, RATES), ahead, 4, ANY_TIME)
    assert list(share.steps) == [(0, 1), (50, 2)]
    assert share.done_at <= 200


def test_sums_that_are_rounded_another_way_leave_no_work_behind() -> None:
    """2.9 from the deadline backwards, a little less from now on; then there is no GPU until then."""
    ahead = GpusAhead((0.0, 0.4, 1.2, 2.0, 2.9), (1, 1, 1, 1, 0))
    share = smallest_share(DueWork(2.9, 3.9, (1,), (1.0,)), ahead, 1, ANY_TIME)
    assert list(share.steps) == [(0.0, 1), (2.9, 0)]
    assert share.done_at == share.until == 2.9


def test_who_cannot_be_on_time_takes_what_there_is_until_it_is_done() -> None:
    ahead = GpusAhead((0, 50, 400), (1, 0, 4))
    share = smallest_share(_demand(100, left=150), ahead, 4, ANY_TIME)
    assert list(share.steps) == [(0, 1), (50, 0), (400, 4)]
    assert share.done_at == 450


def test_slots_end_shares_late_and_tell_ends_in_whole_seconds() -> None:
    share = smallest_share(DueWork(100, 1000, (1,), (0.9,)), all_free(5, 4), 4, Slots(60))
    assert (share.done_at, share.until) == (5 + 112, 5 + 120)


def test_without_deadlines_everybody_is_admitted() -> None:
    demands = [_demand(inf) for _ in range(20)]
    assert promise(demands, 0, 4, ANY_TIME).late == ()


def test_spare_gpus_go_to_who_saves_most_gpu_time_and_never_slow_a_job_down() -> None:
    linear = DueWork(100, inf, (1, 2, 4), (1.0, 2.0, 4.0))
    slower = DueWork(100, inf, (1, 2), (1.0, 0.9))
    assert spread([_demand(inf), linear, slower], [1, 1, 1], 5) == [2, 4, 1]


def test_a_job_without_gpus_is_the_first_to_get_spare_ones() -> None:
    linear = DueWork(100, inf, (1, 2), (1.0, 2.0))
    assert spread([linear, _demand(inf)], [1, 0], 1) == [1, 1]


@st.composite
def _worlds(draw: st.DrawFn) -> list[DueWork]:
    rates = st.sampled_from([(1.0, 1.5, 2.0), (1.0, 2.0, 4.0), (0.5, 0.9, 0.8)])
    work = st.integers(1, 500).map(float)
    made = st.builds(DueWork, work, st.integers(10, 900).map(float), st.just(COUNTS), rates)
    return draw(st.lists(made, min_size=1, max_size=8))


@settings(max_examples=60, deadline=None)
@given(_worlds(), st.sampled_from([0.0, 60.0]))
def test_no_gpu_is_promised_twice_and_the_work_gets_done(
    demands: list[DueWork], slot_s: float
) -> None:
    promises = promise(demands, 0, 6, Slots(slot_s))
    assert min(promises.ahead.free) >= 0
    assert max(promises.ahead.free) <= 6
    for i, (demand, share) in enumerate(zip(demands, promises.shares, strict=True)):
        ends = [*[when for when, _ in share.steps[1:]], max(share.done_at, share.steps[-1][0])]
        done = sum(
            demand.rate(gpus) * (min(end, share.done_at) - when)
            for (when, gpus), end in zip(share.steps, ends, strict=True)
            if gpus and when < share.done_at
        )
        if i not in promises.late:
            assert done >= demand.left - 1e-6
            assert gpu_seconds(share.steps, share.until) > 0


@settings(max_examples=60, deadline=None)
@given(_worlds())
def test_who_follows_the_shares_of_those_admitted_misses_no_deadline(
    demands: list[DueWork],
) -> None:
    """Time passes from step to step; what is left is planned anew each time, as a policy does."""
    admitted: list[DueWork] = []
    for demand in demands:
        if not promise([*admitted, demand], 0, 6, ANY_TIME).late:
            admitted.append(demand)
    now, left = 0.0, [demand.left for demand in admitted]
    while any(rest > 1e-9 for rest in left):
        open_ = [i for i, rest in enumerate(left) if rest > 1e-9]
        demands_now = [
            DueWork(left[i], admitted[i].deadline, COUNTS, admitted[i].rates) for i in open_
        ]
        shares = promise(demands_now, now, 6, ANY_TIME).shares
        changes = [when for share in shares for when, _ in share.steps if when > now]
        until = min([*changes, *[share.done_at for share in shares]])
        for i, share in zip(open_, shares, strict=True):
            rate = admitted[i].rate(share.now) if share.now else 0.0
            left[i] -= rate * (until - now)
            assert left[i] <= 1e-6 or until <= admitted[i].deadline + 1e-6
        now = until
