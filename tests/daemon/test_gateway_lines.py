"""What a gateway says is checked before it is believed: in a cluster it may be its users'."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict

import pytest

from dovetail.daemon.services.gateways import GatewayLine
from dovetail.gateway.load import LoadMeter
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


def said(*lines: bytes) -> list[object]:
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
