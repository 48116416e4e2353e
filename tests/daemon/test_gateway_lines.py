"""What a gateway says is checked before it is believed: in a cluster it may be its users'."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict
from typing import Any

import pytest

from dovetail.daemon.services.gateways import GatewayLine
from dovetail.gateway.load import LoadMeter
from dovetail.workloads.service.recent_load import RecentLoad
from dovetail.worlds.hosting import GatewayLost

LOAD = asdict(LoadMeter(None, 0.0).summary(1.0))


class Pair:
    """A door to a gateway that is this test."""

    def __init__(self) -> None:
        self.theirs, self._ours = socket.socketpair()

    def connect(self) -> socket.socket:
        return self._ours

    def start(self) -> None: ...

    def end(self) -> None: ...


def said(*lines: bytes) -> list[dict[str, Any]]:
    pair = Pair()
    line = GatewayLine(pair)
    line.open()
    with pair.theirs:
        pair.theirs.sendall(b"".join(own + b"\n" for own in lines))
        try:
            return list(line.hear(5.0))
        finally:
            line.close()


def test_sums_of_the_load_are_heard() -> None:
    rows = [{"load": LOAD, "busy": {"0": 2}}, {"waiting": 3, "busy": {}}]
    assert said(*[json.dumps(row).encode() for row in rows]) == rows


def test_a_gateway_of_before_is_understood() -> None:
    """It outlives a daemon that is upgraded, and does not say the tail and the mean."""
    before = {name: own for name, own in LOAD.items() if name not in ("tail_s", "mean_in_flight")}
    before |= {"in_flight": 3, "p99_s": 0.4}
    (row,) = said(json.dumps({"load": before, "busy": {}}).encode())
    load = RecentLoad(10.0)
    load.seen(0.0, 1, 0.0, 0.0)
    load.add(row["load"], 5.0)
    seen = load.seen(5.0, 1, 0.0, 0.0)
    assert (seen.in_flight, seen.tail_s) == (3.0, 0.4)


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"7",
        b'{"busy": [1]}',
        b'{"busy": {"0": "many"}}',
        b'{"busy": {"0": -1}}',
        b'{"busy": {}, "waiting": 1e400}',
        b'{"busy": {}, "load": {}}',
        b'{"busy": {}, "load": [1]}',
        json.dumps({"load": {**LOAD, "arrived": float("nan")}}).encode(),
        json.dumps({"load": {**LOAD, "p99_s": None}}).encode(),
    ],
)
def test_what_cannot_be_believed_ends_the_line_in_one_word(line: bytes) -> None:
    with pytest.raises(GatewayLost, match="its gateway says what nobody understands"):
        said(line)
