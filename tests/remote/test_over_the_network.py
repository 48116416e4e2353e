"""`dovetail --host https://…`: the same commands, over TLS and with a token of one's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge_process import BridgeProcess
from daemon_process import DaemonProcess
from own_certificate import certificate, free_port, needs_openssl
from waiting import LONG_S

pytestmark = needs_openssl


class Laptop:
    """Knows the box by a profile of its configuration file."""

    def __init__(self, live: DaemonProcess, folder: Path, port: int, ca: Path) -> None:
        self.live, self.folder, self.port = live, folder, port
        self.token = folder / "token"
        self.token.write_text(live.ask("POST", "/v1/tokens", {"name": "laptop"})["secret"] + "\n")
        self.token.chmod(0o600)
        self.profile(ca=str(ca))
        self.environment = {**os.environ, "XDG_CONFIG_HOME": str(folder), "DOVETAIL_HOST": "box"}

    def profile(self, **fields: object) -> None:
        own = {"url": f"https://localhost:{self.port}", "token_file": str(self.token), **fields}
        lines = [f"{name} = {json.dumps(value)}" for name, value in own.items()]
        settings = self.folder / "dovetail"
        settings.mkdir(exist_ok=True)
        (settings / "config.toml").write_text("[hosts.box]\n" + "\n".join(lines) + "\n")

    def __call__(self, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "dovetail.cli.main", *words],
            env=self.environment,
            input=given,
            capture_output=True,
            timeout=LONG_S,
            check=False,
        )


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    folder = tmp_path_factory.mktemp("laptop")
    cert, key = certificate(folder)
    port = free_port()
    listening: dict[str, Any] = {"listen": f"127.0.0.1:{port}", "tls_cert": str(cert)}
    live = DaemonProcess(tmp_path_factory.mktemp("home"), tls_key=str(key), **listening)
    live.start()
    yield Laptop(live, folder, port, cert)
    try:
        live.close()
    finally:
        live.kill()


def test_commands_work_as_on_the_box_itself(laptop: Laptop) -> None:
    said = laptop("run", "--", "sh", "-c", "cat; echo err >&2; exit 5", given=b"in\n")
    assert (said.returncode, said.stdout) == (5, b"in\n")
    assert b"err" in said.stderr
    job_id = laptop("submit", "-q", "--", "sh", "-c", "echo out").stdout.decode().strip()
    assert laptop("logs", "-f", job_id).stdout == b"out\n"
    assert json.loads(laptop("show", "--json", job_id).stdout)["phase"] == "finished"
    assert laptop("nodes").returncode == laptop("why", job_id).returncode == 0


def test_the_token_is_no_jobs_business(laptop: Laptop) -> None:
    said = laptop("run", "--", "env")
    assert b"DOVETAIL_HOST" not in said.stdout
    assert laptop.token.read_bytes().strip() not in said.stdout


def test_the_page_is_opened_here_and_its_requests_bear_the_token(laptop: Laptop) -> None:
    with BridgeProcess(None, environment=laptop.environment) as bridge:
        assert bridge.enter().status == 200
        assert json.loads(bridge.ask("GET", "/v1/health").text)["pid"] == laptop.live.process.pid
        assert bridge.ask("GET", "/v1/health", cookie=None).status == 401


def test_what_is_of_the_machine_is_typed_there(laptop: Laptop) -> None:
    for command in ("up", "down", "doctor"):
        said = laptop(command)
        assert (said.returncode, b"typed on the machine itself" in said.stderr) == (1, True)
    assert laptop("policies").returncode == 0  # asks no daemon


def test_what_cannot_be_trusted_is_told_in_one_line(laptop: Laptop, tmp_path: Path) -> None:
    def told(**fields: object) -> str:
        laptop.profile(**fields)
        said = laptop("queue")
        assert said.returncode != 0
        (line,) = said.stderr.decode().splitlines()
        return line

    good = {"ca": str(laptop.folder / "cert.pem")}
    try:
        assert "its certificate is not known here" in told()
        assert "has no 'cert'" in told(cert="x")
        assert "say either ssh or url" in told(ssh="box")
        wrong = tmp_path / "wrong"
        wrong.write_text("dvt_0_0")
        assert "others can read the token" in told(**good, token_file=str(wrong))
        wrong.chmod(0o600)
        assert "no token of this daemon" in told(**good, token_file=str(wrong))
        wrong.write_text("two words")
        assert "is no token" in told(**good, token_file=str(wrong))
        assert "Connection refused" in told(**good, url=f"https://localhost:{free_port()}")
    finally:
        laptop.profile(**good)
