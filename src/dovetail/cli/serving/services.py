"""`dovetail services`: look at services, say why they have so many replicas; scale, pause, stop them."""

from __future__ import annotations

from shlex import quote

import click

from dovetail.api.service_row import ServiceRow, ServicesTold
from dovetail.api.wire import read
from dovetail.cli.reach import as_json, command_again, print_json, print_lines, with_client
from dovetail.cli.serving.service_text import (
    logged,
    path_of,
    replicas_text,
    service_called,
    show_lines,
    why_lines,
)
from dovetail.client.connection import Client
from dovetail.core.errors import BadInput
from dovetail.text.counting import counted
from dovetail.text.durations import latency_text
from dovetail.text.tables import Column, clean, has_colours, table

_name = click.argument("name")


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def services(ctx: click.Context, as_json: bool) -> None:
    """Services: list them; show, scale, pause, resume, stop one. To declare one: dovetail serve."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)


@services.command("list")
@as_json
@with_client
def list_(client: Client, as_json: bool) -> None:
    """All services: where they answer, with how many replicas, how fast."""
    rows = read(ServicesTold, client.get("/v1/services")).services
    if as_json:
        print_json(rows)
    elif rows:
        print_lines(table(_COLUMNS, rows, colours=has_colours()))
    else:
        click.echo(f"There is no service. Declare one: {command_again()} serve service.yaml")


_COLUMNS: list[Column[ServiceRow]] = [
    Column("NAME", lambda row: row.name),
    Column("STATE", lambda row: row.state),
    Column("ADDRESS", lambda row: row.address),
    Column("REPLICAS", replicas_text),
    Column("REQ/S", lambda row: f"{row.rate:.3g}", right=True),
    Column("P99", lambda row: latency_text(row.p99_s) if row.p99_s else "", right=True),
    Column("SLO", lambda row: latency_text(row.slo_s) if row.slo_s else "", right=True),
]


@services.command()
@_name
@as_json
@with_client
def show(client: Client, name: str, as_json: bool) -> None:
    """Everything about one service, and its replicas."""
    row = service_called(client, name)
    if as_json:
        print_json(row)
        return
    print_lines(list(show_lines(row)))


@services.command()
@_name
@with_client
def why(client: Client, name: str) -> None:
    """Say why it has as many replicas as it has, and what is wrong with it."""
    row = service_called(client, name)
    print_lines(list(why_lines(row)))


@services.command()
@_name
@click.argument("replicas", metavar="N|MIN-MAX")
@with_client
def scale(client: Client, name: str, replicas: str) -> None:
    """Have exactly N replicas awake, or between MIN and MAX as the load needs."""
    least, _, most = replicas.partition("-")
    try:
        bounds = {"least": int(least), "most": int(most or least)}
    except ValueError:
        raise BadInput(f"{replicas!r} is not a number of replicas, such as 3 or 1-4") from None
    if not bounds["most"]:
        services = f"{command_again()} services"
        raise BadInput(
            f"0 replicas would answer nobody: {services} scale {name} 0-1 lets it sleep while nobody "
            f"asks, {services} pause {name} refuses requests"
        )
    row = read(ServiceRow, client.post(f"{path_of(name)}/scale", bounds))
    number = f"{row.least} to {row.most}" if row.least < row.most else f"{row.least}"
    word = "replica" if row.most == 1 else "replicas"
    click.echo(clean(f"Service {row.name} has {number} {word} from now on."))


@services.command()
@_name
@with_client
def pause(client: Client, name: str) -> None:
    """Put all its replicas to sleep; requests are refused until it is resumed."""
    row = read(ServiceRow, client.post(f"{path_of(name)}/pause"))
    again = f"{command_again()} services resume {quote(row.name)}"
    click.echo(clean(f"Service {row.name} is paused; it goes on with: {again}"))


@services.command()
@_name
@with_client
def resume(client: Client, name: str) -> None:
    """Let a paused service answer again."""
    row = read(ServiceRow, client.post(f"{path_of(name)}/resume"))
    click.echo(clean(f"Service {row.name} goes on."))


@services.command()
@_name
@with_client
def stop(client: Client, name: str) -> None:
    """End it for good: its replicas end, its address is given up."""
    row = read(ServiceRow, client.post(f"{path_of(name)}/stop"))
    number = len(row.replicas)
    ended = f"{counted(number, 'replica')} {'ends' if number == 1 else 'end'}"
    click.echo(clean(f"Service {row.name} is stopped; {ended}."))


@services.command()
@_name
@click.option("--replica", type=int, help="Only of this one.  [all]")
@click.option("-n", "--tail", type=click.IntRange(1), default=20, help="Lines of each.  [20]")
@with_client
def logs(client: Client, name: str, replica: int | None, tail: int) -> None:
    """The last lines that its replicas have printed."""
    from dovetail.cli.jobs.logs import last_lines

    for job, what in logged(service_called(client, name), replica):
        raw, _ = last_lines(client, job, tail)
        click.echo(clean(f"==> {what}"))
        click.echo(raw.decode(errors="replace"), nl=False)
