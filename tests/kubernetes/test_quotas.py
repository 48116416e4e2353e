"""A namespace that has used up its quota keeps its jobs waiting, and nobody else's."""

from __future__ import annotations

from dovetail.core.entries import Displaced, Held, Released, Started, Submitted
from dovetail.core.model import Job, JobId
from dovetail.core.state import State
from dovetail.worlds.kubernetes.client import ApiError
from dovetail.worlds.kubernetes.quotas import Quotas, QuotaSeen, is_over_quota

REFUSAL = 'pods "dt-1" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2'
ONE, TWO = JobId("1"), JobId("2")
QUOTA = {"metadata": {"namespace": "team-a", "name": "small"}}


def refused(quotas: Quotas, state: State, *ids: JobId) -> None:
    for job_id in ids:
        quotas.refused(job_id, "team-a", REFUSAL)
        for event in quotas.with_holds([Displaced(state.now, job_id, REFUSAL)]):
            if isinstance(event, Held):
                state.record(event)


def waiting(*jobs: Job) -> State:
    state = State()
    for job in jobs:
        state.record(Submitted(0.0, job))
    return state


def test_only_a_used_up_quota_is_taken_for_one() -> None:
    assert is_over_quota(ApiError(403, REFUSAL, "Forbidden"))
    assert not is_over_quota(ApiError(403, "pods is forbidden: User cannot create", "Forbidden"))
    assert not is_over_quota(ApiError(422, "exceeded quota", "Invalid"))


def test_a_refused_job_waits_outside_the_line_and_says_which_quota_it_is() -> None:
    quotas, state = Quotas(lambda fact: None), waiting(Job(ONE, gpus=1))
    refused(quotas, state, ONE)
    assert state.tracks[ONE].held == (
        "held by a limit: the quota of namespace team-a is used up: "
        "exceeded quota: small, requested: pods=1, used: pods=2"
    )
    assert state.tracks[ONE].barred


def test_a_job_that_lost_its_gpus_for_another_reason_stays_in_line() -> None:
    displaced = Displaced(1.0, ONE, "its node is full")
    assert Quotas(lambda fact: None).with_holds([displaced]) == [displaced]


def test_a_change_of_the_quota_lets_one_go_and_its_start_the_next() -> None:
    seen: list[object] = []
    quotas = Quotas(seen.append)
    state = waiting(Job(ONE, gpus=1), Job(TWO, gpus=1, priority=5.0))
    refused(quotas, state, ONE, TWO)
    quotas.changed(QUOTA, False)
    assert seen == [QuotaSeen("team-a")]
    (first,) = quotas.released(QuotaSeen("team-a"), state, 1.0)
    assert first == Released(1.0, TWO)  # the one of higher priority
    state.record(Released(1.0, TWO))
    quotas.with_holds([Started(2.0, TWO)])
    assert seen == [QuotaSeen("team-a")] * 2
    assert quotas.released(QuotaSeen("team-a"), state, 3.0) == [Released(3.0, ONE)]


def test_quotas_of_namespaces_that_wait_for_none_wake_nobody() -> None:
    seen: list[object] = []
    Quotas(seen.append).changed(QUOTA, False)
    assert seen == []


def test_after_a_restart_those_that_wait_are_known() -> None:
    state = waiting(Job(ONE, gpus=1))
    refused(Quotas(lambda fact: None), state, ONE)
    seen: list[object] = []
    later = Quotas(seen.append)
    later.recall(state)
    later.listed([QUOTA], 0.0)
    assert later.released(QuotaSeen("team-a"), state, 9.0) == [Released(9.0, ONE)]
