"""The daemon's end of the line to a gateway: it is started, found again, told and heard."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from dovetail.core.errors import DovetailError
from dovetail.gateway.settings import GatewaySettings
from dovetail.worlds.world import UserAccount

_START_WITHIN_S = 20.0
_MOST_BYTES = 1 << 20
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")  # what Python needs, no secrets


class GatewayLost(DovetailError):
    """There is none, and none can be started now."""


class GatewayLine:
    """To the gateway of one service. `account`: as whom it runs; None: as the daemon does."""

    def __init__(self, folder: Path, settings: GatewaySettings) -> None:
        self._folder: Final = folder
        self._settings: Final = settings
        self._line: socket.socket | None = None
        self._rest = b""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_open(self) -> bool:
        return self._line is not None

    def open(self, account: UserAccount | None) -> None:
        """To the one that an earlier daemon left, or to a new one."""
        if not self._connect():
            self._start(account)
            if not self._connect():
                raise GatewayLost("its gateway does not answer")

    def _connect(self) -> bool:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(_START_WITHIN_S)
        try:
            line.connect(self._settings.control)
        except OSError:
            line.close()
            return False
        self._line, self._rest = line, b""
        return True

    def _start(self, account: UserAccount | None) -> None:
        if self._process is not None:
            self._process.poll()  # so that it does not stay a zombie
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        Path(self._settings.control).unlink(missing_ok=True)
        settings = self._settings
        if account is not None:
            settings = replace(settings, account=(account.uid, account.gid, account.groups))
        listening, telling = os.pipe()
        try:
            with self._log() as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "dovetail.gateway", settings.text(), str(telling)],
                    env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                    pass_fds=[telling],
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                )
        finally:
            os.close(telling)
        told = _heard(listening)
        if told != str(self._settings.port):
            raise GatewayLost(told or f"its gateway did not start; see {self._folder / 'log'}")

    def _log(self) -> BinaryIO:
        """Begun anew once it is long: its user may end a gateway again and again."""
        path = self._folder / "log"
        is_long = path.exists() and path.stat().st_size > _MOST_BYTES
        return path.open("wb" if is_long else "ab")

    def tell(self, told: Mapping[str, Any]) -> None:
        """Its replicas; how long waking one takes; why there is none; is it paused?"""
        self._send(told)

    def stop(self) -> None:
        """It answers what it has, and ends."""
        if self._line is not None or self._connect():
            with suppress(GatewayLost):
                self._send({"stop": True})
            self.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_START_WITHIN_S)

    def _send(self, row: Mapping[str, Any]) -> None:
        assert self._line is not None
        try:
            self._line.sendall(json.dumps(row).encode() + b"\n")
        except OSError as error:
            self.close()
            raise GatewayLost(f"its gateway is gone: {error}") from None

    def hear(self, within_s: float) -> Iterator[dict[str, Any]]:
        """What it says until then; as soon as it has said something, that."""
        assert self._line is not None
        ready, _, _ = select.select([self._line], [], [], within_s)
        if not ready:
            return
        try:
            data = self._line.recv(_MOST_BYTES)
        except OSError:
            data = b""
        if not data:
            self.close()
            raise GatewayLost("its gateway is gone")
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MOST_BYTES:
            self.close()
            raise GatewayLost("its gateway says too much at once")
        yield from map(json.loads, lines)

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


def _heard(listening: int) -> str:
    """The port, or why there is none; "" if nothing was said in time."""
    with open(listening, "rb", buffering=0) as pipe:
        ready, _, _ = select.select([pipe], [], [], _START_WITHIN_S)
        return pipe.read(4096).decode(errors="replace") if ready else ""
