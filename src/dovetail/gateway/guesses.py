"""Wrong tokens are counted: who shows many from one address waits a minute.

They are counted for the token that was meant, too: somebody who guesses keeps no neighbour out whose
token they do not know the name of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import Final

MOST_GUESSES: Final = 10
WITHIN_S: Final = 60.0
_MOST_KEYS: Final = 10_000


class Guesses:
    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock: Final = clock
        self._wrong: Final[dict[tuple[str, str], deque[float]]] = {}

    def wait_s(self, address: str, token_id: str) -> float:
        """How long nothing is looked at from there; 0: it is."""
        times = self._wrong.get((address, token_id))
        if times is None or len(times) < MOST_GUESSES:
            return 0.0
        return max(times[0] + WITHIN_S - self._clock(), 0.0)

    def wrong(self, address: str, token_id: str) -> None:
        key = (address, token_id)
        times = self._wrong.pop(key, None)  # put back as the newest
        self._wrong[key] = times = deque(maxlen=MOST_GUESSES) if times is None else times
        times.append(self._clock())
        if len(self._wrong) > _MOST_KEYS:
            del self._wrong[next(iter(self._wrong))]


def network_of(host: str) -> str:
    """The address; of IPv6 the first half: who has one has them all."""
    found = ip_address(host.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return f"{IPv6Address(int(found) >> 64 << 64)}/64"
    return str(found)
