"""Many independent tasks, given to whatever can carry them: this process, others, or other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

Map: TypeAlias = Callable[
    ..., Iterable[Any]
]  # the builtin, or that of a concurrent.futures executor
Progress: TypeAlias = Callable[[int, int], object]  # hears how many tasks are done, of how many


@dataclass
class Crew:
    """Tasks are functions of a module and their arguments plain values, so that they can travel."""

    map: Map
    progress: Progress | None
    planned: int  # tasks in all, over every call of `each`
    done: int = 0

    def each(self, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """What the task gives for each, in order."""
        results = []
        for result in self.map(task, items):
            results.append(result)
            self.done += 1
            if self.progress is not None:
                self.progress(min(self.done, self.planned), self.planned)
        return results
