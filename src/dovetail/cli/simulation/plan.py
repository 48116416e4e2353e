"""`dovetail plan`: one decision for a request as the ANDREAS optimiser takes it."""

from __future__ import annotations

import json
import sys
from math import inf

import click

from dovetail.core.errors import BadInput
from dovetail.planning.answer import planned
from dovetail.planning.request import BadRequest, read_request
from dovetail.traces.readers.text_files import opened


@click.command()
@click.argument("request_file", metavar="REQUEST.json")
@click.option("--policy", help="Who decides; if not given, the method that the request names.")
@click.option("--limit", type=float, help="Seconds for a search; then the best so far is told.")
def plan(request_file: str, policy: str | None, limit: float | None) -> None:
    """Say what to run where for REQUEST.json (- for standard input), and print it as JSON."""
    if limit is not None and not limit > 0:
        raise BadInput(f"--limit {limit:g}: give a positive number of seconds")
    with opened(request_file) as text:
        try:
            data = json.load(text)
        except ValueError as error:
            raise BadInput(f"{request_file} is not JSON: {error}") from None
        except RecursionError:
            raise BadInput(f"{request_file}: its JSON is nested too deeply") from None
    try:
        found = planned(read_request(data), policy, inf if limit is None else limit)
    except BadRequest as error:
        click.echo(json.dumps({"ERROR CODE": error.code}))
        click.echo(f"dovetail: {error}", err=True)
        sys.exit(1)
    click.echo(json.dumps(found.answer, indent=1))
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
