"""A real gateway in a process of its own, with real replicas, told by this test in place of a daemon."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.api.token_text import digest_of
from dovetail.worlds.gateway_settings import GatewayBounds, GatewaySettings
from waiting import LONG_S, until

SERVER = Path(__file__).parent / "replica_server.py"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@dataclass
class Answer:
    status: int
    text: str
    headers: dict[str, str]


class ReplicaProcess:
    def __init__(self, name: str, **environment: str) -> None:
        self.name = name
        self.port = free_port()
        self._environment = {**os.environ, **environment}
        self.start()

    def start(self) -> None:
        words = [sys.executable, str(SERVER), str(self.port)]
        self.process = subprocess.Popen(words, env=self._environment)
        until(self._listens)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def row(self, standing: str = "ready") -> dict[str, Any]:
        return {"id": self.name, "host": "127.0.0.1", "port": self.port, "standing": standing}


class GatewayProcess:
    def __init__(
        self,
        folder: Path,
        slo_s: float | None = None,
        account: tuple[int, int, tuple[int, ...]] | None = None,
        network: str = "",
        tls: tuple[str, str] | None = None,
        **bounds: Any,
    ) -> None:
        self.port = free_port()
        self._path = str(folder / "gateway.sock")
        settings = GatewaySettings(
            *("answers", "127.0.0.1", self.port, self._path, slo_s),
            bounds=GatewayBounds(**bounds),
            account=account,
            network=network,
            tls=tls,
        )
        listening, telling = os.pipe()
        words = [sys.executable, "-m", "dovetail.gateway", settings.text(), str(telling)]
        self.process = subprocess.Popen(words, pass_fds=[telling])
        os.close(telling)
        with open(listening) as told:
            assert told.read() == str(self.port)
        self.connect()

    def connect(self) -> None:
        """As a daemon does when it starts."""
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._control.settimeout(LONG_S)
        self._control.connect(self._path)
        self._lines = self._control.makefile("r")

    def disconnect(self) -> None:
        self._lines.close()
        self._control.close()

    def tell(self, *replicas: dict[str, Any]) -> None:
        row = {"replicas": replicas, "wake_s": 3.0, "why_none": "no replica of it is ready yet"}
        self.say(row)
        while self.heard()["busy"].keys() != {row["id"] for row in replicas}:
            pass

    def tell_tokens(self, **secrets: str) -> None:
        """By id, each of which holds."""
        tokens = {name: (digest_of(secret), None) for name, secret in secrets.items()}
        self.say({"tokens": tokens})

    def say(self, row: dict[str, Any]) -> None:
        self._control.sendall(json.dumps(row).encode() + b"\n")

    def heard(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._lines.readline())
        return told

    def load(self) -> dict[str, Any]:
        """The next summary in which something arrived."""
        while True:
            found: dict[str, Any] = self.heard().get("load") or {"arrived": 0}
            if found["arrived"]:
                return found

    def ask(self, path: str = "/", method: str = "GET", body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG_S)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, names)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, answer.read().decode(), told)
        finally:
            connection.close()

    def resident_mb(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@contextmanager
def gateway(
    folder: Path, replicas: int = 1, notes: Path | None = None, **bounds: Any
) -> Iterator[tuple[GatewayProcess, list[ReplicaProcess]]]:
    """With so many replicas, all ready."""
    environment = {"REPLICA_NOTES": str(notes)} if notes else {}
    servers: list[ReplicaProcess] = []
    made = None
    try:
        servers += [ReplicaProcess(f"r{number}", **environment) for number in range(replicas)]
        made = GatewayProcess(folder, **bounds)
        made.tell(*[server.row() for server in servers])
        yield made, servers
    finally:
        for server in servers:
            server.kill()
        if made is not None:
            made.disconnect()
            made.process.terminate()
            made.process.wait(LONG_S)
