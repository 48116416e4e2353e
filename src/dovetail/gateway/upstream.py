"""One connection from the gateway to a replica, used for one request after the other."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

import h11

CHUNK = 64 * 1024
_MOST_REST_S = 1.0
Sent: TypeAlias = h11.Request | h11.Data | h11.EndOfMessage
Came: TypeAlias = h11.Response | h11.Data | h11.EndOfMessage


class Lost(Exception):
    """The replica closed the connection, or what it sent is not HTTP. `silent`: not a byte came."""

    def __init__(self, told: str, silent: bool) -> None:
        super().__init__(told)
        self.silent = silent


class Upstream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self._came = False  # a byte of the present answer
        self._rests_since = 0.0

    @classmethod
    async def open(cls, host: str, port: int, within_s: float) -> Upstream:
        async with asyncio.timeout(within_s):
            return cls(*await asyncio.open_connection(host, port, limit=CHUNK))

    @property
    def is_usable(self) -> bool:
        """Has the replica left it open, as far as is known here? Servers close what rests, some after
        2 s: a request must not meet that. Nor what a replica sent beyond its last answer: that would
        be taken for the next one."""
        rested_s = asyncio.get_running_loop().time() - self._rests_since
        if self._rests_since and rested_s > _MOST_REST_S:
            return False
        if self._http.trailing_data[0] or self._reader._buffer:  # type: ignore[attr-defined]
            return False
        return not self._reader.at_eof() and not self._writer.is_closing()

    async def send(self, within_s: float, *events: Sent) -> None:
        try:
            self._writer.write(b"".join([self._http.send(event) or b"" for event in events]))
            async with asyncio.timeout(within_s):
                await self._writer.drain()
        except (OSError, h11.LocalProtocolError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise Lost(str(error), not self._came) from None

    async def next_events(self, within_s: float) -> list[Came]:
        """The next parts of the answer, as many as are there; at least one, within that time."""
        found: list[Came] = []
        until = asyncio.get_running_loop().time() + within_s
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise Lost(f"it answered what is not HTTP: {error}", not self._came) from None
            if isinstance(event, h11.Response | h11.Data | h11.EndOfMessage):
                found.append(event)  # notes that come before an answer are passed over
            if isinstance(event, h11.EndOfMessage) or (found and event is h11.NEED_DATA):
                return found
            if event is h11.NEED_DATA:
                await self._read(until)
            elif isinstance(event, h11.ConnectionClosed):
                raise Lost("it closed the connection", not self._came)

    async def _read(self, until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                data = await self._reader.read(CHUNK)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise Lost(str(error), not self._came) from None
        if not data and not self._came:
            raise Lost("it closed the connection", True)
        self._came = self._came or bool(data)
        self._http.receive_data(data)

    def ready_again(self) -> bool:
        """For the next request? Both sides have said all, and neither wants to close."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self._came = False
        self._rests_since = asyncio.get_running_loop().time()
        return True

    def close(self) -> None:
        self._writer.transport.abort()
