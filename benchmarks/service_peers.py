"""Replicas under Ray Serve beside ours, on this machine and with the same load; and a service scaled to
zero: asleep, killed and started as Knative and KEDA do it, and as Ray Serve does it.

    python -m benchmarks service_peers     (Ray is in .venv-peers: make .venv-peers/ready)

Both servers wait 20 ms for an answer, and take 3 s to load. Knative and KEDA need a Kubernetes: here
their way is taken with our gateway in the place of theirs, which keeps the request while the server
starts. So what differs is the server's own start; nothing of a cluster is counted against them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.lines import Line
from benchmarks.live import at, daemon
from benchmarks.memory import MARK, Memory
from benchmarks.service_stream import SERVER, Stream, declare, send, wait_until
from dovetail.client.connection import Client
from dovetail.worlds.local.services.ports import free_port

RATE, SECONDS, LINES = 100, 30, 32
SERVICE_S, SLO_S, LOAD_S = 0.02, 0.1, 3.0
AT_ONCE, REPLICAS, IDLE_S, ROUNDS = 8, 2, 2, 3
PEERS = Path(__file__).parent.parent / ".venv-peers" / "bin" / "python"
SLOW_TO_LOAD = f"import time\ntime.sleep({LOAD_S})\n{SERVER}"
_PATH = f"/?s={SERVICE_S}"


@dataclass
class Peer:
    """What was seen of one of the two."""

    first_s: float = 0.0  # from its declaration to the first answer
    stream: Stream = field(default_factory=Stream)
    peak_mb: float = 0.0
    from_zero: dict[str, list[float]] = field(default_factory=dict)

    def load(self, port: int, seconds: int) -> None:
        due = [number / RATE for number in range(RATE * seconds)]
        self.stream = asyncio.run(send(port, due, lambda _: _PATH, LINES))


def measured() -> Iterator[Line]:
    yield from lines(ours(SECONDS, ROUNDS), ray_serve(SECONDS, ROUNDS))


@contextmanager
def marked(name: str) -> Iterator[Memory]:
    os.environ[MARK] = name
    try:
        with Memory(name) as memory:
            yield memory
    finally:
        del os.environ[MARK]


def answered_s(port: int) -> float:
    began = time.monotonic()
    with closing(HTTPConnection("127.0.0.1", port, timeout=120)) as line:
        line.request("POST", _PATH)
        answer = line.getresponse()
        assert answer.read() == b"ok", answer.status
    return time.monotonic() - began


# -------------------------------------------------------------------------------------------- ours


def ours(seconds: int, rounds: int) -> Peer:
    found = Peer()
    with marked("ours") as memory, daemon(slots=4, policy="fair-share") as (client, home):
        began = time.monotonic()
        port = declared(client, home, "steady", {"min": REPLICAS, "max": REPLICAS})
        answered_s(port)
        found.first_s = time.monotonic() - began
        wait_until(lambda: states(client, "steady") == ["ready"] * REPLICAS)
        found.load(port, seconds)
        found.peak_mb = memory.peak_mb
        port = declared(client, home, "zero", {"min": 0, "max": 1})
        answered_s(port)
        for _ in range(rounds):
            wait_until(lambda: states(client, "zero") == ["asleep"])
            found.from_zero.setdefault("asleep", []).append(answered_s(port))
            wait_until(lambda: states(client, "zero") == ["asleep"])
            job = client.get("/v1/services/zero")["replicas"][0]["job"]
            client.post("/v1/jobs/cancel", {"ids": [job]})
            wait_until(lambda: states(client, "zero") == [])
            found.from_zero.setdefault("killed and started", []).append(answered_s(port))
    return found


def declared(client: Client, home: Path, name: str, replicas: dict[str, int]) -> int:
    folder = home / name
    folder.mkdir()
    (folder / "slow.py").write_text(SLOW_TO_LOAD)
    command = [sys.executable, str(folder / "slow.py"), "{port}"]
    spec: dict[str, Any] = {"replicas": replicas, "at_once": AT_ONCE, "idle_s": IDLE_S}
    return declare(client, folder, name, command=command, queue_s=60, **spec)


def states(client: Client, name: str) -> list[str]:
    return [own["state"] for own in client.get(f"/v1/services/{name}")["replicas"]]


# --------------------------------------------------------------------------------------- Ray Serve


def ray_serve(seconds: int, rounds: int) -> Peer:
    if not PEERS.exists():
        raise SystemExit(f"{PEERS} is not there: make .venv-peers/ready")
    found = Peer()
    with marked("ray-steady") as memory, ray_running(REPLICAS, REPLICAS) as (port, first_s):
        found.first_s = first_s
        found.load(port, seconds)
        found.peak_mb = memory.peak_mb
    with marked("ray-zero") as memory, ray_running(0, 1) as (port, _):
        for _ in range(rounds):
            wait_until(lambda: not replica_processes(memory), 90)
            found.from_zero.setdefault("scaled to zero", []).append(answered_s(port))
    return found


@contextmanager
def ray_running(least: int, most: int) -> Iterator[tuple[int, float]]:
    """Its port, and the seconds from its declaration to the first answer, Ray's own start left out."""
    port, script = free_port(), Path(__file__).parent / "ray_serve_peer.py"
    words = [str(PEERS), str(script), *map(str, (port, least, most, AT_ONCE, LOAD_S))]
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        heard(process.stdout.readline, "declaring")
        began = time.monotonic()
        heard(process.stdout.readline, "ready")
        answered_s(port)
        yield port, time.monotonic() - began
    finally:
        process.stdin.close()
        process.wait(60)


def heard(line: Callable[[], str], wanted: str) -> None:
    if (told := line().strip()) != wanted:
        raise SystemExit(f"Ray Serve said {told!r}, not {wanted!r}")


def replica_processes(memory: Memory) -> list[int]:
    return [pid for pid in memory.processes() if b"ServeReplica" in _words(pid)]


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


# ------------------------------------------------------------------------------------------- lines


def lines(own: Peer, theirs: Peer) -> Iterator[Line]:
    for what, mine, other, unit in (
        ("from declaring to the first answer", own.first_s, theirs.first_s, "s"),
        ("memory of all processes at most", own.peak_mb, theirs.peak_mb, "MB"),
    ):
        yield Line(what, f"{mine:.3g} {unit}", f"Ray Serve {other:.3g} {unit}", mine <= other)
    for part in (0.5, 0.99):
        mine, other = (at(part, peer.stream.latencies()) * 1e3 for peer in (own, theirs))
        what = f"latency at {part:.0%}, {RATE} requests a second of {SERVICE_S * 1e3:.0f} ms"
        yield Line(what, f"{mine:.1f} ms", f"Ray Serve {other:.1f} ms", mine <= other)
    kept, other = own.stream.kept(SLO_S), theirs.stream.kept(SLO_S)
    within = f"within {SLO_S * 1e3:.0f} ms"
    yield Line(within, f"{kept:.2%}", f"Ray Serve {other:.2%}", kept >= other)
    asleep = median(own.from_zero["asleep"])
    for name, times in {**own.from_zero, **theirs.from_zero}.items():
        who = "Ray Serve, " if name in theirs.from_zero else ""
        what = f"first answer ({LOAD_S:g} s to load), {who}{name}"
        yield Line(
            what, f"{median(times):.2f} s", f"asleep {asleep:.2f} s", asleep <= median(times)
        )
