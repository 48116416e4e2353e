"""A job that its user has paused is nobody's business until it is resumed, under every policy."""

from __future__ import annotations

import pytest

from dovetail.core.entries import Finished, Held, Preempt, Released, Start, Woke
from dovetail.core.loop import Policy
from dovetail.core.model import JobId, Node
from dovetail.core.state import State
from dovetail.daemon.active_policy import make
from dovetail.policies.housekeeping import Housekeeping
from dovetail.policies.registry import BUILTIN
from live_state import lasting, live, start

PAUSED = "paused by its user"
POLICIES = [name if name != "gandiva" else "gandiva:pack=false" for name in sorted(BUILTIN)]


def decide(state: State, *policies: Policy) -> list[str]:
    """One turn; the jobs that were started in it."""
    started: list[str] = []
    for policy in policies:
        for action in list(policy.decide(state)):
            if isinstance(action, Start | Preempt):
                state.record(action)
            if isinstance(action, Start):
                started.append(action.job_id)
        state.settle()
    return started


@pytest.mark.parametrize("name", POLICIES)
def test_a_waiting_job_that_is_paused_is_passed_over_until_it_is_resumed(name: str) -> None:
    jobs = [lasting("1", 100, preemptible=False), lasting("2", 10), lasting("3", 10)]
    state, policy = live(*jobs, cluster=[Node("box", 1)]), make(name)
    start(state, "1", 1)
    decide(state, policy)
    state.record(Held(3.0, JobId("2"), PAUSED))
    state.record(Finished(5.0, JobId("1")))
    assert decide(state, policy) == ["3"]
    state.record(Released(6.0, JobId("2")))
    state.record(Finished(7.0, JobId("3")))
    assert decide(state, policy) == ["2"]


@pytest.mark.parametrize("name", POLICIES)
def test_a_running_job_that_is_paused_leaves_its_gpus_for_good(name: str) -> None:
    jobs = [lasting("1", 100), lasting("2", 10, 2), lasting("3", 10)]
    state, policy = live(*jobs, cluster=[Node("box", 2)]), make(name)
    start(state, "1", 1)
    policies = (Housekeeping(), policy)
    decide(state, *policies)
    state.record(Held(3.0, JobId("1"), PAUSED))
    decide(state, *policies)
    for at in (200.0, 5000.0):  # long after it should have ended
        state.record(Woke(at))
        decide(state, *policies)
    assert "1" not in state.running
    assert "2" in state.running or "3" in state.running
