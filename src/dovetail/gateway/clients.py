"""Connections of clients: requests are read, passed on, and answered one after the other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

import h11

from dovetail.gateway.answers import Refusal
from dovetail.gateway.guesses import network_of
from dovetail.gateway.load import LoadMeter
from dovetail.gateway.passing import Passed, Passing, end_to_end
from dovetail.gateway.tokens import TokenGate
from dovetail.gateway.upstream import CHUNK, Came
from dovetail.worlds.gateway_settings import GatewayBounds
from dovetail.worlds.shortage import raise_limit

HELD_BYTES = 64 * 1024  # of a body, before a replica is asked for
_BYTES_PER_S = 20_000  # slower than that no body needs to come
_LONGEST_HEAD = 32 * 1024
_LINGER_S = 2.0
_MOST_TURNED_AWAY = 128  # who are given time to read why
_MOST_WITH_TLS = 512  # each takes a buffer of 256 KB
_PART_OF_STRANGERS = 8  # of all connections one address without a token has an eighth


class Slow(Exception):
    """The client neither sends nor reads."""


class Clients:
    """All of them; so many at once."""

    def __init__(
        self,
        passing: Passing,
        meter: LoadMeter,
        bounds: GatewayBounds,
        service: str,
        gate: TokenGate | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.gate: Final = gate  # None: who can connect may ask
        self._tls: Final = tls
        self.passing: Final = passing
        self.meter: Final = meter
        self.bounds: Final = bounds
        self.service: Final = service
        self._open: Final[set[asyncio.Task[None]]] = set()
        most = bounds.connections if tls is None else min(bounds.connections, _MOST_WITH_TLS)
        self._most: Final = min(most, raise_limit() // 2 - _MOST_TURNED_AWAY)
        self._turning_away = 0
        self.strangers: Final[dict[asyncio.StreamWriter, str]] = {}  # their addresses: no token yet

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if why := self._why_not(writer):
                self.meter.refuse()
                await self._turn_away(reader, writer, why)
                return
            self._open.add(task)
            await self._encrypt(writer)
            await ClientConnection(self, reader, writer).serve()
        except (OSError, Slow, ssl.SSLError, asyncio.CancelledError):  # the last: the gateway ends
            writer.transport.abort()
        finally:
            self._open.discard(task)
            self.strangers.pop(writer, None)
            writer.close()

    def _why_not(self, writer: asyncio.StreamWriter) -> str:
        """Why they cannot come in. Who shows no token must not take the places of those who would."""
        if len(self._open) >= self._most:
            return f"has {self._most} connections open, its most"
        if self.gate is not None:
            address = network_of(_peer_of(writer))
            most = max(self._most // _PART_OF_STRANGERS, 1)
            if list(self.strangers.values()).count(address) >= most:
                return f"has {most} connections open from {address} on which no token was shown yet"
            self.strangers[writer] = address
        return ""

    async def _encrypt(self, writer: asyncio.StreamWriter) -> None:
        """Once they are counted: who shakes hands without end is one of those that there may be."""
        if self._tls is not None:
            await writer.start_tls(self._tls, ssl_handshake_timeout=self.bounds.client_s)

    async def _turn_away(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, why: str
    ) -> None:
        told = f"service {self.service!r} {why}; try again in 1 s"
        if self._tls is None:  # else it takes a handshake first
            writer.write(Refusal(503, told, 1).raw())
        if self._turning_away >= _MOST_TURNED_AWAY:
            return
        self._turning_away += 1
        try:
            if self._tls is not None:
                await self._encrypt(writer)
                writer.write(Refusal(503, told, 1).raw())
            await linger(reader, writer)
        finally:
            self._turning_away -= 1


class ClientConnection:
    def __init__(
        self, all: Clients, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._all: Final = all
        self._bounds: Final = all.bounds
        self._reader: Final = reader
        self._writer: Final = writer
        self._http: Final = h11.Connection(h11.SERVER, max_incomplete_event_size=_LONGEST_HEAD)
        self._loop: Final = asyncio.get_running_loop()
        self._was_asked = False
        self._peer: Final = _peer_of(writer)

    async def serve(self) -> None:
        """Until either side has enough of it."""
        while True:
            try:
                head = await self._head()
                if head is None:
                    return
                await self._answer(head)
            except Refusal as refusal:
                await self._refuse(refusal)
            except h11.RemoteProtocolError as error:
                await self._refuse(Refusal(error.error_status_hint, f"the request: {error}"))
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                await linger(self._reader, self._writer)
                return
            self._http.start_next_cycle()
            self._was_asked = True

    # ------------------------------------------------------------------------------------- requests

    async def _head(self) -> h11.Request | None:
        """None: no more come."""
        wait_s = self._bounds.keep_alive_s if self._was_asked else self._bounds.client_s
        deadline = self._loop.time() + wait_s
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                return event
            if event is not h11.NEED_DATA:
                return None
            if self._http.trailing_data[0]:  # it has begun
                deadline = min(deadline, self._loop.time() + self._bounds.client_s)
            if not await self._receive(deadline):
                if self._http.trailing_data[0]:
                    raise Refusal(408, f"no whole head came within {self._bounds.client_s:g} s")
                return None

    async def _receive(self, deadline: float) -> bool:
        """False: the time is over. At the end of what a client sends, h11 is told so."""
        try:
            async with asyncio.timeout_at(deadline):
                data = await self._reader.read(CHUNK)
        except TimeoutError:
            return False
        self._http.receive_data(data)
        return True

    async def _answer(self, head: h11.Request) -> None:
        came_at = self._loop.time()
        if self._all.gate is not None:  # strangers are no load: nobody is woken for them
            head = self._all.gate.passed(head, self._peer)
            self._all.strangers.pop(self._writer, None)
        self._all.meter.arrive()
        self._check(head)
        body = self._body(came_at)
        held, rest = await self._held(body)
        request = Passed(head, came_at, held, rest, self._peer, self._reader.at_eof)
        try:
            await self._all.passing.pass_on(request, self._tell)
        finally:
            await body.aclose()

    def _check(self, head: h11.Request) -> None:
        headers = dict(head.headers)
        if b"upgrade" in headers or head.method == b"CONNECT":
            what = headers.get(b"upgrade", b"CONNECT").decode("latin-1")
            raise Refusal(
                501, f"{what}: a service answers plain HTTP; ask for a streamed answer instead"
            )
        if int(headers.get(b"content-length", b"0")) > self._bounds.body_bytes:
            raise self._too_large()

    def _too_large(self) -> Refusal:
        most = self._bounds.body_bytes
        return Refusal(
            413, f"the body is larger than {most} bytes, the most that {self._all.service!r} takes"
        )

    async def _body(self, came_at: float) -> AsyncGenerator[h11.Data, None]:
        """Its parts, as they come: slow lines are fine, dripping is not."""
        came, waited_s = 0, 0.0
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Data):
                came += len(event.data)
                if came > self._bounds.body_bytes:
                    raise self._too_large()
                yield event
            elif event is h11.NEED_DATA:
                await self._go_on()
                left_s = self._bounds.client_s + came / _BYTES_PER_S - waited_s
                began = self._loop.time()
                if not await self._receive(began + left_s):
                    raise Refusal(408, "the body came too slowly")
                waited_s += self._loop.time() - began
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise ConnectionAbortedError("the client has gone")

    async def _go_on(self) -> None:
        if self._http.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))

    async def _held(
        self, body: AsyncIterator[h11.Data]
    ) -> tuple[list[h11.Data], AsyncIterator[h11.Data] | None]:
        """The first parts of it, and the rest if there is one."""
        held, size = list[h11.Data](), 0
        async for part in body:
            held.append(part)
            size += len(part.data)
            if size > HELD_BYTES:
                return held, body
        return held, None

    # -------------------------------------------------------------------------------------- answers

    async def _tell(self, events: Sequence[Came]) -> None:
        await self._send(*[onward(event) for event in events])

    async def _send(self, *events: Came | h11.InformationalResponse) -> None:
        try:
            data = b"".join([self._http.send(event) or b"" for event in events])
        except h11.LocalProtocolError as error:  # the replica's answer is not one
            raise ConnectionAbortedError(str(error)) from None
        if data:
            self._writer.write(data)
            try:
                async with asyncio.timeout(self._bounds.client_s):
                    await self._writer.drain()
            except TimeoutError:
                raise Slow from None

    async def _refuse(self, refusal: Refusal) -> None:
        """Unless its answer has begun: then the client sees it end too early."""
        self._all.meter.refuse()
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            raise ConnectionAbortedError(str(refusal))
        await self._send(refusal.head(), h11.Data(data=refusal.body), h11.EndOfMessage())


def _peer_of(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if peer else "127.0.0.1"


def onward(event: Came) -> Came:
    """What a replica sent, as its client gets it."""
    if isinstance(event, h11.Response):
        headers = end_to_end(event.headers)
        return h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
    return h11.EndOfMessage() if isinstance(event, h11.EndOfMessage) else event


async def linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """So that a client that still sends can read the answer before its connection is reset."""
    with suppress(TimeoutError, OSError):
        if writer.can_write_eof():
            writer.write_eof()
        async with asyncio.timeout(_LINGER_S):
            while await reader.read(CHUNK):
                pass
