"""Answers that are given again to who asks the same (Clipper's prediction cache)."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, Final


class KeptAnswers:
    """To the last inputs, so many; the one not asked for longest goes. From any thread."""

    def __init__(self, most: int) -> None:
        self._most: Final = int(most)
        self._answers: Final[OrderedDict[Any, Any]] = OrderedDict()
        self._lock: Final = Lock()

    def get(self, asked: Any) -> Any:
        """None: it is not known."""
        with self._lock:
            if asked not in self._answers:
                return None
            self._answers.move_to_end(asked)
            return self._answers[asked]

    def keep(self, asked: Any, answer: Any) -> None:
        with self._lock:
            self._answers[asked] = answer
            self._answers.move_to_end(asked)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)
