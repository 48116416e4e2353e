"""`dovetail study policies`: the rules that say which trial of a study runs next."""

from __future__ import annotations

import click

from dovetail.cli.simulation.catalogues import show


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects and nothing else.")
def policies(name: str | None, as_json: bool) -> None:
    """List the policies of studies and their parameters with defaults; or all about NAME."""
    show("study-policies", name, as_json)
