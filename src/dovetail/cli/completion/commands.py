"""`dovetail completion` and `dovetail man`."""

from __future__ import annotations

from pathlib import Path

import click

from dovetail.cli.completion import manual
from dovetail.cli.completion.shells import SHELLS, script


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """The completion of commands, options, ids and names for a shell.

    \b
    bash  eval "$(dovetail completion bash)"            in ~/.bashrc
    zsh   eval "$(dovetail completion zsh)"             in ~/.zshrc, after compinit
    fish  dovetail completion fish > ~/.config/fish/completions/dovetail.fish
    """
    click.echo(script(shell, ctx.find_root().command), nl=False)


@click.command()
@click.argument("folder", metavar="DIR")
@click.pass_context
def man(ctx: click.Context, folder: str) -> None:
    """Write manual pages, a file for each command; man -l DIR/dovetail.1 reads one."""
    pages = manual.pages(ctx.find_root().command)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (place / name).write_text(text)
    click.echo(f"{len(pages)} pages in {place}; man -l {place}/dovetail.1 reads the first.")
