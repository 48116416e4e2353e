"""`dovetail serve`: declare a service from a file; other things done with services are its commands."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote

import click

from dovetail.api.service_row import ServiceRow
from dovetail.api.wire import read
from dovetail.cli.lazy_group import LazyGroup
from dovetail.cli.reach import as_json, command_again, print_json, with_client
from dovetail.client.connection import Client, RequestRefused
from dovetail.client.shell import as_sent
from dovetail.core.errors import BadInput
from dovetail.text.tables import clean

_SECTIONS = {
    "Commands": {
        "simulate": (
            "dovetail.cli.serving.simulate:simulate",
            "Requests to services under several policies, in simulation.",
        )
    }
}


class FileOrCommand(LazyGroup):
    """What is not the name of a command is a file with a service."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            return args[0], declare, args
        return super().resolve_command(ctx, args)


@click.group(cls=FileOrCommand, sections=_SECTIONS)
def serve() -> None:
    """Declare an inference service: dovetail serve SERVICE.yaml.

    \b
    name: chat
    run: python server.py --port {port}   # answers 2xx at /health once it is ready
    slo_ms: 200
    replicas: 0-4
    idle_s: 60                            # not needed for so long: a replica sleeps

    Its replicas are jobs of the one queue; requests to its address are answered by them. To look at
    services: dovetail services.
    """


@click.command("SERVICE.yaml")
@click.argument("file", metavar="SERVICE.yaml")
@click.option("--name", help="Instead of the name in the file.")
@as_json
@with_client
def declare(client: Client, file: str, name: str | None, as_json: bool) -> None:
    """Declare the service that the file describes, and say its address."""
    row = _declared(client, file, {"name": name} if name else {})
    if as_json:
        print_json(row)
        return
    told = f"Service {row.name} answers at {row.address} as soon as a replica is ready."
    if row.needs_token:
        told += f" Requests show a token: {command_again()} token create."
    click.echo(clean(f"{told} To look at it: {command_again()} services show {quote(row.name)}"))


def _declared(client: Client, file: str, own: Mapping[str, str]) -> ServiceRow:
    """Options go before the fields of the file."""
    from dovetail.jobfiles.yaml_files import text_of, unchecked

    text, source = text_of(file), "standard input" if file == "-" else file
    spec = unchecked(text, source)
    if not isinstance(spec, Mapping):
        raise BadInput(f"{source}: a service is a table of fields, such as name, command, replicas")
    try:
        return read(ServiceRow, client.post("/v1/services", as_sent({**spec, **own})))
    except RequestRefused as error:
        if error.status in (400, 422):
            _explain(text, source, own)
        raise RequestRefused(error.status, f"{source}: {error}") from None


def _explain(text: str, source: str, own: Mapping[str, str]) -> None:
    """With the line where the mistake stands: most of what is refused there is refused here, too."""
    from dovetail.jobfiles.service_model import read_service
    from dovetail.jobfiles.yaml_files import located

    given, lines = located(text, source)
    assert isinstance(given, Mapping)
    read_service({**given, **own}, source, lines)
