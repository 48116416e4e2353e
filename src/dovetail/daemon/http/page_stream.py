"""What has changed, to every open page as one stream of server-sent events.

There is one text for all who may see the same, and one clock for all streams: an update comes from
the loop at most four times a second, however much happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from dovetail.api.page_row import PageUpdate
from dovetail.api.wire import text_of
from dovetail.daemon.desk import Desk
from dovetail.daemon.http.visibility import row_for
from dovetail.daemon.page_changes import PageChanges
from dovetail.daemon.users.callers import Caller

_HEARTBEAT_EVERY_S = 15.0
_WATCHED_AFTER_S = 60.0  # the last page has gone: it may be loaded anew


class PageStreams:
    """The open streams of pages. They live on the thread of the API; the loop of the daemon hands
    news over to it."""

    def __init__(self, changes: PageChanges, desk: Desk) -> None:
        self._changes: Final = changes
        self._desk: Final = desk
        self._open = 0
        self._news: asyncio.Future[None] | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._texts: dict[tuple[int, str], str] = {}
        self._joined = False

    async def stream(self, caller: Caller, after: int | None) -> AsyncIterator[str]:
        """From the entry `after` on, or from now on. A heartbeat is a comment."""
        self._begin()
        try:
            seq = self._changes.seq if after is None else min(after, self._changes.seq)
            yield f"retry: 1000\nid: {seq}\n\n"
            while True:
                update = self._changes.after(seq)
                if update is not None:
                    text, seq = self._text(update, caller), update.seq
                    yield text
                elif not await self._wait():
                    yield ": still here\n\n"
        finally:
            self._end()

    async def _wait(self) -> bool:
        """Until there may be something new. False: nothing came for long."""
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait([self._news], timeout=_HEARTBEAT_EVERY_S)
        return bool(done)

    # ---------------------------------------------------------------------- beginning and ending

    def _begin(self) -> None:
        self._open += 1
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if not self._joined:
            self._joined = True
            self._join(asyncio.get_running_loop())
        if self._changes.watch():
            self._ask_for_it()

    def _join(self, loop: asyncio.AbstractEventLoop) -> None:
        def tell() -> None:
            loop.call_soon_threadsafe(self._tell)

        def later(left: float) -> None:
            loop.call_soon_threadsafe(loop.call_later, left, self._ask_for_it)

        self._changes.tell, self._changes.later = tell, later

    def _end(self) -> None:
        self._open -= 1
        if not self._open:
            loop = asyncio.get_running_loop()
            self._rest = loop.call_later(_WATCHED_AFTER_S, self._changes.rest)

    def _tell(self) -> None:
        self._texts.clear()
        news, self._news = self._news, None
        if news is not None:
            news.set_result(None)

    def _ask_for_it(self) -> None:
        """The loop looks whenever the journal is on disk; nothing else may happen for long."""
        self._desk.ask(lambda view, now: ((), None))

    def _text(self, update: PageUpdate, caller: Caller) -> str:
        """The same for all who have the same rights and miss the last update alone. What is told to
        who comes back is not kept: they may name as many places to begin as there are entries."""
        key = (update.seq, "" if caller.admin else caller.name)
        is_last = update is self._changes.last
        text = self._texts.get(key) if is_last else None
        if text is None:
            jobs = [row_for(caller, row) for row in update.jobs]
            seen = replace(update, jobs=jobs, pages=self._open)
            text = f"id: {update.seq}\ndata: {text_of(seen)}\n\n"
            if is_last:
                self._texts[key] = text
        return text
