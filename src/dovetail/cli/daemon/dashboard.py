"""`dovetail dashboard`: the page of the daemon in a browser, for whoever may speak to its socket."""

from __future__ import annotations

import os
import sys

import click

from dovetail.bridge import process
from dovetail.bridge.reaching import by_socket
from dovetail.cli.reach import with_client
from dovetail.client.connection import Client


@click.command()
@click.option("--no-open", is_flag=True, help="Print the link, open no browser.")
@click.option("--port", type=click.IntRange(1, 65535), help="Of the loopback.  [any free one]")
@with_client
def dashboard(client: Client, no_open: bool, port: int | None) -> None:
    """Open the page of the daemon in a browser. What you may do there is what you may do here; nobody
    else on this machine or network can use it. It ends with Ctrl-C."""
    client.get("/v1/health")  # is there one, and may we?
    client.close()
    shown = False

    def tell(link: str) -> None:
        nonlocal shown
        opened = not no_open and has_browser() and _open(link)
        click.echo(f"{'Opened' if opened else 'Open'} {link}")
        if not shown:
            again = "; Enter makes another" if sys.stdin.isatty() else ""
            click.echo(f"The link works once, within 5 min{again}. Ctrl-C ends it.", err=True)
        shown = True

    process.run(by_socket(client.home), tell, port or 0)


def has_browser() -> bool:
    """A text browser would take this terminal."""
    return sys.platform == "darwin" or any(
        os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY")
    )


def _open(link: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(link)
    except webbrowser.Error:
        return False
