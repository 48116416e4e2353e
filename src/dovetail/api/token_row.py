"""Tokens by which users come over the network, as the daemon tells them."""

from __future__ import annotations

from dataclasses import field

from dovetail.api.wire import about, row


@row
class TokenRow:
    """A token, without its secret: nobody can be told that again."""

    id: str
    name: str
    user: str
    made_at: float
    expires_at: float | None = field(metadata=about("null: never."))
    used_at: float | None = field(metadata=about("Since the daemon started."))


@row
class TokensTold:
    """The caller's; for administrators all users'."""

    tokens: list[TokenRow]


@row
class TokenMade(TokenRow):
    """A token that was just made."""

    secret: str = field(metadata=about("To be shown: `Authorization: Bearer …`. Told this once."))
    listens: bool = field(metadata=about("Does the daemon listen to the network at all?"))
