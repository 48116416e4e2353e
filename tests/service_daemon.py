"""A real daemon with services whose replicas are real servers."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daemon_process import DaemonProcess, in_memory, killable_daemon
from gateway_process import Answer
from waiting import LONG_S, until

SERVER = Path(__file__).parent / "replica_server.py"


class ServiceDaemon:
    """`serve` declares a service; `ask` sends a request to its address."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon

    def serve(self, name: str = "answers", **spec: Any) -> Any:
        spec = {
            "command": [sys.executable, str(SERVER), "{port}"],
            **spec,
        }
        environment = {
            name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ
        }
        asked = {"spec": {"name": name, **spec}, "workdir": "/", "environment": environment}
        return self.daemon.ask("POST", "/v1/services", asked)

    def row(self, name: str = "answers") -> Any:
        return self.daemon.get(f"/v1/services/{name}")

    def change(self, verb: str, name: str = "answers", **asked: Any) -> Any:
        return self.daemon.ask("POST", f"/v1/services/{name}/{verb}", asked or None)

    def states(self, name: str = "answers") -> list[str]:
        return [own["state"] for own in self.row(name)["replicas"]]

    def wait_for(self, *states: str, name: str = "answers") -> Any:
        """The service's row once its replicas are in these states, in any order."""

        def there() -> Any:
            row = self.row(name)
            return (
                row if sorted(own["state"] for own in row["replicas"]) == sorted(states) else None
            )

        return until(there)

    def wait_for_trouble(self, words: str, name: str = "answers") -> Any:
        """The service's row once its trouble has these words."""

        def there() -> Any:
            row = self.row(name)
            return row if words in row["trouble"] else None

        return until(there)

    def ask(self, path: str = "/", name: str = "answers", method: str = "GET") -> Answer:
        return ask_at(self.row(name)["address"], path, method)

    def pids(self, name: str = "answers") -> list[int]:
        jobs = [own["job"] for own in self.row(name)["replicas"]]
        return [pid for job in jobs if (pid := self.daemon.run(job).main_pid()) is not None]


def ask_at(address: str, path: str = "/", method: str = "GET") -> Answer:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=LONG_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, answer.read().decode(), headers)
    finally:
        connection.close()


def error_of(answer: Answer) -> str:
    return str(json.loads(answer.text)["error"])


@contextmanager
def service_daemon(slots: int = 4, **settings: Any) -> Iterator[ServiceDaemon]:
    with in_memory() as folder, killable_daemon(folder, slots=slots, **settings) as daemon:
        daemon.start()
        made = ServiceDaemon(daemon)
        try:
            yield made
        finally:
            if daemon.process.poll() is None:
                for row in daemon.get("/v1/services")["services"]:
                    made.change("stop", row["id"])
                daemon.close()
