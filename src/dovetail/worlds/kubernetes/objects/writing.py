"""Writes that may wait: the last one for each object counts, and so many a second are made at most."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.worlds.kubernetes.client import CONFLICT, NOT_FOUND, ApiError
from dovetail.worlds.kubernetes.leading import NotLeader

_TRY_AGAIN_S: Final = 5.0
_NEVER: Final = (NOT_FOUND, CONFLICT, 400, 403, 422)  # it is gone, or would be refused again

log = logging.getLogger("dovetail.kubernetes")

Write = Callable[[], None]


class SlowWriter:
    """`per_s` at most, after `burst` at once; of more than `most` that wait the oldest are dropped."""

    def __init__(self, name: str, per_s: float, burst: int, most: int) -> None:
        self._per_s: Final = per_s
        self._burst: Final = burst
        self._most: Final = most
        self._urgent: deque[str] = deque()
        self._others: deque[str] = deque()
        self._writes: dict[str, Write] = {}
        self._wake: Final = threading.Condition()
        self._is_over = False
        self.dropped = 0
        self._thread: Final = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._wake:
            self._is_over = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def put(self, key: str, write: Write, is_urgent: bool = False) -> None:
        """From any thread."""
        with self._wake:
            is_new = key not in self._writes
            self._writes[key] = write
            if is_new or is_urgent:
                (self._urgent if is_urgent else self._others).append(key)
            while len(self._writes) > self._most:
                self._drop_oldest()
            self._wake.notify()

    def _drop_oldest(self) -> None:
        line = self._others or self._urgent
        if self._writes.pop(line.popleft(), None) is not None:
            self.dropped += 1

    def _next(self) -> tuple[str, Write] | None:
        with self._wake:
            while True:
                line = self._urgent or self._others
                if self._is_over:
                    return None
                if not line:
                    self._wake.wait()
                elif (write := self._writes.pop(key := line.popleft(), None)) is not None:
                    return key, write

    def _work(self) -> None:
        left, as_of = float(self._burst), monotonic()
        while (found := self._next()) is not None:
            now = monotonic()
            left, as_of = min(left + (now - as_of) * self._per_s, self._burst), now
            if left < 1.0 and self._rests((1.0 - left) / self._per_s):
                return
            left -= 1.0
            self._try(*found)

    def _rests(self, seconds: float) -> bool:
        """Is it over meanwhile?"""
        with self._wake:
            return self._wake.wait_for(lambda: self._is_over, seconds)

    def _try(self, key: str, write: Write) -> None:
        try:
            write()
        except NotLeader:
            return
        except ApiError as error:
            log.warning("%s is not written: %s", key, error)
            if error.code not in _NEVER:
                self._again(key, write)
        except (DovetailError, OSError) as error:
            log.warning("%s is not written for now: %s", key, error)
            self._again(key, write)

    def _again(self, key: str, write: Write) -> None:
        """Unless there is a newer one by then."""
        if not self._rests(_TRY_AGAIN_S):
            with self._wake:
                if key not in self._writes:
                    self._writes[key] = write
                    self._others.append(key)
