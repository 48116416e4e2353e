"""Jobs in terminals: they end when nobody has looked for as long as told, or may look any more."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Final

from dovetail.core.entries import Cancelled, Event
from dovetail.core.model import JobId, Seconds
from dovetail.core.view import View
from dovetail.daemon.asking import Parts
from dovetail.text.durations import duration_text

_META = "terminals"  # by job: how many seconds it lingers


class Terminals:
    """`open` and `close` on the loop's thread; who looks, from any."""

    def __init__(self, parts: Parts) -> None:
        self._parts: Final = parts
        self._lock: Final = threading.Lock()
        self._lingers: Final[dict[str, Seconds]] = json.loads(parts.store.meta(_META) or "{}")
        self._looking: Final[Counter[str]] = Counter()
        # Who looked when an earlier daemon died has as long to come back as anybody.
        self._left_at: Final = dict.fromkeys(self._lingers, monotonic())

    def open(self, job_id: str, linger_s: Seconds) -> None:
        with self._lock:
            self._lingers[job_id], self._left_at[job_id] = linger_s, monotonic()
            self._keep()

    def close(self, job_id: str) -> None:
        with self._lock:
            self._left_at.pop(job_id, None)
            if self._lingers.pop(job_id, None) is not None:
                self._keep()

    def _keep(self) -> None:
        self._parts.store.set_meta(_META, json.dumps(self._lingers))

    @contextmanager
    def looking(self, job_id: str) -> Iterator[None]:
        """Somebody looks at it as long as this lasts."""
        with self._lock:
            self._looking[job_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._looking[job_id] -= 1
                if not self._looking[job_id]:
                    del self._looking[job_id]
                if job_id in self._left_at:
                    self._left_at[job_id] = monotonic()

    def tend(self, why_not_any_more: Callable[[str], str]) -> None:
        """Ends those whose time has come. `why_not_any_more` says of a job why its user may not have
        it any more; "" as a rule."""
        with self._lock:
            every = list(self._lingers)
        over = {own: why for own in every if (why := self._why_over(own) or why_not_any_more(own))}
        if over:
            self._parts.desk.ask(lambda view, now: (_ended(over, view, now), None))

    def _why_over(self, job_id: str) -> str:
        with self._lock:
            linger_s, left_at = self._lingers.get(job_id), self._left_at.get(job_id)
            if linger_s is None or left_at is None or self._looking[job_id]:
                return ""
        if monotonic() - left_at < linger_s:
            return ""
        return f"its terminal was gone for {duration_text(linger_s)}"


def _ended(over: Mapping[str, str], view: View, now: Seconds) -> list[Event]:
    return [Cancelled(now, JobId(own), why) for own, why in over.items() if own in view.tracks]
