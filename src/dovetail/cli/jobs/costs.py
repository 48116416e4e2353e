"""`dovetail costs`."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from dovetail.api.machine_row import CostsTold, Health
from dovetail.api.wire import read
from dovetail.cli.jobs.history import unix_time
from dovetail.cli.reach import as_json, command_again, print_json, print_lines, with_client
from dovetail.client.connection import Client
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.tables import facts_table
from dovetail.text.times import clock


@click.command()
@click.option("--since", metavar="WHEN", help="2h, 7d, 2026-11-01.  [the beginning of the journal]")
@as_json
@with_client
def costs(client: Client, since: str | None, as_json: bool) -> None:
    """What running jobs has cost: energy, carbon and lateness, as simulations are charged.

    Prices and watts come from the file that `dovetail up --costs FILE` names.
    """
    found = read(CostsTold, client.get("/v1/costs", since=unix_time(since, "--since")))
    if as_json:
        print_json(found)
        return
    print_lines(facts_table(_facts(found)))
    health = read(Health, client.get("/v1/health"))
    if found.file == "none":
        again = f"{command_again()} down, then up{' --system' * health.system} --costs FILE"
        click.echo(f"No prices are known: {again}", err=True)
    elif health.costs:
        click.echo(f"note: {health.costs}", err=True)


def _facts(found: CostsTold) -> Iterator[tuple[str, str]]:
    yield "since", clock(found.since, time.time())
    yield "energy", f"{found.energy_kwh:.4g} kWh, cost {_money(found.energy_cost)}"
    yield "carbon", f"{found.co2_kg:.4g} kg of CO2" if found.co2_kg else ""
    late = ""
    if found.deadline_misses:
        jobs, by = counted(found.deadline_misses, "job"), duration_text(found.tardiness_s)
        late = f"{jobs} by {by} in all, "
    yield "lateness", f"{late}cost {_money(found.tardiness_cost)}"
    yield (
        "moves",
        f"{found.migrations}, cost {_money(found.move_cost)}" * bool(found.migrations),
    )
    yield "total", _money(found.total_cost)


def _money(amount: float) -> str:
    return f"{amount:,.2f}" if amount >= 100 or not amount else f"{amount:.4g}"
