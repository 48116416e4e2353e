"""A Python function as a model server: real processes, real requests."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from dovetail.sdk.serving.batch_times import BatchTimes
from service_daemon import ask_at, service_daemon
from waiting import LONG_S, until

EXAMPLE = Path(__file__).parents[2] / "examples" / "serve_python" / "server.py"
SERVER = """
import sys, time
from dovetail.sdk import serve

def predict(batch):
    print(batch, flush=True)
    time.sleep(float(sys.argv[1]))
    if "few" in batch:
        return []
    return [[10 / item, len(batch)] for item in batch]  # 0 and words make it fail

serve(predict, max_batch=4, rule=sys.argv[2], example=1)
"""


class Asked:
    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, item: Any, **headers: str) -> tuple[int, Any]:
        return self.raw(json.dumps(item).encode(), headers)

    def raw(
        self,
        body: Any,
        headers: dict[str, str] | None = None,
        method: str = "POST",
        path: str = "/",
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG_S)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@contextmanager
def server(
    seconds: float = 0.0, rule: str = "static", slo_ms: float = 0.0
) -> Iterator[tuple[Asked, subprocess.Popen[bytes]]]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    if slo_ms:
        environment["DOVETAIL_SLO_MS"] = str(slo_ms)
    words = [sys.executable, "-c", SERVER, str(seconds), rule]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as process:
        asked = Asked(port)
        try:
            until(lambda: is_ready(asked))
            yield asked, process
        finally:
            process.kill()


def is_ready(asked: Asked) -> bool:
    try:
        return asked.raw(None, method="GET", path="/health")[0] == 200
    except OSError:
        return False


def test_requests_that_come_together_are_one_batch() -> None:
    with server(0.3) as (ask, _), ThreadPoolExecutor(5) as pool:
        first = pool.submit(ask, 1)
        sleep(0.1)  # it is alone: the others come while it is worked on
        others = list(pool.map(ask, [2, 4, 5, 10]))
        answers = [first.result(), *others]
    assert [answer[0] for _, answer in answers] == [10, 5, 2.5, 2, 1]
    sizes = sorted(answer[1] for _, answer in answers)
    assert sizes == [1, 4, 4, 4, 4]


def test_an_item_that_makes_predict_fail_does_not_fail_its_neighbours() -> None:
    with server(0.3) as (ask, _), ThreadPoolExecutor(4) as pool:
        pool.submit(ask, 1)
        answers = list(pool.map(ask, [2, 0, "x"]))
    assert answers[0][0] == 200
    assert answers[1] == (500, {"error": "predict failed: ZeroDivisionError: division by zero"})
    assert answers[2][0] == 500


def test_mistakes_are_told_in_one_line() -> None:
    with server() as (ask, _):
        assert ask("few") == (
            500,
            {"error": "predict failed: ValueError: predict gave 0 answers for 1 items"},
        )
        status, told = ask.raw(b"{")
        assert status == 400
        assert told["error"].startswith("the body cannot be read: ")
        assert ask.raw(iter([b"1", b"0"]))[1] == [1, 1]  # in chunks
        assert ask.raw(None, method="GET")[0] == 404
        assert ask.raw(b"", {"Content-Length": str(10**12)})[0] == 413


def test_a_body_that_a_question_has_is_no_request() -> None:
    within = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n1"
    head = b"GET /health HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(within)
    with (
        server() as (ask, _),
        socket.create_connection(("127.0.0.1", ask.port), LONG_S) as client,
        client.makefile("rb") as answers,
    ):
        client.sendall(head + within)
        client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            assert answers.read().count(b"HTTP/1.1 ") == 1


def test_who_cannot_be_in_time_is_told_at_once_by_the_rule_of_the_simulator() -> None:
    with server(0.1, rule="clockwork", slo_ms=250) as (ask, _):
        assert ask(1)[0] == 200
        status, told = ask(1, **{"x-dovetail-age": "0.2"})  # it has waited at the gateway
        assert status == 503
        assert "too late for its SLO" in told["error"]


def test_at_sigterm_it_answers_what_it_has_and_ends() -> None:
    with server(0.5) as (ask, process), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, 2)
        assert process.stdout is not None
        assert b"[2]\n" in process.stdout  # read up to there: it is at work on the request
        process.send_signal(signal.SIGTERM)
        assert asked.result()[0] == 200
        assert process.wait(LONG_S) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("rule='best'", "there is no batching rule 'best'; choose from static"),
        ("max_batch=0", "a batch has at least 1 item"),
        ("port=None", "no port is given, and PORT is not set"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(arguments: str, told: str) -> None:
    given = arguments if "port" in arguments else f"port=0, {arguments}"
    script = f"from dovetail.sdk import serve; serve(len, {given})"
    environment = {name: value for name, value in os.environ.items() if name != "PORT"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert told in done.stderr


def test_times_between_measured_sizes_are_on_a_line() -> None:
    times = BatchTimes(8)
    times.took(2, 0.2)
    assert times == pytest.approx([0, 0.2, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    for _ in range(5):
        times.took(4, 0.3)
    assert times == pytest.approx([0, 0.2, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5])


def test_the_example_answers_as_a_service() -> None:
    with service_daemon() as made:
        row = made.serve(command=[sys.executable, str(EXAMPLE)], slo_ms=10_000, at_once=32)
        ask = Asked(int(row["address"].rpartition(":")[2]))
        assert ask([0.1, 0.7, 0.2]) == (200, 9)
        assert ask_at(row["address"], "/health").status == 200
