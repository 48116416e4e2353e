"""A gateway in a pod: its line is for the one controller whose certificate it was given."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.worlds.gateway_settings import CERTIFICATE, GatewaySettings
from dovetail.worlds.tls_identity import TlsIdentity, kept_identity, new_identity
from gateway_process import free_port
from own_certificate import needs_openssl
from waiting import LONG_S

pytestmark = needs_openssl
ORDER = json.dumps({"replicas": [], "wake_s": 1.0, "why_none": "", "is_paused": False}).encode()


@pytest.fixture(scope="module")
def controller() -> TlsIdentity:
    return new_identity("controller")


@pytest.fixture
def gateway(controller: TlsIdentity) -> Iterator[tuple[int, bytes]]:
    """The port of its line, and the certificate that it shows."""
    port, known = free_port(), b64encode(controller.certificate).decode()
    settings = GatewaySettings("s", "127.0.0.1", free_port(), str(port), controller=known)
    words = [sys.executable, "-m", "dovetail.gateway", settings.text()]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        word, certificate = process.stdout.readline().decode().split()
        assert word == CERTIFICATE
        assert int(process.stdout.readline()) == settings.port  # it listens
        yield port, b64decode(certificate)
        process.terminate()
        assert process.wait(LONG_S) == 0


def heard(port: int, context: ssl.SSLContext) -> bytes:
    """What it answers to an order; nothing if it hangs up."""
    plain = socket.create_connection(("127.0.0.1", port), LONG_S)
    try:
        with context.wrap_socket(plain) as line:
            line.sendall(ORDER + b"\n")
            return line.recv(1 << 16)
    except OSError:
        return b""


def test_it_heeds_its_controller_and_nobody_else(
    gateway: tuple[int, bytes], controller: TlsIdentity
) -> None:
    port, certificate = gateway
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
    assert heard(port, new_identity("controller").client_side(certificate)) == b""
    assert heard(port, nobody) == b""
    assert "busy" in json.loads(heard(port, controller.client_side(certificate)).splitlines()[0])


def test_a_controller_says_nothing_to_a_gateway_whose_certificate_it_does_not_know(
    gateway: tuple[int, bytes], controller: TlsIdentity
) -> None:
    other = new_identity("gateway").certificate
    plain = socket.create_connection(("127.0.0.1", gateway[0]), LONG_S)
    with plain, pytest.raises(ssl.SSLCertVerificationError):
        controller.client_side(other).wrap_socket(plain)


def test_a_controller_keeps_its_key_in_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    first = kept_identity(path, "controller")
    assert kept_identity(path, "controller").certificate == first.certificate
    assert path.stat().st_mode & 0o777 == 0o600
