"""Where a command is carried out: here, there by ssh, or here with a daemon in the network."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

import click

from dovetail.cli.reach import HOST
from dovetail.client.hosts import host_called
from dovetail.core.errors import BadInput

_BRINGS_IT_HERE = ("dashboard",)
_OF_THE_MACHINE = ("up", "down", "doctor")


def choose(
    ctx: click.Context, name: str, home: str | None, words: Sequence[str], own: Collection[str]
) -> None:
    """`own`: the commands that ask no daemon. Comes back for a command that is carried out here."""
    command = words[0] if words else ""
    if not command or command in own or "--help" in words:
        return
    host = host_called(name)
    if host.is_by_ssh and command not in _BRINGS_IT_HERE:
        from dovetail.cli.remote.over_ssh import run_there

        sys.exit(run_there(host, home, words))
    if command in _OF_THE_MACHINE:
        raise BadInput(f"{command} is typed on the machine itself, or by ssh: --host user@box")
    if home and not host.is_by_ssh:
        raise BadInput("--home is a folder of this machine, and --host another machine; name one")
    ctx.meta[HOST] = host
