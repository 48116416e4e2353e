"""Keeps a row of every job that ends, in the transaction of the entry that ended it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from dovetail.app.daemon.clock import Clock
from dovetail.app.daemon.rows import row_of
from dovetail.backends.store import Ended, Store
from dovetail.core.track import Track
from dovetail.core.view import ENDS, View


class Ledger:
    """An index of the state: told of every end."""

    def __init__(self, store: Store, clock: Clock, on_end: Callable[[Track], None]) -> None:
        self.watches = ENDS
        self._store: Final = store
        self._clock: Final = clock
        self._on_end: Final = on_end

    def build(self, view: View) -> Ledger:
        return self

    def waits(self, track: Track) -> None:
        """Only ends are kept."""

    def runs(self, track: Track) -> None:
        """Only ends are kept."""

    def settle(self) -> None:
        """Nothing is ever tried out."""

    def ends(self, track: Track) -> None:
        job, at = track.job, self._clock.unix(track.ended_at)
        row = json.dumps(row_of(track, self._clock))
        # The entry that ends it is added to the journal right after this.
        seq = self._store.last_seq + 1
        self._store.add_ended(Ended(job.id, seq, at, job.user, job.name, row))
        self._on_end(track)
