"""A hundred pages as the daemon sees them: their streams, and what each asks when it is told of changes.

A process of its own: `python -m benchmarks.page_visitor SOCKET NUMBER SECONDS UID [S=PATH…]`, where each
path is asked on an update, at most every S seconds; as in `live.js` less often where more than ten pages
are open. Prints how many updates and bytes came.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from time import monotonic

_CHUNK = 1 << 16
_PAGES, _CROWD = re.compile(rb'"pages":(\d+)\}'), 10


async def follow(socket: str, paths: dict[str, float], told: list[int]) -> None:
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(b"GET /v1/page/stream HTTP/1.1\r\nHost: dovetail\r\n\r\n")
    asking = await asyncio.open_unix_connection(socket) if paths else None
    rest, asked, crowd = b"", dict[str, float](), 1.0
    while data := await reader.read(_CHUNK):
        told[1] += len(data)
        rest += data
        if pages := _PAGES.findall(rest):
            crowd = max(1.0, int(pages[-1]) / _CROWD)
        updates, rest = rest.count(b"data: "), rest[-6:]
        told[0] += updates
        if updates and asking is not None:
            for path, every_s in paths.items():
                if monotonic() - asked.get(path, 0.0) >= every_s * crowd:
                    asked[path] = monotonic()
                    told[1] += await _ask(*asking, path)


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> int:
    writer.write(f"GET {path} HTTP/1.1\r\nHost: dovetail\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.decode("latin-1").splitlines():
        if line.lower().startswith("content-length:"):
            length = int(line.partition(":")[2])
    await reader.readexactly(length)
    return length


async def main(socket: str, number: int, seconds: float, paths: dict[str, float]) -> None:
    told = [0, 0]
    tasks = [asyncio.create_task(follow(socket, paths, told)) for _ in range(number)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    failed = [
        own for own in await asyncio.gather(*tasks, return_exceptions=True) if own is not None
    ]
    broken = [str(own) for own in failed if not isinstance(own, asyncio.CancelledError)]
    print(json.dumps({"updates": told[0], "bytes": told[1], "broken": broken}))


def _paths(words: list[str]) -> dict[str, float]:
    pairs = [word.partition("=") for word in words]
    return {path: float(every_s) for every_s, _, path in pairs}


if __name__ == "__main__":
    if os.geteuid() != int(sys.argv[4]):
        os.setgroups([])
        os.setgid(int(sys.argv[4]))
        os.setuid(int(sys.argv[4]))
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), _paths(sys.argv[5:])))
