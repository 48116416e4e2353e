"""`dovetail policies` and `dovetail catalogue`: what there is to choose from, ours and added."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict

import click

from dovetail.catalogue import Catalogue, Listing
from dovetail.cli.named import KINDS, catalogue_of
from dovetail.core.errors import BadInput

_AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print a list of objects and nothing else."
)


@click.command()
@click.argument("name", required=False)
@_AS_JSON
def policies(name: str | None, as_json: bool) -> None:
    """List the policies, what they do and their parameters with defaults; or all about NAME."""
    show("policies", name, as_json)
    if not name and not as_json:
        for kind in ("placements", "predictors"):
            names = ", ".join(catalogue_of(kind).names())
            click.echo(textwrap.fill(f"--{kind[:-1]}: {names}", 98, subsequent_indent="  "))


@click.command()
@click.argument("kind", required=False, type=click.Choice(list(KINDS)))
@click.argument("name", required=False)
@_AS_JSON
def catalogue(kind: str | None, name: str | None, as_json: bool) -> None:
    """List what can be named, built-in and added by packages: all kinds, those of a KIND, or all
    about the one of a NAME."""
    if kind is not None:
        show(kind, name, as_json)
    elif as_json:
        click.echo(json.dumps({kind: _rows(catalogue_of(kind)) for kind in KINDS}, indent=1))
    else:
        for kind in KINDS:
            click.echo(_line(kind))
        click.echo("\nAll of a kind: dovetail catalogue KIND")
        click.echo("Packages can add more of each: docs/howto/add-a-policy.md and others")


def show(kind: str, name: str | None, as_json: bool) -> None:
    own = catalogue_of(kind)
    if as_json:
        click.echo(json.dumps(_rows(own, name), indent=1))
    elif name:
        click.echo(page(own, name))
    else:
        for one in own.all(_complain):
            click.echo(entry(own, one))
        click.echo(
            f"\nAll about one: {own.listing} NAME\n"
            f"Parameters are given after the name: {KINDS[kind][1]}"
        )


def _rows(own: Catalogue, name: str | None = None) -> list[dict[str, object]]:
    found = [own.describe(name)] if name else own.all(_complain)
    return [asdict(one) for one in found]


def _complain(what: str) -> None:
    """Of something that somebody else has added."""
    click.echo(f"dovetail: {what}", err=True)


def _line(kind: str) -> str:
    own = catalogue_of(kind)
    added = own.added()
    for name in added:
        try:
            own.find(name)
        except BadInput as error:
            _complain(str(error))
    more = f", and added: {', '.join(added)}" if added else ""
    return f"{kind:<18}{len(own.builtin)} of ours{more}"


def page(own: Catalogue, name: str) -> str:
    """All about one."""
    one = own.describe(name)
    about = [own.manual(name), *_needs(own, one)]
    if one.parameters:
        rows = [f"  {key}={value}" for key, value in one.parameters.items()]
        about.append("\n".join(["Parameters and their defaults:", *rows]))
    return "\n\n".join([one.name, *about])


def entry(own: Catalogue, one: Listing) -> str:
    """One of a list."""
    lines = textwrap.wrap(" ".join([one.summary, *_needs(own, one)]), 74) or [""]
    parameters = " ".join(f"{name}={value}" for name, value in one.parameters.items())
    if parameters:
        lines += textwrap.wrap(f"[{parameters}]", 74, subsequent_indent=" ", break_on_hyphens=False)
    return "\n".join(f"{one.name if i == 0 else '':<24}{line}" for i, line in enumerate(lines))


def _needs(own: Catalogue, one: Listing) -> list[str]:
    return [f"Needs {own.filled[need]}." for need in one.needs]
