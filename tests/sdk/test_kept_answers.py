"""Answers that are kept: which ones go, and that `predict` is not asked again."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from math import inf

import pytest

from dovetail.core.model import Node
from dovetail.sdk.batching.kept_answers import KeptAnswers
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingOutcome, ServingScene, simulate
from dovetail.serving.traffic.catalogue import make
from waiting import LONG_S, until

COUNTS = """
from dovetail.sdk import serve
asked = []

def predict(batch):
    asked.extend(batch)
    return [[item, len(asked)] for item in batch]

serve(predict, rule="clipper:cache=2")
"""


def test_what_was_not_asked_for_longest_goes() -> None:
    kept = KeptAnswers(2)
    kept.keep("a", 1)
    kept.keep("b", 2)
    assert kept.get("a") == 1
    kept.keep("c", 3)
    assert [kept.get(name) for name in "abc"] == [1, None, 3]


def simulated(*requests: Request, policy: str = "clipper:cache=100") -> ServingOutcome:
    model = ServedModel("m", AffineLatency(0.004, 0.002), slo_s=0.02, max_batch=8)
    return simulate(ServingScene({"m": model}, [Node("n", 1)]), policy, requests)


def test_a_hit_takes_no_time() -> None:
    found = simulated(*[Request(at, "m", input="cat") for at in (0.0, 1.0, 2.0)])
    whole = found.tally.whole()
    assert whole.served == 3
    assert whole.latency.total == pytest.approx(0.006)
    unknown = simulated(*[Request(at, "m") for at in (0.0, 1.0, 2.0)])
    assert unknown.tally.whole().latency.total == pytest.approx(3 * 0.006)


def test_of_inputs_that_are_as_likely_as_many_hit_as_are_kept() -> None:
    text = "poisson:rate=100:seconds=400:inputs=400"
    found = simulated(*make(text).requests("m", inf, 1))
    latency = found.tally.whole().latency
    assert latency.bins[0] / latency.count == pytest.approx(100 / 400, abs=0.02)


def test_a_model_server_gives_the_kept_answer_until_others_have_taken_its_place() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    with subprocess.Popen([sys.executable, "-c", COUNTS], env=environment) as process:
        try:
            until(lambda: answer_at(port, b"0") is not None)
            told = [answer_at(port, body) for body in (b"1", b"1", b"2", b"3", b"2", b"1")]
        finally:
            process.kill()
    assert told == [b"[1, 2]\n"] * 2 + [b"[2, 3]\n", b"[3, 4]\n", b"[2, 3]\n", b"[1, 5]\n"]


def answer_at(port: int, body: bytes) -> bytes | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S)
    try:
        connection.request("POST", "/", body)
        return connection.getresponse().read()
    except OSError:
        return None
    finally:
        connection.close()
