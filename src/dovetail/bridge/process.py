"""The process behind `dovetail dashboard`: it listens on the loopback until it is told to stop."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from dovetail.bridge.forwarding import Forwarding, Reach
from dovetail.bridge.requests import MOST_HEAD_BYTES
from dovetail.bridge.visitors import Visitors
from dovetail.core.errors import BadInput


def run(
    reach: Reach, tell: Callable[[str], None], port: int = 0, authorization: str | None = None
) -> None:
    """`tell` is given every link: the first one at once, another one whenever Enter is typed."""
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(_listen(port), reach, tell, authorization))


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise BadInput(f"cannot listen at port {port}: {error.strerror or error}") from None


async def _serve(
    listener: socket.socket, reach: Reach, tell: Callable[[str], None], authorization: str | None
) -> None:
    visitors = Visitors()
    forwarding = Forwarding(visitors, reach, authorization)
    server = await asyncio.start_server(forwarding.connected, sock=listener, limit=MOST_HEAD_BYTES)
    root = f"http://127.0.0.1:{listener.getsockname()[1]}"
    tell(root + visitors.new_link())
    if sys.stdin is not None and sys.stdin.isatty():
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin, lambda: _on_enter(lambda: tell(root + visitors.new_link())))
    async with server:
        await server.serve_forever()


def _on_enter(again: Callable[[], None]) -> None:
    if not sys.stdin.readline():
        asyncio.get_running_loop().remove_reader(sys.stdin)
        return
    again()
