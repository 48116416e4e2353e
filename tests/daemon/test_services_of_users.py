"""Services in a daemon of several users: gateways and replicas have their owners' rights, no more."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon_process import killable_daemon
from dovetail.daemon.services import health
from dovetail.home import home_in
from dovetail.worlds.hosting import Endpoint
from dovetail.worlds.local.services.ports import stranger_at
from service_daemon import ServiceDaemon, error_of
from two_users import NOBODY, as_nobody, as_root, open_folder
from waiting import until

__all__ = ["open_folder"]
pytestmark = as_root
LISTEN = """
import encodings.idna, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
os.setgid(65534)
os.setuid(65534)
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("there", flush=True)
server.serve_forever()
"""


@pytest.fixture
def shared(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceDaemon]:
    monkeypatch.setenv("PRIVATE_TO_THE_DAEMON", "hunter2")
    with killable_daemon(open_folder / "home", slots=2, system=True, group="nogroup") as daemon:
        daemon.start()
        made = ServiceDaemon(daemon)
        yield made
        for row in daemon.get("/v1/services")["services"]:
            made.change("stop", row["id"])
        daemon.close()


def serve_as_nobody(made: ServiceDaemon, **spec: Any) -> Any:
    """With a priority that every user may have."""
    asked = {
        "spec": {"name": "answers", "command": ["/bin/sleep", "600"], "priority": 0, **spec},
        "workdir": "/",
        "environment": {"PATH": os.environ["PATH"]},
    }
    status, row = as_nobody(made.daemon.socket, "POST", "/v1/services", asked)
    assert status == 201, row
    return row


def test_a_gateway_has_its_owners_rights_and_nothing_of_the_daemons_environment(
    shared: ServiceDaemon,
) -> None:
    row = serve_as_nobody(shared, queue_s=0.5)
    assert shared.ask().status == 503  # the gateway's own answer: nobody listens behind it
    (gateway,) = gateways(row["name"])
    assert owner_of(gateway) == (NOBODY, NOBODY)
    assert b"hunter2" not in (gateway / "environ").read_bytes()
    (pid,) = shared.pids()
    assert owner_of(Path(f"/proc/{pid}"))[0] == NOBODY


def test_a_user_who_may_not_go_before_training_is_told_what_else_there_is(
    shared: ServiceDaemon,
) -> None:
    asked = {"spec": {"name": "a", "command": ["x"]}, "workdir": "/", "environment": {}}
    status, told = as_nobody(shared.daemon.socket, "POST", "/v1/services", asked)
    assert status == 403
    assert "with priority: 0 they take what is free" in told["error"]


def test_nobody_but_the_daemon_speaks_to_a_gateway_or_changes_its_log(
    shared: ServiceDaemon,
) -> None:
    row = serve_as_nobody(shared)
    folder = shared.daemon.folder / "services" / row["id"]
    found = folder.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o700)


def test_a_port_held_by_another_user_is_not_taken_for_the_replica(shared: ServiceDaemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    row = shared.serve(port=port, command=["/bin/sleep", "600"], queue_s=0.5)
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(port)], stdout=subprocess.PIPE
    ) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"there\n"
            until(lambda: shared.states() == ["sick"])
            assert f"port {port} is held by a process of nobody" in shared.row()["trouble"]
            answer = shared.ask()
            assert (answer.status, "too busy" in error_of(answer)) == (503, True)
        finally:
            other.kill()
    shared.change("stop", row["id"])


def test_who_takes_the_port_of_a_healthy_replica_is_neither_ready_nor_told_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "_SELDOM_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    looking: list[bool] = []
    watch = health.HealthWatch("/", lambda at: stranger_at(at.port, 0) if looking else "")
    asked_as = [sys.executable, "-c", LISTEN, str(port)]
    with subprocess.Popen(asked_as, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"there\n"
            until(lambda: looked(watch, port).is_healthy(1))
            looking.append(True)
            until(lambda: looked(watch, port).why_not(1))
            assert not watch.is_healthy(1)
            told = watch.post(1, "/sleep").result()
            assert told == f"port {port} is held by a process of nobody"
        finally:
            other.kill()
            watch.stop()


@pytest.mark.parametrize(
    "said",
    [{"body_mb": 1e-9}, {"health": "/\x1b[2J"}, {"health": "/" + "x" * 5000}, {"health": "/ü"}],
)
def test_a_description_that_cannot_be_carried_out_leaves_nothing_behind(
    shared: ServiceDaemon, said: Any
) -> None:
    asked = {"spec": {"name": "a", "command": ["x"], "priority": 0, **said}, "workdir": "/"}
    asked["environment"] = {}
    status, _ = as_nobody(shared.daemon.socket, "POST", "/v1/services", asked)
    assert status == 400
    assert shared.daemon.get("/v1/services")["services"] == []


def test_services_that_come_and_go_count_against_the_bytes_of_a_day(shared: ServiceDaemon) -> None:
    shared.daemon.ask("PUT", "/v1/limits", {"user": "nobody", "megabytes": 0.06})
    command = ["/bin/sleep", "600", "x" * 20_000]
    row = serve_as_nobody(shared, command=command, replicas={"min": 0, "max": 1})
    shared.change("stop", row["id"])
    asked = {"spec": {"name": "a", "command": command * 3, "priority": 0}, "workdir": "/"}
    asked["environment"] = {}
    status, told = as_nobody(shared.daemon.socket, "POST", "/v1/services", asked)
    assert (status, "MB a day" in told["error"]) == (403, True)


def test_a_service_that_a_newer_daemon_refuses_does_not_keep_it_from_starting(
    shared: ServiceDaemon,
) -> None:
    row = serve_as_nobody(shared, replicas={"min": 0, "max": 1})
    shared.daemon.stop()
    path = home_in(shared.daemon.folder).environment(row["id"])
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "envs": {"A": "\0"}}))
    shared.daemon.start()
    until(lambda: "service 'answers' cannot be looked after" in shared.daemon.notices())
    assert shared.row()["trouble"] == "nobody looks after it"


def test_an_address_that_cannot_be_had_is_tried_less_and_less_often(shared: ServiceDaemon) -> None:
    serve_as_nobody(shared, listen=1)
    until(lambda: "port 1 of 127.0.0.1 cannot be used" in shared.row()["trouble"])
    gone = shared.daemon.folder / "services" / "v1"
    opened = set[int]()
    deadline = time.monotonic() + 4
    while time.monotonic() < deadline:
        opened.add(gone.joinpath("line").stat().st_ino if gone.joinpath("line").exists() else 0)
        time.sleep(0.05)
    assert len(opened) <= 3
    assert "cannot be used" in shared.row()["trouble"]


def looked(watch: health.HealthWatch, port: int) -> health.HealthWatch:
    watch.look({1: Endpoint("127.0.0.1", port)})
    return watch


def gateways(service: str) -> list[Path]:
    """Their folders in /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"dovetail.gateway" in words and any(b"/home/services/" in w for w in words):
            found.append(folder)
    return found


def owner_of(process: Path) -> tuple[int, int]:
    rows = (process / "status").read_text().splitlines()
    ids = {row.split()[0]: row.split()[1] for row in rows if row.startswith(("Uid:", "Gid:"))}
    return int(ids["Uid:"]), int(ids["Gid:"])
