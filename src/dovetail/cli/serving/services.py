"""`dovetail services`: look at services, say why they have so many replicas; scale, pause, stop them."""

from __future__ import annotations

from collections import Counter
from urllib.parse import quote

import click

from dovetail.api.service_row import ReplicaRow, ServiceRow, ServicesTold
from dovetail.api.wire import read
from dovetail.cli.reach import as_json, command_again, print_json, print_lines, with_client
from dovetail.client.connection import Client
from dovetail.core.errors import BadInput
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


def _replicas_text(row: ServiceRow) -> str:
    """3 ready, 1 asleep."""
    states = Counter(own.state for own in row.replicas)
    return ", ".join(f"{number} {state}" for state, number in states.items()) or "none"


def _ms(seconds: float | None) -> str:
    return "" if not seconds else f"{seconds * 1e3:.3g} ms"


_COLUMNS: list[Column[ServiceRow]] = [
    Column("NAME", lambda row: row.name),
    Column("STATE", lambda row: row.state),
    Column("ADDRESS", lambda row: row.address),
    Column("REPLICAS", _replicas_text),
    Column("REQ/S", lambda row: f"{row.rate:.3g}", right=True),
    Column("P99", lambda row: _ms(row.p99_s), right=True),
    Column("SLO", lambda row: _ms(row.slo_s), right=True),
]


def _called(client: Client, name: str) -> ServiceRow:
    return read(ServiceRow, client.get(_path(name)))


def _path(name: str) -> str:
    return f"/v1/services/{quote(name, safe='')}"


@services.command()
@_name
@as_json
@with_client
def show(client: Client, name: str, as_json: bool) -> None:
    """Everything about one service, and its replicas."""
    row = _called(client, name)
    if as_json:
        print_json(row)
        return
    slo = f"{_ms(row.slo_s)} for {row.percentile:g} of 100" if row.slo_s else "none"
    facts = {
        "service": f"{row.name} ({row.id}, {row.user}), {row.state}",
        "address": row.address,
        "replicas": f"{_replicas_text(row)}; {row.wanted} wanted of {row.least} to {row.most}",
        "why": row.why,
        "trouble": row.trouble,
        "load": f"{row.rate:.3g} requests a second, {row.in_flight} in work, {row.queued} wait",
        "latency": f"half within {_ms(row.p50_s) or '-'}, 99 of 100 within {_ms(row.p99_s) or '-'}",
        "slo": slo,
        "answered": f"{row.answered:,}, {row.late:,} late, {row.refused:,} refused, "
        f"{row.failed:,} failed",
    }
    print_lines([clean(f"{key:<10}{value}") for key, value in facts.items() if value])
    print_lines(["", *table(_REPLICA_COLUMNS, row.replicas, colours=has_colours())])


_REPLICA_COLUMNS: list[Column[ReplicaRow]] = [
    Column("REPLICA", lambda own: str(own.number), right=True),
    Column("JOB", lambda own: own.job, right=True),
    Column("STATE", lambda own: own.state),
    Column("PORT", lambda own: str(own.port), right=True),
    Column("IN WORK", lambda own: str(own.in_flight), right=True),
]


@services.command()
@_name
@with_client
def why(client: Client, name: str) -> None:
    """Say why it has as many replicas as it has, and what is wrong with it."""
    row = _called(client, name)
    number = f"{row.wanted} {'replica' if row.wanted == 1 else 'replicas'}"
    click.echo(clean(f"{number} because {row.why}."))
    if row.trouble:
        click.echo(clean(f"Trouble: {row.trouble}."))


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
    row = read(ServiceRow, client.post(f"{_path(name)}/scale", bounds))
    click.echo(clean(f"Service {row.name} has {row.least} to {row.most} replicas from now on."))


@services.command()
@_name
@with_client
def pause(client: Client, name: str) -> None:
    """Put all its replicas to sleep; requests are refused until it is resumed."""
    row = read(ServiceRow, client.post(f"{_path(name)}/pause"))
    again = f"{command_again()} services resume {row.name}"
    click.echo(clean(f"Service {row.name} is paused; it goes on with: {again}"))


@services.command()
@_name
@with_client
def resume(client: Client, name: str) -> None:
    """Let a paused service answer again."""
    row = read(ServiceRow, client.post(f"{_path(name)}/resume"))
    click.echo(clean(f"Service {row.name} goes on."))


@services.command()
@_name
@with_client
def stop(client: Client, name: str) -> None:
    """End it for good: its replicas end, its address is given up."""
    row = read(ServiceRow, client.post(f"{_path(name)}/stop"))
    click.echo(clean(f"Service {row.name} is stopped; {len(row.replicas)} replicas end."))


@services.command()
@_name
@click.option("--replica", type=int, help="Only of this one.  [all]")
@click.option("-n", "--tail", type=click.IntRange(1), default=20, help="Lines of each.  [20]")
@with_client
def logs(client: Client, name: str, replica: int | None, tail: int) -> None:
    """The last lines that its replicas have printed."""
    from dovetail.cli.jobs.logs import last_lines

    row = _called(client, name)
    chosen: list[ReplicaRow] = [own for own in row.replicas if replica in (None, own.number)]
    if not chosen:
        raise BadInput(f"service {row.name} has no replica {'' if replica is None else replica}")
    for own in chosen:
        raw, _ = last_lines(client, own.job, tail)
        click.echo(clean(f"==> replica {own.number} (job {own.job})"))
        click.echo(raw.decode(errors="replace"), nl=False)
