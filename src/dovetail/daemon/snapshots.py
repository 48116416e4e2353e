"""Snapshots without stopping the loop.

Each is taken in a process of its own, of a state that follows the journal as it is on disk; a thread
waits for it, and the loop only writes it down when it is ready. So a snapshot never says more than the
journal does, and a kill at any moment leaves either the last one or this one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from threading import Thread
from typing import Any, Final

from dovetail.core.entries import Event
from dovetail.core.model import Seconds
from dovetail.core.view import View
from dovetail.daemon.history.account_process import AccountProcess
from dovetail.daemon.history.running_costs import KeptCosts
from dovetail.store import Store

log = logging.getLogger("dovetail.daemon")

Request = Callable[[View, Seconds], tuple[Sequence[Event], None]]


class Snapshots:
    """One every so many entries. All but the taking happens on the thread of the loop."""

    def __init__(
        self, store: Store, account: AccountProcess, ask: Callable[[Request], Any], every: int
    ) -> None:
        self._store: Final = store
        self._account: Final = account
        self._ask: Final = ask
        self._every: Final = every
        self._seq = store.last_seq  # up to which none is wanted
        self._thread: Thread | None = None

    def look(self) -> None:
        """Begin the next snapshot if it is due. All recorded entries have been committed."""
        if self._thread is None and self._store.last_seq - self._seq >= self._every:
            self._thread = Thread(target=self._take_aside, name="snapshot", daemon=True)
            self._thread.start()

    def take_the_last(self) -> None:
        """When the loop is over."""
        if self._thread is not None:
            self._thread.join()
        self._store.commit()
        kept = self._taken(self._account.last_snapshot)
        if kept is not None and self._save(kept):
            self._store.shorten_tail()

    def _take_aside(self) -> None:
        kept = self._taken(self._account.snapshot)
        self._ask(partial(self._saved, kept))

    @staticmethod
    def _taken(take: Callable[[], KeptCosts]) -> KeptCosts | None:
        try:
            return take()
        except Exception:  # the next start reads more entries, and nothing is lost
            log.exception("no snapshot could be taken")
            return None

    def _saved(
        self, kept: KeptCosts | None, view: View, now: Seconds
    ) -> tuple[Sequence[Event], None]:
        self._thread = None
        if kept is None or not self._save(kept):
            self._seq = self._store.last_seq  # not again at once
        else:
            self._ask(self._shortened)  # after whoever has asked meanwhile
        return (), None

    def _shortened(self, view: View, now: Seconds) -> tuple[Sequence[Event], None]:
        self._store.shorten_tail()
        return (), None

    def _save(self, kept: KeptCosts) -> bool:
        self._store.set_meta(kept.key, kept.value)
        saved = self._store.save_snapshot(kept.seq, kept.text)
        if saved:
            self._seq = kept.seq
        return saved
