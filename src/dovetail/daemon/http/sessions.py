"""A browser that has logged in: its cookie says which token, until when and for which name of ours.

Nothing is kept of a session. Who holds the daemon's own token could make one; a session ends with the
token it came from, outlives a restart of the daemon, and is worth nothing under another name.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from time import time
from typing import Final

SESSION_S: Final = 7 * 86_400


class Sessions:
    def __init__(self, secret: str) -> None:
        self._secret: Final = secret.encode()

    def value(self, token_id: str, digest: str, host: str) -> str:
        """For a cookie."""
        until = str(int(time()) + SESSION_S)
        return f"{token_id}.{until}.{self._mac(token_id, digest, until, host)}"

    def token_in(self, value: str) -> str | None:
        """The id of the token it claims to be of; None: it is no session, or over."""
        parts = value.split(".")
        if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit()):
            return None
        return parts[0] if len(parts[1]) < 20 and int(parts[1]) > time() else None

    def holds(self, value: str, digest: str, host: str) -> bool:
        token_id, until, mac = value.split(".")
        return hmac.compare_digest(mac.encode(), self._mac(token_id, digest, until, host).encode())

    def _mac(self, token_id: str, digest: str, until: str, host: str) -> str:
        said = "\n".join((token_id, digest, until, host.lower()))
        return hmac.new(self._secret, said.encode("utf-8", "replace"), sha256).hexdigest()
