"""`dovetail where`: the socket of the daemon, for who brings it elsewhere."""

from __future__ import annotations

import click

from dovetail.cli.reach import with_client
from dovetail.client.connection import Client


@click.command(hidden=True)
@with_client
def where(client: Client) -> None:
    """Print the path of the daemon's socket, if it answers there."""
    client.get("/v1/health")
    click.echo(str(client.home.socket))
