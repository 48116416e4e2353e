"""Policies whose decisions are the answers of a solver, which may think for a second.

Simulated they pose, solve and use in one go (`solved_at_once`). A daemon lets the solver think beside
its loop (`daemon.thinking`): what jobs do meanwhile is recorded, and the answer is used on what is
still true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from dovetail.core.entries import Action
from dovetail.core.view import View
from dovetail.policies.rounds import Turn


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """An answer, how far off the best it may be (as a part; None: unknown), and whether time was up."""

    answer: Any
    gap: float | None = None
    out_of_time: bool = False


@runtime_checkable
class Solving(Protocol):
    """What such a policy has beside `decide`."""

    def turn(self, view: View) -> Turn:
        """Whether it is time to solve, and what is said in any case."""

    def pose(self, view: View) -> Any:
        """What is to be solved now, as plain data that nobody changes; None: nothing."""

    def solve(self, problem: Any) -> SolverAnswer:
        """Looks at the problem alone, on any thread."""

    def use(self, view: View, answer: Any) -> Sequence[Action]:
        """What the answer says, as far as it is still possible; None: nothing was to be solved."""


def solved_at_once(policy: Solving, view: View) -> Sequence[Action]:
    due, notes = policy.turn(view)
    if not due:
        return notes
    problem = policy.pose(view)
    answer = None if problem is None else policy.solve(problem).answer
    return [*policy.use(view, answer), *notes]
