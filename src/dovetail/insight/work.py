"""Many independent tasks, run by this process, by other processes, or on other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

Map: TypeAlias = Callable[
    ..., Iterable[Any]
]  # the builtin, or that of a concurrent.futures executor
# called with the number of tasks done and of all tasks
Progress: TypeAlias = Callable[[int, int], object]


@dataclass
class Crew:
    """Tasks are functions of a module and their arguments plain values, so that they can be pickled."""

    map: Map
    progress: Progress | None
    planned: int  # tasks, over every call of `each`
    done: int = 0

    def each(self, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The task's result for each argument, in order."""
        results = []
        for result in self.map(task, items):
            results.append(result)
            self.done += 1
            if self.progress is not None:
                self.progress(min(self.done, self.planned), self.planned)
        return results
