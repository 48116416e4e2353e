"""Over the network: encrypted with a certificate, or refused, unless somebody says it may be read."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.daemon.http.access import listen_at
from dovetail.daemon.http.tls import context_for
from own_certificate import certificate, free_port, needs_openssl


@needs_openssl
def test_with_a_certificate_the_network_is_encrypted_and_the_socket_is_as_ever(
    start: Any, tmp_path: Path
) -> None:
    cert, key = certificate(tmp_path)
    home, port = tmp_path / "home", free_port()
    live = start(home, listen=f"127.0.0.1:{port}", tls_cert=str(cert), tls_key=str(key))
    token = (home / "token").read_text().strip()
    trusting = ssl.create_default_context(cafile=str(cert))
    connection = http.client.HTTPSConnection("localhost", port, timeout=120, context=trusting)
    connection.request("GET", "/v1/health", headers={"authorization": f"Bearer {token}"})
    assert connection.getresponse().status == 200
    connection.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        http.client.HTTPSConnection("localhost", port, timeout=120).request("GET", "/v1/health")
    plain = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    plain.request("GET", "/v1/health", headers={"authorization": f"Bearer {token}"})
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.getresponse()
    assert live.get("/v1/health")["system"] is False  # over the Unix socket


def test_in_the_clear_nobody_listens_beyond_this_machine_unless_told_to() -> None:
    with listen_at("127.0.0.1:0") as here:
        assert context_for(here, None, None, without=False) is None
    with listen_at("0.0.0.0:0") as everywhere:
        with pytest.raises(BadInput, match=r"would read the token .*--tls-cert .*--without-tls"):
            context_for(everywhere, None, None, without=False)
        assert context_for(everywhere, None, None, without=True) is None


@needs_openssl
def test_a_certificate_that_cannot_be_used_is_told_in_one_line(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with listen_at("127.0.0.1:0") as here:
        key.chmod(0o644)
        with pytest.raises(BadInput, match=r"can be read by everybody; try: chmod"):
            context_for(here, str(cert), str(key), without=False)
        key.chmod(0o600)
        other = tmp_path / "other.pem"
        other.write_text("no certificate")
        with pytest.raises(BadInput, match=r"the certificate .* cannot be used") as error:
            context_for(here, str(other), str(key), without=False)
        assert "\n" not in str(error.value)
        gone = str(tmp_path / "none.pem")
        for own_key in (None, str(key), gone):
            with pytest.raises(BadInput, match=r"cannot read the certificate .*none.pem: No such"):
                context_for(here, gone, own_key, without=False)
        with pytest.raises(BadInput, match=r"cannot read the key"):
            context_for(here, str(cert), str(tmp_path / "none.pem"), without=False)
