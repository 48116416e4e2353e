"""Before anything else: who asks over the network shows the token, nobody sends without end, and
nobody takes all the threads, streams and memory that others want too."""

from __future__ import annotations

import json
from asyncio import Semaphore
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from fastapi import HTTPException

from dovetail.daemon.http.access import SocketAccess
from dovetail.daemon.http.connections import ConnectionLimits
from dovetail.daemon.users.callers import Caller

MOST_BODY_BYTES = 16 << 20
_LARGE_BODY_BYTES = 1 << 20
_MOST_STREAMS = 64  # of one user
_AT_ONCE = 10  # requests of one user; the rest wait. There are 40 threads for them

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Gate:
    def __init__(self, app: App, access: SocketAccess, limits: ConnectionLimits) -> None:
        self._app = app
        self._access = access
        self._limits = limits
        self._at_work: defaultdict[int, Semaphore] = defaultdict(lambda: Semaphore(_AT_ONCE))
        self._streams: Counter[int] = Counter()  # by user: answers that have no end yet
        # One large body of each at a time: read into objects it takes ten times its size.
        self._large: defaultdict[int, Semaphore] = defaultdict(lambda: Semaphore(1))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        state = scope.setdefault("state", {})
        if state.get("caller") is None:
            state["caller"] = self._access.of_header(
                headers.get(b"authorization", b"").decode("latin-1")
            )
        if state["caller"] is None:
            await _refuse(send, 401, "show the token: Authorization: Bearer …")
        elif _length(headers) > MOST_BODY_BYTES:
            await _refuse(send, 413, _TOO_LARGE)
        else:
            await self._in_line(scope, receive, send, state["caller"], _is_large(headers))

    async def _in_line(
        self, scope: Scope, receive: Receive, send: Send, caller: Caller, is_large: bool
    ) -> None:
        """The permit ends when the answer begins: what takes a thread or much memory comes before."""
        async with AsyncExitStack() as held:
            permit = await held.enter_async_context(AsyncExitStack())
            if is_large:
                await permit.enter_async_context(self._large[caller.uid])
            await permit.enter_async_context(self._at_work[caller.uid])

            async def answer(message: Message) -> None:
                if message["type"] == "http.response.start":
                    await permit.aclose()
                    if not _has_length(message):
                        held.enter_context(self._stream(caller))
                await send(message)

            try:
                await self._pass(scope, receive, answer)
            except TooManyStreams as error:
                await _refuse(send, 503, str(error))

    @contextmanager
    def _stream(self, caller: Caller) -> Iterator[None]:
        most = min(self._limits.of_user // 2, _MOST_STREAMS)
        if self._streams[caller.uid] >= most:
            raise TooManyStreams(
                f"too many connections: {most} of yours follow logs or events; end some first"
            )
        self._streams[caller.uid] += 1
        try:
            yield
        finally:
            self._streams[caller.uid] -= 1

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Bodies without a length are counted as they come."""
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > MOST_BODY_BYTES:
                raise HTTPException(413, _TOO_LARGE)
            return message

        await self._app(scope, counted, send)


class TooManyStreams(Exception):
    """One more answer without an end than its user may have."""


_TOO_LARGE = f"the request is larger than {MOST_BODY_BYTES >> 20} MB; send it in parts"


def _has_length(message: Message) -> bool:
    return any(name == b"content-length" for name, _ in message.get("headers", ()))


def _is_large(headers: MutableMapping[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or _length(headers) > _LARGE_BODY_BYTES


def _length(headers: MutableMapping[bytes, bytes]) -> int:
    length = headers.get(b"content-length", b"0")
    return int(length) if length.isdigit() else 0


async def _refuse(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
