"""Upkeep: checks that are due now and then, on a thread of their own, through the loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from dovetail.core.errors import DovetailError

EVERY_S = 5.0

log = logging.getLogger("dovetail.daemon")


class Upkeep:
    """Does its tasks in turn. One that fails is said and tried again the next time."""

    def __init__(self, tasks: Sequence[Callable[[], None]]) -> None:
        self._tasks: Final = tasks
        self._over: Final = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._work, name="upkeep", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _work(self) -> None:
        while not self._over.wait(EVERY_S):
            for task in self._tasks:
                self._try(task)

    def _try(self, task: Callable[[], None]) -> None:
        try:
            if not self._over.is_set():
                task()
        except DovetailError as error:
            log.warning("%s", error)
        except Exception:
            log.exception("upkeep failed")
