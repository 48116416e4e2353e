"""Clients who send what is allowed, or almost, to hold up a service or to fill its gateway's log."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

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


class _Careless(BaseHTTPRequestHandler):
    """It answers with the path, and reads no body: what follows a head is the next request to it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.path.encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def careless() -> Iterator[dict[str, Any]]:
    """Such a replica, as a daemon names it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Careless)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {"id": "r", "host": "127.0.0.1", "port": server.server_port, "standing": "ready"}
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
def test_a_body_that_a_replica_does_not_read_takes_nobodys_answer(
    tmp_path: Path, careless: dict[str, Any], method: str
) -> None:
    with gateway(tmp_path, replicas=0) as (made, _):
        made.tell(careless)
        assert made.ask("/mine", method, _SMUGGLED).text == "/mine"
        if method == "POST":
            time.sleep(0.2)  # there only what has come is seen
        assert made.ask("/yours").text == "/yours"
        assert made.ask("/others").text == "/others"


def test_of_two_lengths_of_an_answer_the_chunks_count(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n"
    with (
        socket.create_server(("127.0.0.1", 0)) as replica,
        gateway(tmp_path, replicas=0) as (made, _),
    ):

        def serve() -> None:
            connection, _ = replica.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer + b"2\r\nok\r\n0\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        port = replica.getsockname()[1]
        made.tell({"id": "r", "host": "127.0.0.1", "port": port, "standing": "ready"})
        assert made.ask("/").text == "ok"


def test_the_address_that_a_replica_is_told_ends_with_who_connected(tmp_path: Path) -> None:
    with gateway(tmp_path) as (made, _):
        forged = {"x_forwarded_for": "10.0.0.1", "x_dovetail_age": "3600"}
        told = made.ask("/headers", **forged).text
        assert "x-forwarded-for: 10.0.0.1, 127.0.0.1\n" in told
        assert "3600" not in told
        underlined = b"GET /headers HTTP/1.1\r\nhost: a\r\nX_Dovetail_Age: 3600\r\n\r\n"
        assert b"3600" not in sent(made, underlined)  # the same name to some servers


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
