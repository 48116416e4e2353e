"""Time limits for requests: an idle connection takes the place of another.

Uvicorn only limits the time between two requests. Here it is counted from the moment something is
owed to us (a first request, the rest of its head, the rest of its body) and grows with what came:
slow lines are fine, dripping is not.
"""

from __future__ import annotations

import asyncio
from time import monotonic

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dovetail.daemon.http.connections import refused

WITHIN_S = 10.0
_LAST_CHANCE_S = 0.2
_BYTES_PER_S = 20_000  # slower than that nobody's body needs to come
_TOO_LATE = refused("408 Request Timeout", "the request did not come in time")


class Timed(H11Protocol):
    _timer: asyncio.TimerHandle | None = None
    _since = 0.0
    _came = 0
    _warned = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._timer is None:
            self._expect()
        self._came += len(data)
        super().data_received(data)
        if not self._is_owed():
            self._rest()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._timer is None and self._is_owed():
            self._expect()

    def _is_owed(self) -> bool:
        """Has a request begun that has not ended?"""
        if self.transport.is_closing():
            return False
        theirs = self.conn.their_state
        return theirs is h11.SEND_BODY or (theirs is h11.IDLE and bool(self.conn.trailing_data[0]))

    def _expect(self) -> None:
        self._since, self._came, self._warned = monotonic(), 0, False
        self._timer = self.loop.call_later(WITHIN_S, self._look)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # it is we who do not read on
            self._expect()
            return
        left = self._since + WITHIN_S + self._came / _BYTES_PER_S - monotonic()
        if left > 0 or not self._warned:  # what came while we were busy is read before we judge
            self._warned = left <= 0
            self._timer = self.loop.call_later(max(left, _LAST_CHANCE_S), self._look)
            return
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(_TOO_LATE)
        self.transport.close()
