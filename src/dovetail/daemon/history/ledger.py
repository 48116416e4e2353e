"""Keeps a row of every job that ends, in the transaction of the entry that ended it, and until then
after how long each of its attempts failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from dovetail.api.wire import text_of
from dovetail.core.model import Seconds
from dovetail.core.track import Track
from dovetail.core.view import ENDS, WAITS, View
from dovetail.daemon.clock import Clock
from dovetail.daemon.history.job_rows import row_of
from dovetail.store import EndedJob, Store


def _key(track: Track) -> str:
    return f"failures of {track.job.id}"


class Ledger:
    """An index of the state: told of every end."""

    def __init__(self, store: Store, clock: Clock, on_end: Callable[[Track], None]) -> None:
        self.watches = WAITS | ENDS
        self._failed: Final[dict[str, list[Seconds]]] = {}
        self._store: Final = store
        self._clock: Final = clock
        self._on_end: Final = on_end

    def build(self, view: View) -> Ledger:
        return self

    def waits(self, track: Track) -> None:
        """An attempt may have failed, and the next one is to come."""
        if track.attempts:
            failed = self._failures(track)
            if len(failed) > len(self._failed.get(track.job.id, ())):
                self._failed[track.job.id] = failed
                self._store.set_meta(_key(track), json.dumps(failed))

    def _failures(self, track: Track) -> list[Seconds]:
        """After how long each attempt died, also one that we were not told of in time."""
        known = self._failed.get(track.job.id)
        if known is None:
            known = json.loads(self._store.meta(_key(track)) or "[]")
        new = track.attempts - len(known)
        if new <= 0:
            return known
        return [*known, *[0.0] * (new - 1), max(track.held_s - sum(known), 0.0)]

    def runs(self, track: Track) -> None:
        """Only ends are kept."""

    def settle(self) -> None:
        """Nothing is ever tried out."""

    def ends(self, track: Track) -> None:
        job, at = track.job, self._clock.unix(track.ended_at)
        told = row_of(track, self._clock)
        if track.attempts:
            told.failures = self._failures(track)
            self._failed.pop(job.id, None)
        # The entry that ends it is added to the journal right after this.
        seq = self._store.last_seq + 1
        self._store.add_ended(EndedJob(job.id, seq, at, job.user, job.name, text_of(told)))
        self._on_end(track)
