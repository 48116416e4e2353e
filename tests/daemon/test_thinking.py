"""While a solver thinks, events are recorded; its answer is used on what is still true."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from dovetail.core.entries import Action, Finished, NodeJoined, Note, Start, Started, Submitted
from dovetail.core.model import JobId, Node
from dovetail.core.state import State
from dovetail.core.view import View
from dovetail.daemon.thinking import ThinkingBeside
from dovetail.policies.rounds import Turn
from dovetail.policies.solving import SolverAnswer, Solving, solved_at_once
from dovetail.testing import job, placement
from waiting import until


@dataclass(frozen=True)
class Ponderous:
    """Starts the jobs that were there when it began to think, once it may go on."""

    go: threading.Event = field(default_factory=threading.Event)
    fails: bool = False

    def turn(self, view: View) -> Turn:
        return Turn(True, [])

    def pose(self, view: View) -> Any:
        return tuple(id for id, track in view.tracks.items() if track.waiting) or None

    def solve(self, problem: Any) -> SolverAnswer:
        assert self.go.wait(20)
        if self.fails:
            raise ValueError("no solution")
        return SolverAnswer(problem, gap=0.25, out_of_time=True)

    def use(self, view: View, answer: Any) -> Sequence[Action]:
        still = [job_id for job_id in answer or () if job_id in view.tracks]
        return [Start(job_id, placement((0, 1 << i))) for i, job_id in enumerate(still)]

    def decide(self, view: View) -> Iterable[Action]:
        return solved_at_once(self, view)


def cluster(*jobs: str) -> State:
    state = State()
    state.record(NodeJoined(0.0, Node("n", 4)))
    for name in jobs:
        state.record(Submitted(1.0, job(name)))
    return state


def test_the_loop_goes_on_while_a_solver_thinks() -> None:
    policy, woken, state = Ponderous(), threading.Event(), cluster("a", "b")
    assert isinstance(policy, Solving)
    beside = ThinkingBeside(policy, "ponderous", woken.set)
    assert list(beside.decide(state)) == []
    state.record(Submitted(2.0, job("late")))
    state.record(Start(JobId("b"), placement((0, 8))))
    state.record(Started(2.0, JobId("b")))
    state.record(Finished(3.0, JobId("b")))
    assert list(beside.decide(state)) == []
    policy.go.set()
    assert woken.wait(20)
    start, note = beside.decide(state)
    assert isinstance(start, Start)
    assert start.job_id == "a", "b has ended, and late is for the next round"
    assert isinstance(note, Note)
    assert note.key == "ponderous:solved"
    assert (note.value["gap"], note.value["out_of_time"], note.value["posed_at"]) == (
        0.25,
        True,
        1.0,
    )
    assert note.value["seconds"] > 0


def test_nothing_to_solve_needs_no_thread() -> None:
    beside = ThinkingBeside(Ponderous(), "ponderous", lambda: None)
    assert list(beside.decide(cluster())) == []
    assert not [thread for thread in threading.enumerate() if thread.name == "solver"]


def test_a_solver_that_fails_is_a_policy_that_fails() -> None:
    policy = Ponderous(fails=True)
    beside = ThinkingBeside(policy, "ponderous", lambda: None)
    beside.decide(cluster("a"))
    policy.go.set()
    until(lambda: not [own for own in threading.enumerate() if own.name == "solver"])
    with pytest.raises(ValueError, match="no solution"):
        beside.decide(cluster("a"))


def test_simulated_it_decides_at_once() -> None:
    policy = Ponderous()
    policy.go.set()
    assert [action.job_id for action in policy.decide(cluster("a", "b"))] == ["a", "b"]  # type: ignore[union-attr]
