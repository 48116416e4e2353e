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
from typing import Any, Final, TypeVar

from dovetail.core.entries import Event
from dovetail.core.model import Seconds
from dovetail.core.view import View
from dovetail.daemon.history.account_process import AccountProcess
from dovetail.daemon.history.running_costs import KeptCosts
from dovetail.store import JournalReader, PreparedTail, Store

log = logging.getLogger("dovetail.daemon")

Made = TypeVar("Made")
Request = Callable[[View, Seconds], tuple[Sequence[Event], None]]


class Snapshots:
    """One every so many entries. All but the taking happens on the thread of the loop."""

    def __init__(
        self,
        store: Store,
        reader: JournalReader,
        account: AccountProcess,
        ask: Callable[[Request], Any],
        every: int,
    ) -> None:
        self._store: Final = store
        self._reader: Final = reader
        self._account: Final = account
        self._ask: Final = ask
        self._every: Final = every
        self._seq = store.last_seq  # up to which none is wanted
        self._thread: Thread | None = None

    def look(self) -> None:
        """Begin the next snapshot if it is due. All recorded entries have been committed."""
        if self._thread is None and self._store.last_seq - self._seq >= self._every:
            self._do_aside(self._take_aside)

    def _do_aside(self, task: Callable[[], None]) -> None:
        self._thread = Thread(target=task, name="snapshot", daemon=True)
        self._thread.start()

    def take_the_last(self) -> None:
        """When the loop is over."""
        if self._thread is not None:
            self._thread.join()
        self._store.commit()
        kept = self._tried(self._account.last_snapshot)
        if kept is not None and self._save(kept):
            self._store.shorten_tail()

    def _take_aside(self) -> None:
        kept = self._tried(self._account.snapshot)
        self._ask(partial(self._saved, kept))

    def _follow_up_aside(self, has_long_tail: bool) -> None:
        """What the snapshot has added to SQLite's log is moved; a long tail is shortened."""
        if not has_long_tail:
            self._tried(self._reader.move_log)
        prepared = self._tried(self._account.prepared_tail) if has_long_tail else None
        self._ask(partial(self._followed_up, prepared))

    @staticmethod
    def _tried(task: Callable[[], Made | None]) -> Made | None:
        try:
            return task()
        except Exception:  # the next start reads more, and nothing is lost
            log.exception("no snapshot could be taken, or what follows from it")
            return None

    def _saved(
        self, kept: KeptCosts | None, view: View, now: Seconds
    ) -> tuple[Sequence[Event], None]:
        self._thread = None
        self._store.let_others_move_its_log(True)
        if kept is None or not self._save(kept):
            self._seq = self._store.last_seq  # not again at once
            self._store.let_others_move_its_log(False)
        else:
            self._do_aside(partial(self._follow_up_aside, self._store.has_long_tail))
        return (), None

    def _followed_up(
        self, prepared: PreparedTail | None, view: View, now: Seconds
    ) -> tuple[Sequence[Event], None]:
        self._thread = None
        self._store.let_others_move_its_log(False)
        if prepared is not None:
            self._store.go_on_in(prepared)
        return (), None

    def _save(self, kept: KeptCosts) -> bool:
        self._store.set_meta(kept.key, kept.value)
        saved = self._store.save_snapshot(kept.seq, kept.text)
        if saved:
            self._seq = kept.seq
        return saved
