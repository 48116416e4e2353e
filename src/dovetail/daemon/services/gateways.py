"""The daemon's end of the line to a gateway, which its world starts or finds: it is told and heard."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from threading import Condition
from typing import Any, Final

from dovetail.gateway.load import LoadSummary
from dovetail.worlds.hosting import GatewayDoor, GatewayLost

_SEND_WITHIN_S = 20.0
_HEEDED_WITHIN_S = 2.0
_MOST_BYTES = 1 << 20
_MOST = 1e15  # of anything
_OF_A_LOAD: Final = {own.name for own in fields(LoadSummary) if own.default is MISSING}


class GatewayLine:
    """To the gateway of one service."""

    def __init__(self, door: GatewayDoor) -> None:
        self._door: Final = door
        self._line: socket.socket | None = None
        self._rest = b""
        self._is_paused = False  # as it says
        self._heard: Final = Condition()

    @property
    def is_open(self) -> bool:
        return self._line is not None

    def open(self) -> None:
        """To the one that an earlier daemon left, or to a new one."""
        if not self._connect():
            self._door.start()
            if not self._connect():
                raise GatewayLost("its gateway does not answer")

    def _connect(self) -> bool:
        self._line, self._rest = self._door.connect(), b""
        return self._line is not None

    def tell(self, told: Mapping[str, Any]) -> None:
        """Its replicas; how long waking one takes; why there is none; is it paused?"""
        self._send(told)

    def stop(self) -> None:
        """It answers what it has, and ends."""
        if self._line is not None or self._connect():
            with suppress(GatewayLost):
                self._send({"stop": True})
            self.close()
        self._door.end()

    def _send(self, row: Mapping[str, Any]) -> None:
        assert self._line is not None
        try:
            self._line.settimeout(_SEND_WITHIN_S)
            self._line.sendall(json.dumps(row).encode() + b"\n")
        except OSError as error:
            self.close()
            raise GatewayLost(f"its gateway is gone: {error}") from None

    def hear(self, within_s: float) -> Iterator[dict[str, Any]]:
        """What it says until then; as soon as it has said something, that."""
        assert self._line is not None
        try:
            self._line.settimeout(within_s)  # not `select`: what comes may be encrypted
            data = self._line.recv(_MOST_BYTES)
        except TimeoutError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            raise GatewayLost("its gateway is gone")
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MOST_BYTES:
            self.close()
            raise GatewayLost("its gateway says too much at once")
        try:
            rows = [_understood(line) for line in lines]
        except GatewayLost:
            self.close()
            raise
        for row in rows:
            with self._heard:
                self._is_paused = bool(row.get("is_paused"))
                self._heard.notify_all()
            yield row

    def wait_for_pause(self, is_paused: bool) -> None:
        """Until it refuses what comes, or does so no more. From any thread; not for one that is lost."""
        with self._heard:
            self._heard.wait_for(lambda: self._is_paused == is_paused, _HEEDED_WITHIN_S)

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


def _understood(line: bytes) -> dict[str, Any]:
    """In a cluster whoever may edit a namespace may put another in the place of its gateways: what one
    says is checked before it is believed."""
    try:
        row: dict[str, Any] = json.loads(line)
        load = row.get("load")
        if load is not None and not load.keys() >= _OF_A_LOAD:
            raise ValueError
        told = (*row.get("busy", {}).values(), row.get("waiting", 0), *(load or {}).values())
        if not all(isinstance(own, int | float) and 0 <= own < _MOST for own in told):
            raise ValueError
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise GatewayLost("its gateway says what nobody understands") from None
    return row
