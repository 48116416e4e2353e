"""Who may ask from other machines: who shows a token. The daemon tells the digests of those that hold.

A replica never sees a token, nor the cookies of our own pages: it may be another user's program.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from math import ceil, inf
from time import time
from typing import Final, NamedTuple

import h11

from dovetail.api.token_text import digest_of, parts_of
from dovetail.gateway.answers import Refusal
from dovetail.gateway.guesses import Guesses, network_of

_BEARER: Final = b"bearer "
_SHOW: Final = "show a token: Authorization: Bearer … (dovetail token create makes one)"
_WRONG: Final = "this is no token of this daemon, or it was revoked or is over"


class KnownToken(NamedTuple):
    digest: str
    expires_at: float


class TokenGate:
    """Of a service that can be reached from other machines."""

    def __init__(self) -> None:
        self._known: Mapping[str, KnownToken] | None = None  # None: nobody has told them yet
        self._guesses: Final = Guesses()

    def tell(self, tokens: Mapping[str, tuple[str, float | None]]) -> None:
        """By id: the digest, and when it is over."""
        self._known = {
            name: KnownToken(digest, inf if expires is None else expires)
            for name, (digest, expires) in tokens.items()
        }

    def passed(self, head: h11.Request, peer: str) -> h11.Request:
        """The request without its token; a `Refusal` if there is none that holds."""
        if self._known is None:
            raise Refusal(503, "the daemon has not told yet whose tokens hold; try again in 1 s", 1)
        shown = [value for name, value in head.headers if name == b"authorization"]
        if len(shown) != 1 or shown[0][: len(_BEARER)].lower() != _BEARER:
            raise Refusal(401, _SHOW)
        self._check(self._known, shown[0][len(_BEARER) :].strip().decode("latin-1"), peer)
        headers = [own for own in head.headers if own[0] != b"authorization"]
        return h11.Request(method=head.method, target=head.target, headers=headers)

    def _check(self, known: Mapping[str, KnownToken], text: str, peer: str) -> None:
        token_id, secret = parts_of(text)
        token, address = known.get(token_id), network_of(peer)
        meant = "" if token is None else token_id
        if (wait_s := self._guesses.wait_s(address, meant)) > 0:
            wait = ceil(wait_s)
            raise Refusal(429, f"too many wrong tokens; try again in {wait} s", wait)
        holds = token is not None and hmac.compare_digest(digest_of(secret), token.digest)
        if token is None or not holds or time() > token.expires_at:
            self._guesses.wrong(address, meant)
            raise Refusal(401, _WRONG)


def without_our_cookies(header: bytes) -> bytes:
    """Browsers send the cookies of a host to all its ports."""
    rows = [own.strip() for own in header.split(b";")]
    return b"; ".join([own for own in rows if not is_our_cookie(own)])


def is_our_cookie(row: bytes) -> bool:
    return row.lstrip(b" \t=").startswith((b"dovetail-", b"__Host-dovetail"))
