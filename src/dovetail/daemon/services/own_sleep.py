"""A server's own way to sleep (vLLM's /sleep and /wake_up): told before it is suspended, and after."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Final

from dovetail.daemon.services.health import HealthWatch
from dovetail.daemon.services.scene import SeenReplica
from dovetail.jobfiles.service_model import Sleep

log = logging.getLogger("dovetail.daemon")


class OwnSleep:
    """Of the replicas of one service; `sleep` None: their server has none."""

    def __init__(self, service_id: str, sleep: Sleep | None, health: HealthWatch) -> None:
        self._id: Final = service_id
        self._sleep: Final = sleep
        self._health: Final = health
        self._woken: Final[set[int]] = set()  # their processes run; their server sleeps
        self._posted: Final[dict[int, Future[str]]] = {}  # to sleep, or to wake up

    def forget_all_but(self, numbers: set[int]) -> None:
        self._woken.intersection_update(numbers)
        for gone in self._posted.keys() - numbers:
            del self._posted[gone]

    def wakes(self, replicas: Iterable[SeenReplica]) -> None:
        """Their processes will run again."""
        if self._sleep is not None:
            self._woken.update([own.number for own in replicas])

    def leave(self, replicas: Iterable[SeenReplica]) -> None:
        """Those whose processes run are told to wake up."""
        if self._sleep is None:
            return
        for own in replicas:
            is_up = own.number in self._woken and self._health.is_healthy(own.number)
            if is_up and self._answered(own, self._sleep.leave, "sleeps on"):
                self._woken.discard(own.number)

    def entered(self, own: SeenReplica) -> bool:
        """It has been told to sleep, and has answered."""
        return self._sleep is None or self._answered(own, self._sleep.enter, "does not go to sleep")

    def is_asleep(self, number: int) -> bool:
        return number in self._woken

    @property
    def is_waking(self) -> bool:
        return bool(self._woken)

    def is_told(self, number: int) -> bool:
        """And has not answered yet."""
        return number in self._posted

    def _answered(self, own: SeenReplica, path: str, trouble: str) -> bool:
        call = self._posted.get(own.number)
        if call is None:
            call = self._posted[own.number] = self._health.post(own.number, path)
        if not call.done():
            return False
        del self._posted[own.number]
        if why := call.result():
            log.warning("service %s: replica %s %s: %s", self._id, own.number, trouble, why)
        return True
