"""Clients who send what is allowed, or almost, to hold up a service or to fill its gateway's log."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway_process import GatewayProcess, gateway
from waiting import LONG_S

_SMUGGLED = b"GET /fail HTTP/1.1\r\nhost: a\r\n\r\n"


def sent(made: GatewayProcess, data: bytes) -> bytes:
    """The first that is answered; all of it if the connection is closed."""
    with socket.create_connection(("127.0.0.1", made.port), LONG_S) as client:
        client.sendall(data)
        answer = b""
        while b"\r\n\r\n" not in answer or answer.endswith(b"\r\n\r\n"):
            if not (data := client.recv(65536)):
                break
            answer += data
        return answer


def test_a_request_of_http_1_0_needs_no_host(tmp_path: Path) -> None:
    with gateway(tmp_path) as (made, _):
        assert sent(made, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "named",
    [b"host", b"content-length", b"Content-Length, HOST", b"close, transfer-encoding"],
)
def test_what_a_request_is_read_by_cannot_be_named_away(tmp_path: Path, named: bytes) -> None:
    """Else the replica would take its body for another request, or wait for one."""
    head = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: " + named + b"\r\ncontent-length: %d\r\n\r\n"
    with gateway(tmp_path, answer_s=5.0) as (made, _):
        answer = sent(made, head % len(_SMUGGLED) + _SMUGGLED)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b" %d" % len(_SMUGGLED))
        assert made.load()["failed"] == 0


def test_a_gateway_that_stumbles_says_so_a_few_times_only(
    caplog: pytest.LogCaptureFixture, loop_trouble: Callable[[int], None]
) -> None:
    loop_trouble(1000)
    assert 1 <= len(caplog.records) <= 20


@pytest.fixture
def loop_trouble() -> Callable[[int], None]:
    """That so many connections end in an error that nobody has thought of."""
    import asyncio

    from dovetail.gateway.troubles import FewTroubles

    async def stumble(times: int) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(FewTroubles())
        for number in range(times):
            try:
                raise RuntimeError(f"connection {number}")
            except RuntimeError as error:
                loop.call_exception_handler({"message": "stumbled", "exception": error})

    return lambda times: asyncio.run(stumble(times))
