"""How anybody changes or reads the state: on the thread of the loop, and answered once it is on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from typing import Final, TypeVar

from dovetail.core.entries import Event
from dovetail.core.model import Seconds
from dovetail.core.view import IndexSpec, View
from dovetail.daemon.active_policy import Chosen
from dovetail.daemon.clock import Clock
from dovetail.daemon.desk import Desk
from dovetail.daemon.notices import Notices
from dovetail.daemon.refusals import DiskFull, Unavailable
from dovetail.daemon.submissions import Book
from dovetail.daemon.users.limits import Limits
from dovetail.store import JournalReader, Store
from dovetail.worlds.shortage import is_short
from dovetail.worlds.world import World

ANSWER_WITHIN_S = 60.0

Answer = TypeVar("Answer")
Change = Callable[[View, Seconds], tuple[Sequence[Event], Answer]]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the daemon that the service uses."""

    world: World
    desk: Desk
    store: Store
    reader: JournalReader
    book: Book
    chosen: Chosen
    clock: Clock
    limits: Limits
    notices: Notices
    lasting: Sequence[IndexSpec]  # indexes that stay whatever policy decides


@dataclass(frozen=True, slots=True)
class Once:
    """A change that is made once: the journal keeps the text, JSON with its `ids`, under the key."""

    key: str
    text: Callable[[list[str]], str]


class Asking:
    """Called from any thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts: Final = parts

    def change(self, change: Change[Answer]) -> Answer:
        if self._parts.store.is_full:
            raise self._disk_full()
        try:
            return self._ask(self._all_or_nothing(change))
        except OSError as error:
            if error.errno in (ENOSPC, EDQUOT):
                raise self._disk_full() from None
            if is_short(error):
                raise Unavailable(f"the daemon lacks resources: {error}; try again") from None
            raise

    def look(self, look: Callable[[View, Seconds], Answer]) -> Answer:
        """Reads the state: be brief, the loop waits."""
        return self._ask(lambda view, now: ((), look(view, now)))

    def _ask(self, change: Change[Answer]) -> Answer:
        try:
            answer: Answer = self._parts.desk.ask(change).result(ANSWER_WITHIN_S)
        except TooLate:
            raise Unavailable("the daemon is busy or cannot write its journal; try again") from None
        return answer

    def _all_or_nothing(self, change: Change[Answer]) -> Change[Answer]:
        """Files of new jobs that it wrote before it failed are removed: nobody will be told of them."""

        def careful(view: View, now: Seconds) -> tuple[Sequence[Event], Answer]:
            try:
                return change(view, now)
            except BaseException:
                self._parts.book.drop_unsettled()
                raise

        return careful

    def _disk_full(self) -> DiskFull:
        return DiskFull(
            f"the disk of {self._parts.store.path.parent} is full: no job is accepted until there is "
            "room again; running jobs go on"
        )

    def once(self, change: Change[list[str]], once: Once | None) -> Change[list[str]]:
        """The change, unless it was made before: who was not answered in time may ask again."""
        if once is None:
            return change

        def careful(view: View, now: Seconds) -> tuple[Sequence[Event], list[str]]:
            known = self._parts.store.meta(once.key)
            if known is not None:
                return (), json.loads(known)["ids"]
            events, ids = change(view, now)
            self._parts.store.set_meta(once.key, once.text(ids))
            return events, ids

        return careful

    def keep_meta(self, key: str, value: str, forget: Iterable[str] = ()) -> None:
        """Something to remember beside the jobs, and the keys it takes the place of."""

        def change(view: View, now: Seconds) -> tuple[list[Event], None]:
            self._parts.store.set_meta(key, value)
            for old in forget:
                self._parts.store.forget("meta", old)
            return [], None

        self.change(change)

    def forget_meta(self, key: str) -> None:
        def change(view: View, now: Seconds) -> tuple[list[Event], None]:
            self._parts.store.forget("meta", key)
            return [], None

        self.change(change)

    def meta_after(self, key: str, prefix: str) -> str | None:
        """The value of the next key with that prefix."""
        return self._parts.reader.meta_after(key, prefix)

    @property
    def clock(self) -> Clock:
        return self._parts.clock

    @property
    def reader(self) -> JournalReader:
        return self._parts.reader

    @property
    def chosen(self) -> Chosen:
        return self._parts.chosen
