"""The gateway of a service as a process of this machine: started, and found again by its socket."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from dovetail.worlds.gateway_settings import GatewaySettings
from dovetail.worlds.hosting import GatewayLost
from dovetail.worlds.world import UserAccount

_WITHIN_S = 20.0
_MOST_BYTES = 1 << 20
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")  # what Python needs, no secrets


class ProcessDoor:
    """`account_of`: as whom the gateway runs; None: as the daemon does."""

    def __init__(
        self,
        folder: Path,
        settings: GatewaySettings,
        account_of: Callable[[], UserAccount | None],
    ) -> None:
        self._folder: Final = folder
        self._settings: Final = settings
        self._account_of: Final = account_of
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> socket.socket | None:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(_WITHIN_S)
        try:
            line.connect(self._settings.control)
        except OSError:
            line.close()
            return None
        return line

    def start(self) -> None:
        if self._process is not None:
            self._process.poll()  # so that it does not stay a zombie
        account, settings = self._account_of(), self._settings
        if account is not None:
            settings = replace(settings, account=(account.uid, account.gid, account.groups))
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        Path(settings.control).unlink(missing_ok=True)
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
        if told != str(settings.port):
            raise GatewayLost(told or f"its gateway did not start; see {self._folder / 'log'}")

    def _log(self) -> BinaryIO:
        """Begun anew once it is long: its user may end a gateway again and again."""
        path = self._folder / "log"
        is_long = path.exists() and path.stat().st_size > _MOST_BYTES
        return path.open("wb" if is_long else "ab")

    def end(self) -> None:
        """It has been told to; one that has not ends with its folder."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_WITHIN_S)
        shutil.rmtree(self._folder, ignore_errors=True)


def _heard(listening: int) -> str:
    """The port, or why there is none; "" if nothing was said in time."""
    with open(listening, "rb", buffering=0) as pipe:
        ready, _, _ = select.select([pipe], [], [], _WITHIN_S)
        return pipe.read(4096).decode(errors="replace") if ready else ""
