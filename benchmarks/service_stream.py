"""Streams of requests to services, each sent when it is due; what became of every one of them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dovetail.client.connection import Client

SERVER = """
import asyncio, os, sys
from urllib.parse import parse_qs, urlsplit
notes = open(os.environ["NOTES"], "a", buffering=1) if "NOTES" in os.environ else None
async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode("latin-1")
            query = parse_qs(urlsplit(head.split(" ", 2)[1]).query)
            if notes and "id" in query:
                notes.write(query["id"][0] + "\\n")
            await asyncio.sleep(float(query.get("s", ["0"])[0]))
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
            await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
"""


@dataclass
class Stream:
    """Answers by the number of a request: its status (0: none came) and its latency."""

    answers: dict[int, list[tuple[int, float]]] = field(default_factory=dict)

    def statuses(self) -> Counter[int]:
        return Counter(status for own in self.answers.values() for status, _ in own)

    def latencies(self) -> list[float]:
        return [late for own in self.answers.values() for status, late in own if status == 200]

    def lost(self) -> int:
        """Without an answer, or with two."""
        return sum(1 for own in self.answers.values() if len(own) != 1 or not own[0][0])

    def kept(self, slo_s: float) -> float:
        """The part of all requests that was answered well within so long."""
        good = sum(late <= slo_s for late in self.latencies())
        return good / max(len(self.answers), 1)


async def send(
    port: int, due: Sequence[float], path: Callable[[int], str], lines: int = 32
) -> Stream:
    """Requests at these seconds from now, on so many connections; latencies count from when one was
    due."""
    queue: asyncio.Queue[tuple[int, float] | None] = asyncio.Queue()
    found = Stream()
    workers = [asyncio.create_task(_worker(port, queue, path, found)) for _ in range(lines)]
    began = time.monotonic()
    for number, at_s in enumerate(due):
        if (left := began + at_s - time.monotonic()) > 0:
            await asyncio.sleep(left)
        queue.put_nowait((number, began + at_s))
    for _ in workers:
        queue.put_nowait(None)
    await asyncio.gather(*workers)
    return found


async def _worker(
    port: int,
    queue: asyncio.Queue[tuple[int, float] | None],
    path: Callable[[int], str],
    found: Stream,
) -> None:
    line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    while (item := await queue.get()) is not None:
        number, at_s = item
        status = 0
        try:
            line = line or await asyncio.open_connection("127.0.0.1", port)
            status = await _asked(*line, path(number))
        except (OSError, asyncio.IncompleteReadError):
            pass
        if not status and line is not None:
            line[1].close()
            line = None
        found.answers.setdefault(number, []).append((status, time.monotonic() - at_s))
    if line is not None:
        line[1].close()


async def _asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> int:
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    size = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
    await reader.readexactly(int(size.split(":")[1]))
    return int(head.split()[1])


def declare(client: Client, folder: Path, name: str, **spec: Any) -> int:
    """A service of the server above; the port of its address."""
    (folder / "server.py").write_text(SERVER)
    own = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    command = [sys.executable, str(folder / "server.py"), "{port}"]
    asked = {
        "spec": {"name": name, "command": command, "health": "/", **spec},
        "environment": own,
        "workdir": str(folder),
    }
    address = client.post("/v1/services", asked)["address"]
    return int(address.rpartition(":")[2])


def wait_until(found: Callable[[], object], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not found():
        if time.monotonic() > deadline:
            raise SystemExit("what the benchmark waits for did not happen")
        time.sleep(0.05)


def ready(client: Client, name: str) -> int:
    row = client.get(f"/v1/services/{name}")
    return sum(own["state"] == "ready" for own in row["replicas"])
