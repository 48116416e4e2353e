"""`dovetail policies`: what there is to choose from."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from dovetail.core.errors import BadInput
from dovetail.policies import registry
from dovetail.policies.placement import PLACEMENTS


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects and nothing else.")
def policies(as_json: bool) -> None:
    """List the policies, what they do and their parameters with defaults."""
    found = []
    for name in registry.names():
        try:
            found.append(registry.describe(name))
        except BadInput as error:  # somebody else's; the others can be used all the same
            click.echo(f"dovetail: {error}", err=True)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1))
        return
    for one in found:
        click.echo(_entry(one))
    click.echo(
        "\nParameters are given after the name: --policy tiresias:queues=2:limits=18000\n"
        f"Placements (--placement): {', '.join(PLACEMENTS)}"
    )


def _entry(one: registry.Description) -> str:
    import textwrap

    text = one.summary
    if one.needs == ("predictor",):
        text += " Needs durations (--predictor)."
    lines = textwrap.wrap(text, 76)
    parameters = " ".join(f"{name}={value}" for name, value in one.parameters.items())
    if parameters:
        lines.append(f"[{parameters}]")
    return "\n".join(f"{one.name if i == 0 else '':<22}{line}" for i, line in enumerate(lines))
