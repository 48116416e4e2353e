"""Time: requests as they come, and what was asked to happen later. Nothing ticks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any

from dovetail.serving.request import Request

Call = Callable[[Any], None]
OFTEN = 65_536  # requests between two looks at the progress


class RequestEngine:
    """Of the same instant, what was asked for goes first, in the order in which it was asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.began = 0.0
        self.came = 0  # requests; while they come, told every OFTEN
        self.is_coming = True  # more may
        self._later: list[tuple[float, int, Call, Any]] = []
        self._sequence = 0

    @property
    def has_more(self) -> bool:
        """Something else is to happen."""
        return bool(self._later)

    def at(self, when: float, call: Call, about: Any = None) -> None:
        """Call it then."""
        self._sequence += 1
        heappush(self._later, (when, self._sequence, call, about))

    def run(
        self,
        requests: Iterable[Request],
        arrived: Callable[[Request], None],
        begin: Callable[[], None] | None = None,
        tell: Callable[[float], None] | None = None,
        is_over: Callable[[int], bool] = lambda came: False,
    ) -> None:
        """To the end of the requests, and of what is then still to happen while it `is_over` not.
        `begin` is called at the time of the first request, `tell` now and then with the time."""
        later, left = self._later, OFTEN
        is_first = True
        for request in requests:
            at = request[0]
            if is_first:
                is_first = False
                self._begin(at, begin)
            while later and later[0][0] <= at:
                self.now, _, call, about = heappop(later)
                call(about)
            self.now = at
            arrived(request)
            left -= 1
            if not left:
                left = OFTEN
                self.came += OFTEN
                if tell is not None:
                    tell(at)
        self.came += OFTEN - left
        self.is_coming = False
        while later and not is_over(self.came):
            self.now, _, call, about = heappop(later)
            call(about)

    def _begin(self, at: float, begin: Callable[[], None] | None) -> None:
        self.now = self.began = at
        if begin is not None:
            begin()
