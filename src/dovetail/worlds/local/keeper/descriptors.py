"""The descriptors that a keeper waits for, each with what is done when it is ready."""

from __future__ import annotations

import select
from contextlib import suppress

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = select.POLLIN, select.POLLOUT


class Descriptors:
    def __init__(self) -> None:
        self._poll = select.poll()
        self._do: dict[int, Callable[[int], None]] = {}

    def add(self, fd: int, do: Callable[[int], None], events: int = READ) -> None:
        self._do[fd] = do
        self._poll.register(fd, events)

    def want(self, fd: int, events: int) -> None:
        """Only this from now on; none: it is left alone (an end of the other side is then not seen)."""
        if not events:
            self.pause(fd)
        elif fd in self._do:
            self._poll.register(fd, events)

    def pause(self, fd: int) -> None:
        with suppress(KeyError):
            self._poll.unregister(fd)

    def remove(self, fd: int) -> None:
        if self._do.pop(fd, None) is not None:
            self.pause(fd)

    def wait(self, milliseconds: int | None) -> None:
        for fd, events in self._poll.poll(milliseconds):
            if (do := self._do.get(fd)) is not None:  # one before it may have closed it
                do(events)
