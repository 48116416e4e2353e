"""Replicas that answer whatever they like: who asks them for their health is held up by none."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, thread_time

import pytest

from dovetail.daemon.services.asked import asked
from dovetail.worlds.hosting import Endpoint
from service_daemon import service_daemon
from waiting import until

Answer = Callable[[socket.socket], None]


@contextmanager
def listener(answer: Answer) -> Iterator[int]:
    """A server that does that with whoever connects."""

    def serve() -> None:
        try:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                answer(connection)
        except OSError:
            pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])


def again_and_again(data: bytes, pause_s: float) -> Answer:
    def answer(connection: socket.socket) -> None:
        over = threading.Event()
        while not over.wait(pause_s):
            connection.sendall(data)

    return answer


@pytest.mark.parametrize(
    ("data", "pause_s"),
    [
        (b"x", 0.05),
        (b"HTTP/1.1 100 Continue\r\n\r\n", 0.05),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 0.0),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000, 0.0),
    ],
    ids=["drips", "go-on-slowly", "go-on", "heads"],
)
def test_an_answer_that_never_ends_is_given_up_in_time(data: bytes, pause_s: float) -> None:
    with listener(again_and_again(data, pause_s)) as port:
        began, worked = monotonic(), thread_time()
        why = asked(Endpoint("127.0.0.1", port), "GET", "/health", within_s=0.5)
        assert why
        assert monotonic() - began < 10.0
        assert thread_time() - worked < 1.0


def test_what_a_replica_says_instead_of_http_is_not_repeated() -> None:
    hostile = b"\x1b]0;owned\x07\x1b[2J" + b"y" * 5000 + b"\r\n\r\n"
    with listener(lambda connection: connection.sendall(hostile)) as port:
        why = asked(Endpoint("127.0.0.1", port), "GET", "/health", 5.0)
    assert "no HTTP" in why
    assert why.isprintable()
    assert len(why) < 200


def test_a_status_is_all_that_is_read_of_a_good_answer() -> None:
    good = b"HTTP/1.1 204 No Content\r\n\r\n"
    with listener(lambda connection: connection.sendall(good)) as port:
        assert asked(Endpoint("127.0.0.1", port), "GET", "/health", 5.0) == ""
    with listener(lambda connection: connection.sendall(b"HTTP/1.0 503 no\r\n\r\n")) as port:
        assert (
            asked(Endpoint("127.0.0.1", port), "GET", "/health", 5.0)
            == "GET /health is answered with 503"
        )


DRIP = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
held = server.accept()[0]
print("asked", flush=True)
while True:
    held.send(b"H")
    time.sleep(0.05)
"""


def test_a_daemon_ends_though_a_replica_drips() -> None:
    with service_daemon(slots=1) as made:
        made.serve(command=[sys.executable, "-c", DRIP, "{port}"])
        until(lambda: "asked" in made.daemon.text("/v1/jobs/1/log"))
        began = monotonic()
        made.daemon.stop()
        assert monotonic() - began < 30
