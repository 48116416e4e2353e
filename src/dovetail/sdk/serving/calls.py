"""Requests that wait for a batch: whoever must be answered first stands first."""

from __future__ import annotations

from bisect import insort
from threading import Condition, Event
from typing import Any, Final

from dovetail.sdk.batching import Step


class Unanswered(Exception):
    """There is no result; `status` and the words are what the client gets."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(told)
        self.status = status


class WaitingCall:
    """One request. `at` is when it came to the service, `deadline` when its answer is due."""

    def __init__(self, item: Any, at: float, deadline: float) -> None:
        self.item: Final = item
        self.at: Final = at
        self.deadline: Final = deadline
        self._result: Any = None
        self._error: Unanswered | None = None
        self._done: Final = Event()

    def answer(self, result: Any) -> None:
        self._result = result
        self._done.set()

    def fail(self, error: Unanswered) -> None:
        self._error = error
        self._done.set()

    def result(self) -> Any:
        """Waits for it."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result


class CallLine:
    """Shared by the threads that read requests and the one that makes batches."""

    def __init__(self, most: int) -> None:
        self.calls: Final[list[WaitingCall]] = []
        self.changed: Final = Condition()
        self.is_closed = False
        self._most: Final = most

    def add(self, call: WaitingCall) -> None:
        with self.changed:
            if self.is_closed:
                raise Unanswered(503, "the server is being stopped; try again in 1 s")
            if len(self.calls) >= self._most:
                raise Unanswered(503, f"{self._most} requests wait already; try again in 1 s")
            insort(self.calls, call, key=lambda own: own.deadline)
            self.changed.notify()

    def close(self) -> None:
        """No more come; those that wait are answered."""
        with self.changed:
            self.is_closed = True
            self.changed.notify()

    def taken(self, step: Step) -> tuple[list[WaitingCall], list[WaitingCall]]:
        """Those that are given up, and the batch."""
        end = step.drop + step.take
        dropped, batch = self.calls[: step.drop], self.calls[step.drop : end]
        del self.calls[:end]
        return dropped, batch
