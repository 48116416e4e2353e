"""What the gateway of a service adds: latency at 1,000 requests a second on one core, and memory."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os import getloadavg
from pathlib import Path
from statistics import median

from benchmarks.lines import Line
from benchmarks.live import at, cpu_seconds, resident_mb
from dovetail.worlds.gateway_settings import GatewayBounds, GatewaySettings
from dovetail.worlds.shortage import raise_limit

RATE, SECONDS, LINES = 1000, 6, 32
ROUNDS = 5
SERVICE_S = 0.002
MOST_ADDED_S = 0.003
MANY = 10_000
REPLICA = f"""
import asyncio, sys
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Length: 20\\r\\nContent-Type: text/plain\\r\\n\\r\\n" + b"y" * 20
class Server(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.came = transport, b""
    def data_received(self, data):  # one request at a time, with a body of 20 bytes
        self.came += data
        head, _, body = self.came.partition(b"\\r\\n\\r\\n")
        if len(body) < 20:
            return
        self.came = b""
        asyncio.get_running_loop().call_later({SERVICE_S}, self.transport.write, ANSWER)
async def main():
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
"""
ASKED = (
    b"POST /v1/predict HTTP/1.1\r\nHost: answers\r\nUser-Agent: bench\r\nAccept: */*\r\n"
    b"Content-Type: application/json\r\nContent-Length: 20\r\n\r\n" + b"x" * 20
)


def measured() -> Iterator[Line]:
    """One gateway, two replicas that take 2 ms, 1,000 requests a second on 32 connections."""
    with running() as (gateway, replica, pid):
        asyncio.run(latencies(replica, 2))  # everybody is warm
        asyncio.run(latencies(gateway, 2))
        before, direct, through = cpu_seconds(pid), list[float](), list[float]()
        answered = 0
        for _ in range(ROUNDS):  # one after the other: others are busy on the machine, too
            direct.append(at(0.99, asyncio.run(latencies(replica, SECONDS))))
            found = asyncio.run(latencies(gateway, SECONDS))
            through.append(at(0.99, found))
            answered += len(found)
        core = (cpu_seconds(pid) - before) / (ROUNDS * SECONDS)
        yield from added_lines(direct, through)
        sent = ROUNDS * RATE * SECONDS
        yield Line("of a core at 1,000 requests a second", f"{core:.0%}", "below 100%", core < 1)
        yield Line("answered", f"{answered}", f"{sent}", answered == sent)
        yield from many_connections(gateway, pid)


def added_lines(direct: Sequence[float], through: Sequence[float]) -> Iterator[Line]:
    added = median([own - bare for own, bare in zip(through, direct, strict=True)])
    rounds = " ".join(
        f"{bare * 1e3:.1f}+{(own - bare) * 1e3:.1f}"
        for own, bare in zip(through, direct, strict=True)
    )
    yield Line(
        f"added at the 99th percentile, median of {ROUNDS} rounds",
        f"{added * 1e3:.2f} ms",
        f"below {MOST_ADDED_S * 1e3:g} ms ({rounds}; {getloadavg()[0]:.1f} processes busy)",
        added < MOST_ADDED_S,
    )


def many_connections(port: int, pid: int) -> Iterator[Line]:
    """Each sends a part of a head and waits. Those above the most are told so."""
    raise_limit()
    before = resident_mb(pid)
    lines, refused = list[socket.socket](), 0
    for _ in range(MANY):
        line = socket.create_connection(("127.0.0.1", port), 60)
        with suppress(OSError):
            line.sendall(b"GET / HTTP/1.1\r\nHo")
        lines.append(line)
    for line in lines[GatewayBounds().connections :]:
        with suppress(OSError):
            refused += b"its most; try again in 1 s" in line.recv(4096)
    grown = resident_mb(pid) - before
    for line in lines:
        line.close()
    wanted = MANY - GatewayBounds().connections
    yield Line(
        f"of {MANY} connections refused with a reason", f"{refused}", f"{wanted}", refused == wanted
    )
    yield Line("memory that they take", f"{grown:.0f} MB", "below 100 MB", grown < 100)


async def latencies(port: int, seconds: int) -> Sequence[float]:
    """Of requests sent when they are due, each counted from then on."""
    due: asyncio.Queue[float] = asyncio.Queue()
    found: list[float] = []

    async def line() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (sent := await due.get()) > 0:
            writer.write(ASKED)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readexactly(20)
            found.append(time.monotonic() - sent)
        writer.close()

    lines = [asyncio.create_task(line()) for _ in range(LINES)]
    began = time.monotonic()
    for number in range(RATE * seconds):
        at_s = began + number / RATE
        if (left := at_s - time.monotonic()) > 0:
            await asyncio.sleep(left)
        due.put_nowait(at_s)
    for _ in lines:
        due.put_nowait(-1.0)
    await asyncio.gather(*lines)
    return found


@contextmanager
def running() -> Iterator[tuple[int, int, int]]:
    """The ports of a gateway and of one of its replicas, and the gateway's process."""
    ports = [free_port() for _ in range(3)]
    replicas = [subprocess.Popen([sys.executable, "-c", REPLICA, str(p)]) for p in ports[:2]]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "control")
        settings = GatewaySettings(
            "bench", "127.0.0.1", ports[2], path, bounds=GatewayBounds(at_once=32)
        )
        listening, telling = os.pipe()
        words = [sys.executable, "-m", "dovetail.gateway", settings.text(), str(telling)]
        gateway = subprocess.Popen(words, pass_fds=[telling])
        os.close(telling)
        try:
            with open(listening) as told:
                assert told.read() == str(ports[2])
            for port in ports[:2]:
                wait_for(port)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
                control.connect(path)
                rows = [{"id": str(p), "host": "127.0.0.1", "port": p} for p in ports[:2]]
                told_row = {"replicas": rows, "wake_s": 1.0, "why_none": "none is ready"}
                control.sendall(json.dumps(told_row).encode() + b"\n")
                control.recv(4096)
                yield ports[2], ports[0], gateway.pid
        finally:
            for process in (gateway, *replicas):
                process.kill()
                process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(1000):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.01)
    raise SystemExit(f"nobody listens on port {port}")
