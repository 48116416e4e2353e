"""`dovetail policies`: what there is to choose from."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from dovetail.core.errors import BadInput
from dovetail.policies import registry
from dovetail.policies.placement import PLACEMENTS

_NEEDS = {
    "predictor": "Needs durations (--predictor).",
    "speeds": "Uses speeds by GPU kind (--speed-table).",
    "services": "Needs the distribution of service, which it is given for the whole trace.",
}


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects and nothing else.")
def policies(name: str | None, as_json: bool) -> None:
    """List the policies, what they do and their parameters with defaults; or all about NAME."""
    found = [registry.describe(name)] if name else _all()
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1))
    elif name:
        click.echo(page(found[0], registry.manual(name)))
    else:
        _list(found)


def _all() -> list[registry.Description]:
    found = []
    for name in registry.names():
        try:
            found.append(registry.describe(name))
        except BadInput as error:  # somebody else's; the others can be used all the same
            click.echo(f"dovetail: {error}", err=True)
    return found


def page(one: registry.Description, manual: str) -> str:
    """All about one."""
    about = [manual, *(_NEEDS[need] for need in one.needs)]
    if one.parameters:
        rows = [f"  {key}={value}" for key, value in one.parameters.items()]
        about.append("\n".join(["Parameters and their defaults:", *rows]))
    return "\n\n".join([one.name, *about])


def _list(found: list[registry.Description]) -> None:
    for one in found:
        click.echo(entry(one))
    click.echo(
        "\nAll about one: dovetail policies NAME\n"
        "Parameters are given after the name: --policy tiresias:queues=2:limits=18000\n"
        f"Placements (--placement): {', '.join(PLACEMENTS)}"
    )


def entry(one: registry.Description) -> str:
    """One of a list."""
    import textwrap

    lines = textwrap.wrap(" ".join([one.summary, *(_NEEDS[need] for need in one.needs)]), 74)
    parameters = " ".join(f"{name}={value}" for name, value in one.parameters.items())
    if parameters:
        lines.append(f"[{parameters}]")
    return "\n".join(f"{one.name if i == 0 else '':<24}{line}" for i, line in enumerate(lines))
