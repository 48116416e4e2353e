"""Processes of daemons: each a program of its own, or a fork of one that has imported all it needs."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from daemon_main import MOST_BYTES

PROGRAM = [sys.executable, "-P", str(Path(__file__).with_name("daemon_main.py"))]


class ForkedDaemon:
    """What tests use of `subprocess.Popen`."""

    def __init__(self, pid: int, end: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._end = end

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("daemon", timeout or 0.0)
            self.returncode = int(os.read(self._end, 10))
            os.close(self._end)
        return self.returncode

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended; how is on its way
                os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that forks, one for all tests of a worker; it ends with them."""

    def __init__(self) -> None:
        self.interpreter = _interpreter()
        self._line, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            words = [*PROGRAM, str(other.fileno())]
            self._process = subprocess.Popen(words, pass_fds=[other.fileno()])
        atexit.register(self._close)

    def _close(self) -> None:
        self._line.close()
        self._process.wait()

    def start(self, folder: Path, settings: dict[str, Any], said: int, ready: int) -> ForkedDaemon:
        asked = {"folder": str(folder), "settings": settings, "workdir": os.getcwd()}
        text = json.dumps({**asked, "environment": dict(os.environ)}).encode()
        assert len(text) <= MOST_BYTES
        reading, end = os.pipe()
        socket.send_fds(self._line, [text], [said, ready, end])
        os.close(end)
        return ForkedDaemon(int(self._line.recv(20)), reading)


def _interpreter() -> dict[str, str]:
    """What of the environment a process looks at when it begins, and never again."""
    return {name: own for name, own in os.environ.items() if name.startswith(("PYTHON", "LD_"))}


_forks: list[Forks] = []


def start(
    folder: Path, settings: dict[str, Any], said: IO[bytes], ready: int, by: list[str]
) -> ForkedDaemon | subprocess.Popen[bytes]:
    """`by`: the words of a program that starts it."""
    has_limits = "soft_files" in settings or "most_files" in settings
    if not by and not has_limits:
        if not _forks:
            _forks.append(Forks())
        if _forks[0].interpreter == _interpreter():
            return _forks[0].start(folder, settings, said.fileno(), ready)
    words = [*by, *PROGRAM, str(folder), json.dumps(settings), str(ready)]
    return subprocess.Popen(words, pass_fds=[ready], stdout=said, stderr=said)
