"""What GPUs draw: by the card's own counter of energy where it has one, else by looking often."""

from __future__ import annotations

import threading
from collections.abc import Collection
from time import monotonic
from typing import Any, Final

from dovetail.worlds.local import machine

_LOOK_EVERY_S = 0.1


class Meter:
    """Counts the joules of some GPUs from its making on. To be closed."""

    def __init__(self, uuids: Collection[str]) -> None:
        self._session: Final = machine.nvml()
        self._library: Final[Any] = self._session.__enter__()
        self._handles: Final = [
            handle
            for handle in machine.whole_gpus(self._library)
            if self._library.nvmlDeviceGetUUID(handle) in uuids
        ]
        counters = [self._counter(handle) for handle in self._handles]
        self.counts: Final = bool(counters) and None not in counters  # by the cards themselves?
        self._began: Final = sum(found for found in counters if found is not None)
        self._sampled = 0.0
        self._over: Final = threading.Event()
        self._sampler: Final = threading.Thread(target=self._sample, name="meter", daemon=True)
        if self._handles and not self.counts:
            self._sampler.start()

    @property
    def knows(self) -> bool:
        """Is there any GPU that tells what it draws?"""
        return bool(self._handles) and (self.counts or self._watts() is not None)

    def joules(self) -> float:
        if not self.counts:
            return self._sampled
        return sum(self._counter(handle) or 0.0 for handle in self._handles) - self._began

    def close(self) -> None:
        self._over.set()
        if self._sampler.is_alive():
            self._sampler.join()
        self._session.__exit__(None, None, None)

    def _counter(self, handle: Any) -> float | None:
        millijoules = machine.told(self._library, "nvmlDeviceGetTotalEnergyConsumption", handle)
        return None if millijoules is None else millijoules / 1000

    def _watts(self) -> float | None:
        drawn = [
            machine.told(self._library, "nvmlDeviceGetPowerUsage", handle)
            for handle in self._handles
        ]
        return None if None in drawn else sum(drawn) / 1000

    def _sample(self) -> None:
        before = monotonic()
        while not self._over.wait(_LOOK_EVERY_S):
            now = monotonic()
            self._sampled += (self._watts() or 0.0) * (now - before)
            before = now
