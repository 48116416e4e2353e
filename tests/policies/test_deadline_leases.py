"""Chronus' leases and GENIE's waiting allowance: the worked examples."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dovetail.policies.deadline.allowance import waiting_allowance_s, workers
from dovetail.policies.deadline.leases import Claim, claim_of, first_lease, packed, soonest


def test_two_jobs_share_four_leases_and_a_third_before_the_same_deadline_is_rejected() -> None:
    first, second = Claim(2, 4, before=4), Claim(2, 4, before=4)
    assert packed([first, second], 0, 4) == [(2, 3), (0, 1)]
    assert packed([first, second, Claim(1, 4, before=4)], 0, 4) is None


def test_a_fourth_job_that_may_be_done_a_lease_later_gets_the_fifth() -> None:
    first, second = Claim(2, 4, before=4), Claim(2, 4, before=4)
    assert packed([first, second, Claim(1, 4, before=5)], 0, 4) == [(2, 3), (0, 1), (4,)]


def test_a_job_is_told_by_which_lease_it_could_be_done() -> None:
    assert soonest(Claim(1, 4, before=4), 0, 4, {0: 4, 1: 4, 2: 4, 3: 4}) == 5


def test_a_begun_lease_and_a_begun_last_one_count_for_nothing() -> None:
    assert claim_of(61.0, 599.0, 2, 60.0) == Claim(2, 2, before=9)
    assert claim_of(60.0, 600.0, 2, 60.0) == Claim(1, 2, before=10)
    assert first_lease(61.0, 60.0) == 2
    assert first_lease(60.0, 60.0) == 1


@given(
    st.lists(st.builds(Claim, st.integers(1, 4), st.integers(1, 4), st.integers(1, 9)), max_size=6)
)
def test_no_lease_has_more_gpus_than_there_are(claims: list[Claim]) -> None:
    owned = packed(claims, 1, 4)
    if owned is None:
        return
    used = dict.fromkeys(range(9), 0)
    for claim, leases in zip(claims, owned, strict=True):
        assert len(leases) == claim.leases
        for lease in leases:
            assert 1 <= lease < claim.before
            used[lease] += claim.gpus
    assert max(used.values()) <= 4


def test_the_smallest_allowance_is_that_of_who_can_wait_least() -> None:
    jobs = [(2, 3), (1, 10), (2, 4)]
    assert [waiting_allowance_s(deadline, 0, run) for run, deadline in jobs] == [1, 9, 2]


def test_a_job_gets_the_fewest_workers_that_are_on_time_else_the_fastest_there_are() -> None:
    run_s = {1: 100.0, 2: 60.0, 4: 40.0, 8: 45.0}
    assert workers(run_s, 8, due_in_s=70.0) == 2
    assert workers(run_s, 8, due_in_s=10.0) == 4
    assert workers(run_s, 2, due_in_s=10.0) == 2
    assert workers(run_s, 0, due_in_s=10.0) is None
