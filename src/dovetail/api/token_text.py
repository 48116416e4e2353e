"""A token as its user holds it: `dvt_ID_SECRET`. Only the digest of the secret is kept."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

PREFIX: Final = "dvt_"
ADMIN: Final = "admin"  # the id of the daemon's own token, which has no prefix


def digest_of(secret: str) -> str:
    """A secret is 256 random bits, so that a plain digest of it tells nobody anything."""
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


def parts_of(text: str) -> tuple[str, str]:
    """Id and secret."""
    if not text.startswith(PREFIX):
        return ADMIN, text
    token_id, _, secret = text.removeprefix(PREFIX).partition("_")
    return token_id, secret
