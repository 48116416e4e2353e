"""Who may use a bridge: whoever comes by the link, once and soon, and their browser from then on."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from time import monotonic
from typing import Final

from dovetail.bridge.same_site import cookies_in

LINK_S: Final = 300.0
LINK_PATH: Final = "/open/"


class Visitors:
    """Of one bridge, as long as it lives. Cookies do not know ports, so each has a name of its own."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.cookie_name: Final = f"dovetail-{secrets.token_hex(4)}"
        self._clock: Final = clock
        self._cookie: Final = secrets.token_urlsafe(32)
        self._link = ""
        self._until = 0.0

    def new_link(self) -> str:
        """The path of a link; one made before is worth nothing from now on."""
        self._link = secrets.token_urlsafe(32)
        self._until = self._clock() + LINK_S
        return LINK_PATH + self._link

    def enter(self, path: str) -> str | None:
        """The value of the cookie; None: the link is not the one, or was used, or is too old."""
        given, link = path.removeprefix(LINK_PATH), self._link
        if not link or self._clock() > self._until or not _same(given, link):
            return None
        self._link = ""
        return self._cookie

    def knows(self, cookie_header: str) -> bool:
        given = cookies_in(cookie_header).get(self.cookie_name, "")
        return _same(given, self._cookie)


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())
