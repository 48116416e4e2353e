"""A job that its user has paused is nobody's business until it is resumed, under every policy."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dovetail.core.entries import (
    Finished,
    Held,
    Note,
    Preempt,
    Released,
    Start,
    Wake,
    Woke,
)
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
    """The jobs that are started now or, by a policy that decides in rounds, in its next one."""
    started, wakes = _decided(state, policies)
    if wakes and not started:
        state.record(Woke(min(wakes)))
        started, _ = _decided(state, policies)
    return started


def _decided(state: State, policies: Sequence[Policy]) -> tuple[list[str], list[float]]:
    started: list[str] = []
    wakes: list[float] = []
    for policy in policies:
        for action in list(policy.decide(state)):
            if isinstance(action, Wake):
                wakes.append(action.at)
            elif isinstance(action, Start | Preempt | Note):
                state.record(action)
            if isinstance(action, Start):
                started.append(action.job_id)
        state.settle()
    return started, wakes


@pytest.mark.parametrize("name", POLICIES)
def test_a_waiting_job_that_is_paused_is_passed_over_until_it_is_resumed(name: str) -> None:
    jobs = [lasting("1", 100, preemptible=False), lasting("2", 10), lasting("3", 10)]
    state, policy = live(*jobs, cluster=[Node("box", 1)]), make(name)
    start(state, "1", 1)
    list(policy.decide(state))
    state.settle()
    state.record(Held(3.0, JobId("2"), PAUSED))
    state.record(Finished(5.0, JobId("1")))
    assert decide(state, policy) == ["3"]
    state.record(Released(state.now + 1.0, JobId("2")))
    state.record(Finished(state.now + 1.0, JobId("3")))
    assert decide(state, policy) == ["2"]


@pytest.mark.parametrize("name", POLICIES)
def test_a_running_job_that_is_paused_leaves_its_gpus_for_good(name: str) -> None:
    jobs = [lasting("1", 100), lasting("2", 10, 2), lasting("3", 10)]
    state, policy = live(*jobs, cluster=[Node("box", 2)]), make(name)
    start(state, "1", 1)
    policies = (Housekeeping(), policy)
    decide(state, *policies)
    state.record(Held(state.now + 3.0, JobId("1"), PAUSED))
    decide(state, *policies)
    for _ in range(2):  # long after it should have ended
        state.record(Woke(state.now + 2000.0))
        decide(state, *policies)
    assert "1" not in state.running
    assert "2" in state.running or "3" in state.running
