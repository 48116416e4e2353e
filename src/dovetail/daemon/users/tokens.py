"""Tokens of users for the network: kept as digests, shown once, worth nothing once revoked.

A secret is 256 random bits, so that a plain digest of it tells nobody anything; to guess one is
hopeless, and still slowed down where guesses come in (`http/guesses.py`).
"""

from __future__ import annotations

import hmac
import json
import secrets
from dataclasses import asdict, dataclass
from time import time
from typing import Final

from dovetail.api.token_row import TokenRow
from dovetail.api.token_text import PREFIX, digest_of, parts_of
from dovetail.core.errors import BadInput
from dovetail.daemon.refusals import NotAllowed, NotFound
from dovetail.daemon.submitting import Submitting
from dovetail.daemon.users.callers import Caller

MOST_TOKENS: Final = 50  # of a user
_DAY_S: Final = 86_400.0
_KEY: Final = "token "  # of the journal's file, before the id


@dataclass(frozen=True, slots=True)
class UserToken:
    id: str
    name: str
    uid: int
    user: str
    made_at: float
    expires_at: float | None
    digest: str

    @property
    def is_over(self) -> bool:
        return self.expires_at is not None and time() > self.expires_at


class Tokens:
    """Looked at from the API's threads; what is made or revoked is on disk before it is said."""

    def __init__(self, asking: Submitting) -> None:
        self._asking: Final = asking
        found = asking.reader.metas(_KEY).values()
        tokens = [UserToken(**json.loads(text)) for text in found]
        self._by_id: Final = {own.id: own for own in tokens}
        self._used: Final[dict[str, float]] = {}

    def make(self, name: str, days: float | None, caller: Caller) -> tuple[UserToken, str]:
        """With its secret. Only on the socket: a stolen token must not beget others."""
        if caller.token:
            raise NotAllowed(
                "a token cannot make tokens: type it on the machine itself, or over ssh"
            )
        if len(self._of(caller.name)) >= MOST_TOKENS:
            raise BadInput(
                f"you have {MOST_TOKENS} tokens, the most there may be; revoke some first"
            )
        self._asking.charge_change(caller)
        token_id, secret = secrets.token_hex(5), secrets.token_urlsafe(32)
        expires = None if days is None else time() + days * _DAY_S
        made = UserToken(
            token_id, name, caller.uid, caller.name, time(), expires, digest_of(secret)
        )
        self._asking.keep_meta(_KEY + token_id, json.dumps(asdict(made)))
        self._by_id[token_id] = made
        return made, f"{PREFIX}{token_id}_{secret}"

    def of(self, text: str) -> UserToken | None:
        """The token with that secret, if it still is one."""
        token_id, secret = parts_of(text)
        found = self.get(token_id)
        if found is None or not hmac.compare_digest(digest_of(secret), found.digest):
            return None
        self._used[token_id] = time()
        return found

    def get(self, token_id: str) -> UserToken | None:
        found = self._by_id.get(token_id)
        return None if found is None or found.is_over else found

    def all(self) -> list[UserToken]:
        """Those that are not over."""
        return [own for own in list(self._by_id.values()) if not own.is_over]

    def rows(self, caller: Caller) -> list[TokenRow]:
        own = self._by_id.values() if caller.admin else self._of(caller.name)
        return [self.row(token) for token in sorted(own, key=lambda token: token.made_at)]

    def revoke(self, ids: list[str], caller: Caller) -> list[TokenRow]:
        """All of them or none."""
        found = [self._named(token_id, caller) for token_id in ids]
        for token in found:
            self._by_id.pop(token.id, None)  # first: from now on it opens nothing
            self._asking.forget_meta(_KEY + token.id)
        return [self.row(token) for token in found]

    def _named(self, token_id: str, caller: Caller) -> UserToken:
        found = self._by_id.get(token_id)
        if found is None or not caller.may_read(found.user):
            raise NotFound(f"you have no token {token_id!r}; dovetail token list shows them")
        return found

    def _of(self, user: str) -> list[UserToken]:
        return [token for token in self._by_id.values() if token.user == user]

    def row(self, token: UserToken) -> TokenRow:
        return TokenRow(
            id=token.id,
            name=token.name,
            user=token.user,
            made_at=token.made_at,
            expires_at=token.expires_at,
            used_at=self._used.get(token.id),
        )
