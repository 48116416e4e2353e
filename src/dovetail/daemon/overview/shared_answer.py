"""An answer that is made for all who ask, and so seldom that making it is a small part of the time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic, thread_time
from typing import Final, Generic, TypeVar, final

Told = TypeVar("Told")
_TIMES_AS_LONG = 60.0


@final
class SharedAnswer(Generic[Told]):
    def __init__(self, at_least_s: float, still_s: float) -> None:
        """`still_s`: how long it is good while nothing has happened."""
        self._at_least_s: Final = at_least_s
        self._still_s: Final = still_s
        self._lock: Final = Lock()
        self._made: Told | None = None
        self._at = 0.0
        self._seq = -1
        self._fresh_s = at_least_s

    def told(self, make: Callable[[], Told], seq: int) -> Told:
        """`seq`: of the last entry there is. Who finds that another makes one takes the last."""
        if not self._will_do(seq) and self._lock.acquire(blocking=self._made is None):
            try:
                if not self._will_do(seq):
                    self._renew(make, seq)
            finally:
                self._lock.release()
        made = self._made
        assert made is not None
        return made

    def _will_do(self, seq: int) -> bool:
        fresh_s = self._fresh_s if seq != self._seq else max(self._fresh_s, self._still_s)
        return self._made is not None and monotonic() - self._at < fresh_s

    def _renew(self, make: Callable[[], Told], seq: int) -> None:
        began = thread_time()
        self._made = make()
        self._seq, self._at = seq, monotonic()
        self._fresh_s = max(self._at_least_s, _TIMES_AS_LONG * (thread_time() - began))
