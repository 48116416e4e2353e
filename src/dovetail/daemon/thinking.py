"""A solver thinks beside the loop, never in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final

from dovetail.core.entries import Action, Note
from dovetail.core.model import Seconds
from dovetail.core.view import View
from dovetail.policies.solving import SolverAnswer, Solving


class _Thought:
    """One problem, on a thread of its own."""

    def __init__(
        self, policy: Solving, problem: Any, at: Seconds, wake: Callable[[], object]
    ) -> None:
        self.posed_at: Final = at
        self.took_s: Seconds = 0.0
        self.solution: SolverAnswer | None = None
        self.trouble: Exception | None = None
        self._wake: Final = wake
        self._work = (policy, problem)
        threading.Thread(target=self._think, name="solver", daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self.solution is not None or self.trouble is not None

    def _think(self) -> None:
        policy, problem = self._work
        began = perf_counter()
        try:
            found = policy.solve(problem)
            self.took_s = perf_counter() - began
            self.solution = found
        except Exception as error:
            self.trouble = error
        self._wake()


class ThinkingBeside:
    """Asks a policy as the loop would, but lets its solver think meanwhile: nothing is decided until the
    answer is there, and running jobs stay as they are. `wake` has the loop ask again."""

    def __init__(self, policy: Solving, name: str, wake: Callable[[], object]) -> None:
        self._policy: Final = policy
        self._name: Final = name
        self._wake: Final = wake
        self._thought: _Thought | None = None

    def decide(self, view: View) -> Sequence[Action]:
        thought = self._thought
        if thought is None:
            return self._begin(view)
        if not thought.is_over:
            return ()
        self._thought = None
        if thought.trouble is not None:
            raise thought.trouble
        return self._used(view, thought)

    def _begin(self, view: View) -> Sequence[Action]:
        due, notes = self._policy.turn(view)
        if not due:
            return notes
        problem = self._policy.pose(view)
        if problem is None:
            return [*self._policy.use(view, None), *notes]
        self._thought = _Thought(self._policy, problem, view.now, self._wake)
        return notes

    def _used(self, view: View, thought: _Thought) -> Sequence[Action]:
        solution = thought.solution
        assert solution is not None
        told = {
            "posed_at": thought.posed_at,
            "seconds": round(thought.took_s, 6),
            "gap": solution.gap,
            "out_of_time": solution.out_of_time,
        }
        actions = self._policy.use(view, solution.answer)
        return [*actions, Note(f"{self._name}:solved", told)]
