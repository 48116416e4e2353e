"""A service for other machines: what `up --listen` asks for the daemon holds for its services."""

from __future__ import annotations

import http.client
import ssl
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from daemon_process import DaemonProcess, killable_daemon
from dovetail.core.errors import BadInput
from dovetail.jobfiles.service_model import place_of, read_service
from own_certificate import certificate, free_port, needs_openssl
from service_daemon import ServiceDaemon
from waiting import LONG_S, until


def status_at(made: ServiceDaemon, cert: Path, token: str) -> int:
    port = int(made.row()["address"].rpartition(":")[2])
    trusting = ssl.create_default_context(cafile=str(cert))
    line = http.client.HTTPSConnection("localhost", port, timeout=LONG_S, context=trusting)
    with closing(line):
        line.request("GET", "/", headers={"authorization": f"Bearer {token}"})
        return line.getresponse().status


def stopped(daemon: DaemonProcess, made: ServiceDaemon) -> None:
    for row in daemon.get("/v1/services")["services"]:
        made.change("stop", row["id"])
    daemon.close()


def test_a_service_for_other_machines_needs_a_daemon_that_is_open_to_them(tmp_path: Path) -> None:
    with killable_daemon(tmp_path / "home", slots=1) as daemon:
        daemon.start()
        made = ServiceDaemon(daemon)
        for listen in (f"0.0.0.0:{free_port()}", f"[::]:{free_port()}"):
            with pytest.raises(Exception, match=r"up --listen HOST:PORT --tls-cert FILE"):
                made.serve(listen=listen)
        row = made.serve(listen=f"127.0.0.1:{free_port()}")
        assert row["address"].startswith("http://127.0.0.1:")
        assert not row["needs_token"]
        stopped(daemon, made)


def test_without_a_certificate_it_is_refused_unless_the_network_is_said_to_be_safe(
    tmp_path: Path,
) -> None:
    here = f"127.0.0.1:{free_port()}"
    with killable_daemon(tmp_path / "home", slots=1, listen=here) as daemon:
        daemon.start()
        with pytest.raises(Exception, match="would read tokens and requests"):
            ServiceDaemon(daemon).serve(listen=f"0.0.0.0:{free_port()}")
        daemon.close()
    with killable_daemon(tmp_path / "other", slots=1, listen=here, without_tls=True) as daemon:
        daemon.start()
        made = ServiceDaemon(daemon)
        row = made.serve(listen=f"0.0.0.0:{free_port()}")
        assert row["needs_token"]
        assert row["address"].startswith("http://")
        stopped(daemon, made)


def secure_settings(folder: Path) -> tuple[Path, dict[str, Any]]:
    cert, key = certificate(folder)
    asked = {"listen": f"127.0.0.1:{free_port()}", "tls_cert": str(cert), "tls_key": str(key)}
    return cert, {"slots": 2, **asked}


@needs_openssl
def test_users_tokens_open_it_until_they_are_revoked_also_while_the_daemon_is_away(
    tmp_path: Path,
) -> None:
    cert, settings = secure_settings(tmp_path)
    with killable_daemon(tmp_path / "home", **settings) as daemon:
        daemon.start()
        made = ServiceDaemon(daemon)
        mine = daemon.ask("POST", "/v1/tokens", {"name": "laptop"})
        row = made.serve(listen=f"0.0.0.0:{free_port()}")
        assert row["needs_token"]
        assert row["address"].startswith("https://")
        token = mine["secret"]
        until(lambda: status_at(made, cert, token) == 200)
        assert status_at(made, cert, (tmp_path / "home" / "token").read_text().strip()) == 200
        assert status_at(made, cert, "dvt_0_none") == 401
        port = row["address"].rpartition(":")[2]
        daemon.kill()
        trusting = ssl.create_default_context(cafile=str(cert))
        with closing(
            http.client.HTTPSConnection("localhost", int(port), timeout=LONG_S, context=trusting)
        ) as line:
            line.request("GET", "/", headers={"authorization": f"Bearer {token}"})
            assert line.getresponse().status == 200
        daemon.start()
        daemon.ask("POST", "/v1/tokens/revoke", {"ids": [mine["id"]]})
        until(lambda: status_at(made, cert, token) == 401)
        stopped(daemon, made)


@needs_openssl
def test_a_new_certificate_is_taken_up_and_a_closed_network_closes_the_address(
    tmp_path: Path,
) -> None:
    cert, settings = secure_settings(tmp_path)
    with killable_daemon(tmp_path / "home", **settings) as daemon:
        daemon.start()
        made = ServiceDaemon(daemon)
        token = daemon.ask("POST", "/v1/tokens", {"name": "laptop"})["secret"]
        made.serve(listen=f"0.0.0.0:{free_port()}")
        until(lambda: status_at(made, cert, token) == 200)
        daemon.kill()
        renewed, _ = certificate(tmp_path)  # in the place of the old one
        daemon.start()
        until(lambda: _is_trusted(made, renewed, token))
        daemon.kill()
    with killable_daemon(tmp_path / "home", slots=2) as daemon:
        daemon.start()
        made = ServiceDaemon(daemon)
        assert "can be reached from other machines" in made.wait_for_trouble("--listen")["trouble"]
        port = int(made.row()["address"].rpartition(":")[2])
        until(lambda: _is_closed(port))
        stopped(daemon, made)


def _is_trusted(made: ServiceDaemon, cert: Path, token: str) -> bool:
    try:
        return status_at(made, cert, token) == 200
    except (OSError, http.client.HTTPException):
        return False


def _is_closed(port: int) -> bool:
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S)) as line:
            line.connect()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize(
    "listen", ["nowhere:80", "0.0.0.0:0", "0.0.0.0", "::1", "x", "1.2.3.4:99999"]
)
def test_an_address_that_is_none_is_one_line(listen: str) -> None:
    with pytest.raises(BadInput, match="is neither a port, such as 8080, nor an address"):
        read_service({"name": "a", "command": ["a"], "listen": listen})


def test_an_older_description_with_a_port_alone_is_read_as_before() -> None:
    found = read_service({"name": "a", "command": ["a"], "listen": 8080}).listen
    assert found is not None
    assert place_of(found) == ("127.0.0.1", 8080)
