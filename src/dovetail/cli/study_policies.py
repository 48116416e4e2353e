"""`dovetail study policies`: who of a study's trials goes first, and what there is to choose from."""

from __future__ import annotations

import click

from dovetail.cli.policies import show


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects and nothing else.")
def policies(name: str | None, as_json: bool) -> None:
    """List the policies of studies and their parameters with defaults; or all about NAME."""
    show("study-policies", name, as_json)
