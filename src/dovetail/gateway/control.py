"""The line between daemon and gateway: lines of JSON on a Unix socket.

The daemon says who the replicas are, the gateway says what the load is: every second, and at once when
somebody waits and nobody is ready. A daemon that is gone is not missed until it comes back.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from dataclasses import asdict
from typing import Any, Final

from dovetail.gateway.load import LoadMeter
from dovetail.gateway.replicas import ReplicaPool, ReplicaTold

EVERY_S = 1.0
_LONGEST_LINE = 4 * 1024 * 1024


class ControlDoor:
    """The listening socket, in a folder that is the daemon's alone."""

    def __init__(self, path: str) -> None:
        self.socket: Final = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            self.socket.bind(path)
        finally:
            os.umask(before)
        self._folder: Final = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)

    @property
    def is_gone(self) -> bool:
        """Is its folder removed, so that no daemon finds it any more?"""
        return os.fstat(self._folder).st_nlink == 0


class Control:
    def __init__(self, pool: ReplicaPool, meter: LoadMeter) -> None:
        self.stopped: Final = asyncio.Event()
        self._pool: Final = pool
        self._meter: Final = meter
        self._door: ControlDoor | None = None
        self._daemon: asyncio.StreamWriter | None = None
        pool.on_wait = self._somebody_waits

    async def listen(self, door: ControlDoor) -> None:
        self._door = door
        await asyncio.start_unix_server(self._connected, sock=door.socket, limit=_LONGEST_LINE)

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
        self._daemon.write(json.dumps({**row, "busy": busy}).encode() + b"\n")

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
        if told.get("stop"):
            self.stopped.set()
