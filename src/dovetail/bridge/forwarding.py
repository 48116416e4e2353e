"""A connection of a browser: let in or turned away, then joined to one of the daemon's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, TypeAlias

from dovetail.bridge.answers import onward, plain_page, welcome
from dovetail.bridge.local_peers import is_ours
from dovetail.bridge.requests import NotHttp, RequestHead, read_head
from dovetail.bridge.same_site import HERE, cookie, foreign
from dovetail.bridge.visitors import LINK_PATH, Visitors
from dovetail.core.errors import DovetailError
from dovetail.gateway.clients import linger

_HEAD_WITHIN_S = 30.0  # browsers open connections before they need them
_MOST = 200
_CHUNK = 1 << 16

Ends: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Reach: TypeAlias = Callable[[], Awaitable[Ends]]


class TurnedAway(Exception):
    """With the answer that says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.answer: Final = plain_page(status, sentence)


class Forwarding:
    """`reach` opens a connection to the daemon, as the user whose process this is."""

    def __init__(self, visitors: Visitors, reach: Reach, authorization: str | None = None) -> None:
        self._visitors: Final = visitors
        self._reach: Final = reach
        self._authorization: Final = authorization
        self._open = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            await self._serve(reader, writer)
        except TurnedAway as why:
            writer.write(why.answer)
            await linger(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # who sent no request waits for no answer
        finally:
            self._open -= 1
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer, own = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        if not is_ours(peer, own):
            raise TurnedAway(403, "this page is of another user of this machine")
        if self._open > _MOST:
            raise TurnedAway(503, f"too many connections: {_MOST} are open; close some pages")
        async with asyncio.timeout(_HEAD_WITHIN_S):
            raw = await reader.readuntil(b"\r\n\r\n")
        try:
            head = read_head(raw)
        except NotHttp as error:
            raise TurnedAway(400, f"the request cannot be read: {error}") from None
        if (answer := self._own_answer(head)) is not None:
            writer.write(answer)
            await writer.drain()
            return
        await self._pass_on(head, reader, writer)

    def _own_answer(self, head: RequestHead) -> bytes | None:
        """None: it is for the daemon."""
        if head.method == "GET" and head.path.startswith(LINK_PATH):
            return self._enter(head)
        if why := foreign(head.method, head.headers, HERE):
            raise TurnedAway(403, f"refused: {why}")
        if not self._visitors.knows(head.headers.get("cookie", "")):
            raise TurnedAway(401, _NO_COOKIE)
        return onward() if head.path == "/" and head.method == "GET" else None

    def _enter(self, head: RequestHead) -> bytes:
        """The link may be clicked on any page; under another name of ours it is worth nothing."""
        harmless = {"host": head.headers.get("host", "")}
        if why := foreign("GET", harmless, HERE):
            raise TurnedAway(403, f"refused: {why}")
        value = self._visitors.enter(head.path)
        if value is None:
            raise TurnedAway(403, _OLD_LINK)
        return welcome(cookie(self._visitors.cookie_name, value))

    async def _pass_on(
        self, head: RequestHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            from_daemon, to_daemon = await self._reach()
        except (OSError, DovetailError) as error:
            if head.wants_events:
                return  # a browser tries again if it is told nothing, and never after an error
            raise TurnedAway(502, f"the daemon does not answer: {error}") from None
        try:
            to_daemon.write(head.anew(self._authorization))
            body = _carry_body(head.length, reader, to_daemon)
            await _until_either_ends(body, _carry(from_daemon, writer))
        finally:
            to_daemon.close()


async def _until_either_ends(*carrying: Coroutine[None, None, None]) -> None:
    """The daemon has said all, or the browser has gone."""
    tasks = [asyncio.create_task(own) for own in carrying]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _carry_body(
    length: int, source: asyncio.StreamReader, target: asyncio.StreamWriter
) -> None:
    """What comes after the body would be a request that nobody has looked at: it is dropped."""
    while data := await source.read(_CHUNK):
        if length > 0:
            target.write(data[:length])
            await target.drain()
        length -= len(data)


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """All that comes, until there is no more."""
    while data := await source.read(_CHUNK):
        target.write(data)
        await target.drain()


_NO_COOKIE = (
    "this browser has not come by the link. Type: dovetail dashboard, or press Enter where it runs, "
    "for a link that works once."
)
_OLD_LINK = (
    "this link was used already, or is too old: each works once, within five minutes. Press Enter "
    "where dovetail dashboard runs for a new one."
)
