"""The line between daemon and gateway: lines of JSON on a Unix socket, or over TLS.

The daemon says who the replicas are, the gateway says what the load is: every second, and at once when
somebody waits and nobody is ready. A daemon that is gone is not missed until it comes back.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final, Protocol

from dovetail.gateway.load import LoadMeter
from dovetail.gateway.replicas import ReplicaPool, ReplicaTold
from dovetail.gateway.tokens import TokenGate
from dovetail.worlds.gateway_settings import CERTIFICATE, GatewaySettings
from dovetail.worlds.tls_identity import new_identity

EVERY_S = 1.0
_LONGEST_LINE = 4 * 1024 * 1024
_HANDSHAKE_S = 5.0
_BACKLOG = 16


Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ControlDoor(Protocol):
    @property
    def is_gone(self) -> bool:
        """Is it removed, so that no daemon finds it any more?"""

    async def open(self, connected: Connected) -> None: ...


class FolderDoor:
    """A listening socket in a folder that is the daemon's alone."""

    def __init__(self, path: str) -> None:
        self._socket: Final = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            self._socket.bind(path)
        finally:
            os.umask(before)
        self._folder: Final = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)

    @property
    def is_gone(self) -> bool:
        return os.fstat(self._folder).st_nlink == 0

    async def open(self, connected: Connected) -> None:
        await asyncio.start_unix_server(connected, sock=self._socket, limit=_LONGEST_LINE)


class NetworkDoor:
    """A TLS port for one controller, which is recognised by its certificate. Our own certificate is
    made at the start; the log of our pod shows it, and only the cluster's own API server hands out
    that log."""

    is_gone = False

    def __init__(self, host: str, port: int, controller: bytes) -> None:
        self._place: Final = (host, port)
        identity = new_identity("gateway")
        self._tls: Final = identity.server_side(controller)
        print(f"{CERTIFICATE} {b64encode(identity.certificate).decode()}", flush=True)

    async def open(self, connected: Connected) -> None:
        await asyncio.start_server(
            connected,
            *self._place,
            ssl=self._tls,
            ssl_handshake_timeout=_HANDSHAKE_S,
            limit=_LONGEST_LINE,
            backlog=_BACKLOG,
        )


def door_for(settings: GatewaySettings) -> ControlDoor:
    if not settings.controller:
        return FolderDoor(settings.control)
    return NetworkDoor(settings.host, int(settings.control), b64decode(settings.controller))


class Control:
    def __init__(
        self, pool: ReplicaPool, meter: LoadMeter, gate: TokenGate | None = None, network: str = ""
    ) -> None:
        self._gate: Final = gate
        self._network: Final = network
        self.stopped: Final = asyncio.Event()
        self._pool: Final = pool
        self._meter: Final = meter
        self._door: ControlDoor | None = None
        self._daemon: asyncio.StreamWriter | None = None
        pool.on_wait = self._somebody_waits

    async def listen(self, door: ControlDoor) -> None:
        self._door = door
        await door.open(self._connected)

    async def tell_load(self) -> None:
        """While it runs, and somebody may come back."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(EVERY_S)
            if self._door is not None and self._door.is_gone:
                self.stopped.set()
            if self._daemon is not None:
                self._tell({"load": asdict(self._meter.summary(loop.time())), "took": self._took()})

    def _somebody_waits(self) -> None:
        if not self._pool.has_ready:
            self._tell({"waiting": self._meter.queued})

    def _took(self) -> dict[str, tuple[int, float]]:
        """By replica: requests answered so far, and the seconds that they took in all."""
        replicas = self._pool.replicas.values()
        return {own.told.id: (own.answered, own.took_s) for own in replicas}

    def _tell(self, row: dict[str, Any]) -> None:
        if self._daemon is None:
            return
        busy = {own.told.id: own.in_flight for own in self._pool.replicas.values()}
        told = {**row, "busy": busy, "network": self._network, "is_paused": self._pool.is_paused}
        self._daemon.write(json.dumps(told).encode() + b"\n")

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The last daemon that came is the one."""
        if self._daemon is not None:
            self._daemon.close()
        self._daemon = writer
        if self._meter.queued:
            self._somebody_waits()
        try:
            while line := await reader.readline():
                self._heed(json.loads(line))
        except (OSError, ValueError):
            pass
        finally:
            writer.close()
            if self._daemon is writer:
                self._daemon = None

    def _heed(self, told: dict[str, Any]) -> None:
        if "replicas" in told:
            self._pool.wake_s = told["wake_s"]
            self._pool.why_none = told["why_none"]
            self._pool.pause(bool(told.get("is_paused")))  # a daemon of before does not say
            self._pool.tell([ReplicaTold(**row) for row in told["replicas"]])
            self._tell({})
        if "tokens" in told and self._gate is not None:
            self._gate.tell(told["tokens"])
        if told.get("stop"):
            self.stopped.set()
