"""`dovetail dashboard`: the page of the daemon in a browser, for whoever may speak to its socket."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import click

from dovetail.bridge import process
from dovetail.bridge.reaching import by_network, by_socket
from dovetail.cli.reach import HOST, client_of
from dovetail.client.hosts import Host


@click.command()
@click.option("--no-open", is_flag=True, help="Print the link, open no browser.")
@click.option("--port", type=click.IntRange(1, 65535), help="Of the loopback.  [any free one]")
@click.pass_context
def dashboard(ctx: click.Context, no_open: bool, port: int | None) -> None:
    """Open the page of the daemon in a browser. What you may do there is what you may do here; nobody
    else on this machine or network can use it. It ends with Ctrl-C."""
    host: Host | None = ctx.meta.get(HOST)
    tell = _teller(no_open)
    if host is not None and host.is_by_ssh:
        from dovetail.cli.remote.tunnel import tunnel

        with tunnel(host, ctx.obj) as home:
            process.run(by_socket(home), tell, port or 0)
        return
    client = client_of(ctx.obj)
    client.get("/v1/health")  # is there one, and may we?
    client.close()
    line = client.line
    reach = by_socket(client.home) if host is None else by_network(host)
    process.run(reach, tell, port or 0, line.authorization or None)


def _teller(no_open: bool) -> Callable[[str], None]:
    shown = False

    def tell(link: str) -> None:
        nonlocal shown
        opened = not no_open and has_browser() and _open(link)
        click.echo(f"{'Opened' if opened else 'Open'} {link}")
        if not shown:
            again = "; Enter makes another" if sys.stdin.isatty() else ""
            click.echo(f"The link works once, within 5 min{again}. Ctrl-C ends it.", err=True)
        shown = True

    return tell


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
