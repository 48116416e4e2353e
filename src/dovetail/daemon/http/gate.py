"""Before anything else: who asks over the network shows the token, nobody sends without end, and
nobody takes all the threads, streams and memory that others want too."""

from __future__ import annotations

import json
from asyncio import Semaphore
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import AsyncExitStack, contextmanager
from math import ceil
from typing import Any

from fastapi import HTTPException

from dovetail.daemon.http.connections import ConnectionLimits
from dovetail.daemon.http.login_pages import LOGIN, STATIC, login_answer, turned_to_login
from dovetail.daemon.http.network_access import Denied, FirstLook, NetworkAccess
from dovetail.daemon.users.callers import Caller
from dovetail.worlds.shortage import Short

MOST_BODY_BYTES = 16 << 20
_LARGE_BODY_BYTES = 1 << 20
_MOST_FORM_BYTES = 4096
_MOST_STREAMS = 64  # of one user
_AT_ONCE = 10  # requests of one user; the rest wait. There are 40 threads for them

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Gate:
    def __init__(self, app: App, network: NetworkAccess, limits: ConnectionLimits) -> None:
        self._app = app
        self._network = network
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
        if state.get("caller") is None and not await self._let_in(scope, receive, send):
            return
        if _length(headers) > MOST_BODY_BYTES:
            await _refuse(send, 413, _TOO_LARGE)
        else:
            await self._in_line(scope, receive, send, state["caller"], _is_large(headers))

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Of who came over the network. False: they have been answered."""
        asked = _asked(scope)
        if asked.method == "GET" and asked.path.startswith(STATIC):
            await self._app(scope, receive, send)
            return False
        form = await _form(receive) if (asked.method, asked.path) == ("POST", LOGIN) else b""
        answer = await login_answer(asked, form, self._network)
        if answer is None:
            try:
                scope["state"]["caller"] = self._network.caller(asked)
                return True
            except Denied as why:
                answer = turned_to_login(asked, why)
                if answer is None:
                    await _refuse(send, why.status, str(why), why.wait_s)
                    return False
            except Short as error:
                await _refuse(send, 503, str(error))
                return False
        await answer(scope, receive, send)
        return False

    async def _in_line(
        self, scope: Scope, receive: Receive, send: Send, caller: Caller, is_large: bool
    ) -> None:
        """The permit ends when the answer begins: what takes a thread or much memory comes before."""
        async with AsyncExitStack() as held:
            is_stream = False
            permit = await held.enter_async_context(AsyncExitStack())
            if is_large:
                await permit.enter_async_context(self._large[caller.uid])
            await permit.enter_async_context(self._at_work[caller.uid])

            async def answer(message: Message) -> None:
                nonlocal is_stream
                if message["type"] == "http.response.start":
                    await permit.aclose()
                    if is_stream := not _has_length(message):
                        held.enter_context(self._stream(caller))
                elif is_stream and not self._network.is_still(caller):
                    raise Revoked
                await send(message)

            try:
                await self._pass(scope, receive, answer)
            except TooManyStreams as error:
                await _refuse(send, 503, str(error))
            except Revoked:  # the answer has begun: it ends here
                await send({"type": "http.response.body", "body": b"", "more_body": False})

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


class Revoked(Exception):
    """The token by which they came is no more."""


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


def _asked(scope: Scope) -> FirstLook:
    headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"]}
    client = scope.get("client") or ("127.0.0.1", 0)
    return FirstLook(scope["method"], scope["path"], headers, client[0])


async def _form(receive: Receive) -> bytes:
    """A small one; what is larger is not looked at."""
    body: bytes = b""
    while len(body) <= _MOST_FORM_BYTES:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] != "http.request" or not message.get("more_body"):
            return body
    return b""


async def _refuse(send: Send, status: int, error: str, wait_s: float = 0.0) -> None:
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if wait_s:
        headers.append((b"retry-after", str(ceil(wait_s)).encode()))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
