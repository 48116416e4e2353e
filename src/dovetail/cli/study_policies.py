"""`dovetail study policies`: who of a study's trials goes first, and what there is to choose from."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from dovetail.cli.policies import entry, page
from dovetail.policies.registry import Description
from dovetail.tune.rules.registry import CATALOGUE


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects and nothing else.")
def policies(name: str | None, as_json: bool) -> None:
    """List the policies of studies and their parameters with defaults; or all about NAME."""
    found = [_described(one) for one in ([name] if name else CATALOGUE.names())]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1))
    elif name:
        click.echo(page(found[0], CATALOGUE.manual(name)))
    else:
        for one in found:
            click.echo(entry(one))
        click.echo(
            "\nAll about one: dovetail study policies NAME\n"
            "Parameters are given after the name: policy: asha-promote:eta=3:rungs=1/3/9/27"
        )


def _described(name: str) -> Description:
    return Description(name, CATALOGUE.summary(name), CATALOGUE.parameters(name), ())
