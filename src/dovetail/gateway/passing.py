"""One request, passed on to a replica: the answer comes back part by part.

A request is begun once a byte of it was sent to a replica. What was not begun may be tried with
another replica; what was begun gets an answer, and is not sent twice unless its method allows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import h11

from dovetail.gateway.answers import Refusal
from dovetail.gateway.load import LoadMeter
from dovetail.gateway.replicas import Replica, ReplicaPool
from dovetail.gateway.tokens import is_our_cookie, without_our_cookies
from dovetail.gateway.upstream import Came, Lost, Upstream
from dovetail.worlds.gateway_settings import GatewayBounds

_WITH_BODY: Final = frozenset((b"POST", b"PUT", b"PATCH"))
SAFE_TWICE: Final = frozenset((b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"TRACE"))
AGE: Final = (
    b"x-dovetail-age"  # seconds since the request came, or a replica was there: for its deadline
)
FOR: Final = b"x-forwarded-for"
_HALF_CLOSED_S: Final = 0.5  # after that, who has closed for sending does not wait for an answer
_OF_ONE_HOP: Final = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"),
        *(b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
        b"clear-site-data",  # it would clear what belongs to all ports of the host, our pages among them
    )
)
_OF_BODIES: Final = frozenset((b"content-length", b"transfer-encoding"))
_NEEDED: Final = frozenset((b"host", b"content-length"))  # to read the message, whoever names them


@dataclass(slots=True)
class Passed:
    """A request whose head was read, and as much of its body as is held back for a second try."""

    head: h11.Request
    came_at: float
    held: list[h11.Data]
    rest: AsyncIterator[h11.Data] | None  # None: the whole body is held
    peer: str
    has_gone: Callable[[], bool]  # its client

    @property
    def is_whole(self) -> bool:
        return self.rest is None

    @property
    def is_odd(self) -> bool:
        """It has a body, and servers do not read it: to them that would be the next request."""
        sizes = [own for own in self.head.headers if own[0] in _OF_BODIES and own[1] != b"0"]
        return bool(sizes) and self.head.method not in _WITH_BODY

    def onward(self, age_s: float) -> h11.Request:
        head = self.head
        came_for = [value for name, value in head.headers if name == FOR]
        headers = [
            *[
                own
                for own in end_to_end(head.headers)
                if own[0].replace(b"_", b"-") not in (AGE, FOR)
            ],
            (FOR, b", ".join([*came_for, self.peer.encode()])),  # one line: some read the first
            (AGE, f"{age_s:.6f}".encode()),
        ]
        if all([name != b"host" for name, _ in headers]):
            headers.append((b"host", b"localhost"))  # clients of HTTP/1.0 may leave it out
        if any([name == b"transfer-encoding" for name, _ in head.headers]):
            headers.append((b"transfer-encoding", b"chunked"))
        if self.is_odd:
            headers.append((b"connection", b"close"))
        return h11.Request(method=head.method, target=head.target, headers=headers)


Tell = Callable[[Sequence[Came]], Awaitable[None]]


class Passing:
    """Knows the replicas and counts what becomes of requests."""

    def __init__(
        self, service: str, pool: ReplicaPool, meter: LoadMeter, bounds: GatewayBounds
    ) -> None:
        self._service: Final = service
        self._pool: Final = pool
        self._meter: Final = meter
        self._bounds: Final = bounds

    async def pass_on(self, request: Passed, tell: Tell) -> None:
        """`tell` is given the parts of the answer; a refusal is raised before the first of them."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._bounds.queue_s
        while True:
            replica = await self._pool.take(deadline)
            began = loop.time()
            try:
                if began - request.came_at > _HALF_CLOSED_S and request.has_gone():
                    raise ConnectionAbortedError("the client has gone")
                if await self._try(request, replica, tell):
                    now = loop.time()
                    replica.answered += 1
                    replica.took_s += now - began
                    self._meter.answer(now - request.came_at, now - began)
                    return
            finally:
                self._pool.give_back(replica)

    async def _try(self, request: Passed, replica: Replica, tell: Tell) -> bool:
        """False: it was not begun, or may be sent again; ask another replica."""
        again = bool(replica.idle)
        upstream = await self._connection(replica)
        if upstream is None:
            return False
        try:
            first = await self._asked(request, upstream)
        except Lost as lost:
            upstream.close()
            if again and lost.silent and request.is_whole and request.head.method in SAFE_TWICE:
                return False
            raise self._broken(replica, str(lost)) from None
        except TimeoutError:
            upstream.close()
            raise self._silent(replica) from None
        except BaseException:
            upstream.close()
            raise
        await self._relay(first, upstream, replica, tell)
        return True

    async def _connection(self, replica: Replica) -> Upstream | None:
        """None: it cannot be reached."""
        while replica.idle:
            upstream = replica.idle.pop()
            if upstream.is_usable:
                return upstream
            upstream.close()
        told = replica.told
        try:
            return await Upstream.open(told.host, told.port, self._bounds.connect_s)
        except OSError:
            self._pool.rest(replica)
            return None

    async def _asked(self, request: Passed, upstream: Upstream) -> list[Came]:
        """The beginning of the answer. A replica that does not want the body may say so and hang up."""
        within_s = self._bounds.answer_s
        since = max(request.came_at, self._pool.ready_since)
        head = request.onward(asyncio.get_running_loop().time() - since)
        with suppress(Lost):
            if request.rest is None:
                await upstream.send(within_s, head, *request.held, h11.EndOfMessage())
            else:
                await upstream.send(within_s, head, *request.held)
                async for part in request.rest:
                    await upstream.send(within_s, part)
                await upstream.send(within_s, h11.EndOfMessage())
        return await upstream.next_events(self._bounds.answer_s)

    async def _relay(
        self, events: list[Came], upstream: Upstream, replica: Replica, tell: Tell
    ) -> None:
        """What breaks from here on cannot be said any more: the connection to the client is cut."""
        try:
            if isinstance(events[0], h11.Response) and events[0].status_code >= 500:
                self._meter.fail()
            while True:
                await tell(events)
                if isinstance(events[-1], h11.EndOfMessage):
                    break
                events = await upstream.next_events(self._bounds.answer_s)
        except (Lost, TimeoutError):
            self._meter.fail()
            upstream.close()
            raise ConnectionAbortedError("the replica broke off its answer") from None
        except BaseException:
            upstream.close()
            raise
        if replica.is_ready and upstream.is_usable and upstream.ready_again():
            replica.idle.append(upstream)
        else:
            upstream.close()

    def _broken(self, replica: Replica, why: str) -> Refusal:
        self._meter.fail()
        return Refusal(
            502,
            f"replica {replica.told.id} of service {self._service!r} gave no answer: {why}; whether "
            "it has done what was asked is not known",
        )

    def _silent(self, replica: Replica) -> Refusal:
        self._meter.fail()
        return Refusal(
            504,
            f"replica {replica.told.id} of service {self._service!r} gave no answer within "
            f"{self._bounds.answer_s:g} s",
        )


def end_to_end(headers: h11._headers.Headers) -> list[tuple[bytes, bytes]]:
    """Without those of one hop, among them the ones that `Connection` names, and without cookies of our
    own pages."""
    own, has_cookies = _OF_ONE_HOP, False
    for name, value in headers:
        if name == b"connection":
            own = own | ({word.strip().lower() for word in value.split(b",")} - _NEEDED)
        if name == b"transfer-encoding":
            own = own | {b"content-length"}  # it does not count
        has_cookies = has_cookies or name in (b"cookie", b"set-cookie")
    found = [(name, value) for name, value in headers if name not in own]
    return list(_without_ours(found)) if has_cookies else found


def _without_ours(headers: Sequence[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    for name, value in headers:
        if name == b"cookie":
            value = without_our_cookies(value)
        if not (name in (b"cookie", b"set-cookie") and (not value or is_our_cookie(value))):
            yield name, value
