"""The journal as server-sent events: what there is after some entry, then what comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from time import monotonic

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from dovetail.daemon.http.visibility import Sight
from dovetail.store import JournalReader

_LOOK_EVERY_S = 0.1
_HEARTBEAT_EVERY_S = 15.0
_THREADS = CapacityLimiter(2)  # for all streams: who asks something else must not wait for them


async def stream(
    reader: JournalReader, sight: Sight, last_seq: Callable[[], int], seq: int
) -> AsyncIterator[str]:
    """`last_seq` says cheaply whether there is anything to read. A heartbeat is a comment; it lets
    both sides notice that the other is gone."""
    yield f"retry: 1000\nid: {seq}\n\n"
    told_at = monotonic()
    while True:
        lines = []
        if last_seq() > seq:
            lines = await run_sync(_next, reader, sight, seq, limiter=_THREADS)
        if lines:
            seq = lines[-1][0]
            told_at = monotonic()
            yield "".join(f"id: {number}\ndata: {line}\n\n" for number, line in lines)
            continue
        if monotonic() - told_at > _HEARTBEAT_EVERY_S:
            told_at = monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(_LOOK_EVERY_S)


def _next(reader: JournalReader, sight: Sight, seq: int) -> list[tuple[int, str]]:
    return [(number, sight.line(line)) for number, line in reader.some_lines_after(seq)]
