"""`dovetail plan`: one decision for a request as the ANDREAS optimiser takes it."""

from __future__ import annotations

import json
import sys

import click

from dovetail.app.planning.answer import planned
from dovetail.app.planning.request import BadRequest, read_request
from dovetail.core.errors import BadInput
from dovetail.traces.source import opened


@click.command()
@click.argument("request_file", metavar="REQUEST.json")
@click.option("--policy", help="Who decides; if not given, the method that the request names.")
def plan(request_file: str, policy: str | None) -> None:
    """Say what to run where for REQUEST.json (- for standard input), and print it as JSON."""
    with opened(request_file) as text:
        try:
            data = json.load(text)
        except ValueError as error:
            raise BadInput(f"{request_file} is not JSON: {error}") from None
    try:
        found = planned(read_request(data), policy)
    except BadRequest as error:
        click.echo(json.dumps({"ERROR CODE": error.code}))
        click.echo(f"dovetail: {error}", err=True)
        sys.exit(1)
    click.echo(json.dumps(found.answer, indent=1))
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
