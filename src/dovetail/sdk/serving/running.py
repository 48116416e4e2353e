"""A model server from its choices to its end."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final

from dovetail.sdk.batching import BatchRule, make
from dovetail.sdk.batching.kept_answers import KeptAnswers
from dovetail.sdk.serving.batching_loop import BatchingLoop, slo_seconds
from dovetail.sdk.serving.calls import CallLine
from dovetail.sdk.serving.http_front import HOST, HttpFront


@dataclass(frozen=True, slots=True)
class ServingChoices:
    """The arguments of `serve`."""

    max_batch: int
    rule: str
    slo_ms: float | None
    example: Any
    decode: Callable[[bytes], Any] | None
    encode: Callable[[Any], bytes] | None
    port: int | None
    most_waiting: int

    def __post_init__(self) -> None:
        if self.max_batch < 1:
            raise ValueError(f"max_batch={self.max_batch}: a batch has at least 1 item")

    def slo_s(self) -> float:
        told = os.environ.get("DOVETAIL_SLO_MS")
        if self.slo_ms is None and told:
            return slo_seconds(float(told))
        return slo_seconds(self.slo_ms)

    def port_number(self) -> int:
        told = os.environ.get("PORT")
        if self.port is None and not told:
            raise ValueError(
                "serve: no port is given, and PORT is not set; `dovetail serve` sets it"
            )
        return int(told or 0) if self.port is None else self.port


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


class ModelServer:
    def __init__(
        self, predict: Callable[[list[Any]], Sequence[Any]], choices: ServingChoices
    ) -> None:
        rule: BatchRule = make(choices.rule)
        slo_s, port = choices.slo_s(), choices.port_number()
        kept = getattr(rule, "cache", 0)
        self._line: Final = CallLine(choices.most_waiting)
        self._loop: Final = BatchingLoop(predict, rule, self._line, choices.max_batch, slo_s)
        self._example: Final = choices.example
        try:
            self._front: Final = HttpFront(
                *(port, self._line, slo_s),
                *(choices.decode or json.loads, choices.encode or as_json),
                KeptAnswers(kept) if kept else None,
            )
        except OSError as error:
            sys.exit(f"port {port} cannot be used: {error.strerror}")

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self._line.close())
        accepting = Thread(target=self._front.serve_forever, name="accepting", daemon=True)
        accepting.start()
        if self._example is not None:
            self._loop.warm_up(self._example)
        self._front.ready.set()
        print(f"ready on http://{HOST}:{self._front.server_port}", file=sys.stderr, flush=True)
        self._loop.run()
        self._front.shutdown()
        self._front.server_close()
