"""`dovetail token`: what lets you in from another machine, each shown once."""

from __future__ import annotations

from time import time

import click

from dovetail.api.token_row import TokenMade, TokenRow, TokensTold
from dovetail.api.wire import read
from dovetail.cli.reach import as_json, command_again, print_json, print_lines, with_client
from dovetail.client.connection import Client
from dovetail.text.durations import duration_text
from dovetail.text.tables import Column, has_colours, table


@click.group()
def token() -> None:
    """Tokens for the network (up --listen): each is yours, and may do what you may do."""


@token.command()
@click.argument("name", default="my token")
@click.option(
    "--days", type=click.FloatRange(0, 36_500, min_open=True), help="[until it is revoked]"
)
@as_json
@with_client
def create(client: Client, name: str, days: float | None, as_json: bool) -> None:
    """Make one, and show it this once. NAME is for you to know it by: laptop."""
    made = read(TokenMade, client.post("/v1/tokens", {"name": name, "days": days}))
    if as_json:
        print_json(made)
        return
    click.echo(made.secret)
    good = f"for {days:g} days" if days else "until you revoke it"
    again = command_again()
    told = [f"Token {made.id} ({made.name}) of {made.user}, good {good}; it is not shown again."]
    told.append("Whoever has it can do here what you can do: keep it in a file of mode 600.")
    told.append(f"To end it: {again} token revoke {made.id}")
    if not made.listens:
        told.append(
            f"This daemon does not listen to the network yet: {again} up --listen HOST:PORT"
        )
    click.echo("\n".join(told), err=True)


@token.command("list")
@as_json
@with_client
def list_tokens(client: Client, as_json: bool) -> None:
    """Yours; for administrators all."""
    tokens = read(TokensTold, client.get("/v1/tokens")).tokens
    if as_json:
        print_json(tokens)
        return
    if not tokens:
        print_lines(["There are no tokens."])
        return
    print_lines(table(_COLUMNS, tokens, colours=has_colours()))


def _ends(own: TokenRow) -> str:
    if own.expires_at is None:
        return "never"
    left = own.expires_at - time()
    return f"in {duration_text(left)}" if left > 0 else "over"


def _used(own: TokenRow) -> str:
    return "" if own.used_at is None else _ago(own.used_at)


def _ago(at: float) -> str:
    return f"{duration_text(max(time() - at, 0.0))} ago"


_COLUMNS: tuple[Column[TokenRow], ...] = (
    Column("ID", lambda own: own.id),
    Column("NAME", lambda own: own.name, least=8),
    Column("USER", lambda own: own.user, least=6),
    Column("MADE", lambda own: _ago(own.made_at), right=True),
    Column("ENDS", _ends, right=True),
    Column("USED", _used, right=True),
)


@token.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@with_client
def revoke(client: Client, ids: tuple[str, ...]) -> None:
    """End tokens at once, and what was begun with them."""
    gone = read(TokensTold, client.post("/v1/tokens/revoke", {"ids": list(ids)})).tokens
    for own in gone:
        click.echo(f"Token {own.id} ({own.name}) of {own.user} opens nothing any more.")
