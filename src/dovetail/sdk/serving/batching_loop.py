"""The thread that makes batches: it asks the rule, calls the function, gives out the answers."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from typing import Any, Final

from dovetail.sdk.batching import BatchBounds, Batcher, BatchRule
from dovetail.sdk.serving.batch_times import BatchTimes
from dovetail.sdk.serving.calls import CallLine, Unanswered, WaitingCall

_LOOK_EVERY_S = 0.5  # a signal may have come
_TRIES = 3  # of each size, before the first request


class BatchingLoop:
    def __init__(
        self,
        predict: Callable[[list[Any]], Sequence[Any]],
        rule: BatchRule,
        line: CallLine,
        max_batch: int,
        slo_s: float,
    ) -> None:
        self._predict: Final = predict
        self._line: Final = line
        self._times: Final = BatchTimes(max_batch)
        self._max_batch: Final = max_batch
        bounds = BatchBounds(max_batch, self._times, slo_s)
        self._batcher: Final[Batcher] = rule.batcher(bounds)

    def warm_up(self, example: Any) -> None:
        """Sizes 1, 2, 4 … and the largest; the first try of each is not counted."""
        sizes = {1 << power for power in range(self._max_batch.bit_length())} | {self._max_batch}
        for size in sorted(own for own in sizes if own <= self._max_batch):
            for number in range(_TRIES):
                began = monotonic()
                self._results([example] * size)
                if number:
                    self._times.took(size, monotonic() - began)

    def run(self) -> None:
        """Until the line is closed and empty."""
        while (batch := self._next()) is not None:
            if batch:
                self._work_on(batch)

    def _next(self) -> list[WaitingCall] | None:
        """None: there will be no more; empty: look again."""
        line = self._line
        with line.changed:
            if not line.calls:
                if line.is_closed:
                    return None
                line.changed.wait(_LOOK_EVERY_S)
                return []
            now = monotonic()
            step = self._batcher.step(now, line.calls)
            dropped, batch = line.taken(step)
            if not dropped and not batch:
                line.changed.wait(min(max(step.again_at - now, 0.0), _LOOK_EVERY_S))
        for call in dropped:
            call.fail(
                Unanswered(503, "it would be answered too late for its SLO; try again in 1 s")
            )
        return batch

    def _work_on(self, batch: list[WaitingCall]) -> None:
        began = monotonic()
        try:
            results = self._results([call.item for call in batch])
        except Exception as error:
            traceback.print_exc()
            self._alone(batch, error)
            return
        seconds = monotonic() - began
        self._times.took(len(batch), seconds)
        self._batcher.took(len(batch), seconds)
        for call, result in zip(batch, results, strict=True):
            call.answer(result)

    def _results(self, items: list[Any]) -> Sequence[Any]:
        results = self._predict(items)
        if len(results) != len(items):
            raise ValueError(f"predict gave {len(results)} answers for {len(items)} items")
        return results

    def _alone(self, batch: list[WaitingCall], error: Exception) -> None:
        """One item may be to blame: the others are to have their answers."""
        if len(batch) == 1:
            batch[0].fail(Unanswered(500, f"predict failed: {type(error).__name__}: {error}"))
            return
        print(f"a batch of {len(batch)} failed; its items are tried alone", file=sys.stderr)
        for call in batch:
            self._work_on([call])


def slo_seconds(slo_ms: float | None) -> float:
    return inf if slo_ms is None else slo_ms / 1e3
