"""`dovetail history` and `dovetail costs`: what has run, and what that has cost."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from dovetail.api.job_row import ENDED
from dovetail.api.machine_row import CostsTold, Health, Nodes
from dovetail.api.wire import read
from dovetail.cli.jobs.job_columns import HISTORY, chosen
from dovetail.cli.reach import (
    MOST_ROWS,
    ListedJob,
    as_json,
    command_again,
    ended,
    print_json,
    print_lines,
    with_client,
)
from dovetail.client.connection import Client
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.money import money_text
from dovetail.text.tables import facts_table, has_colours, table
from dovetail.text.times import clock

_SHOWN = 50
_DAYS = ("today", "yesterday")  # from their midnight on
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


@click.command()
@click.option("--user", help="Only this user's jobs.")
@click.option("--name", metavar="PATTERN", help="Only jobs of that name, such as 'train-*'.")
@click.option("--phase", type=click.Choice(ENDED), help="Only jobs that ended like that.")
@click.option("--since", metavar="WHEN", help="Ended since: 2h, 7d, yesterday, '2026-11-01 18:00'.")
@click.option("--until", metavar="WHEN", help="Ended before.")
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), help="[50; of --csv: all]")
@click.option("-o", "columns", metavar="COL,COL", help="Columns, such as id,name,ran,exit.")
@click.option("--trace", metavar="FILE", help="Write them as a trace (.csv, .jsonl) to simulate.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV instead, of all unless --limit.")
@as_json
@with_client
def history(
    client: Client,
    since: str | None,
    until: str | None,
    limit: int | None,
    columns: str | None,
    trace: str | None,
    as_csv: bool,
    as_json: bool,
    **only: str | None,
) -> None:
    """Jobs that have ended, the newest first."""
    begin, end = time_range(since, until)
    times = {"since": begin, "until": end}
    if trace is not None:
        _write_trace(client, trace, {**only, **times})
        return
    if as_csv:
        asked: dict[str, Any] = {**only, **times, "most": limit}
        for piece in client.stream("/v1/page/usage.csv", **asked):
            sys.stdout.buffer.write(piece)
        return
    shown = chosen(columns, HISTORY)
    most = limit or _SHOWN
    rows = ended(client, most, **only, **times)
    if as_json:
        print_json(rows)
        return
    print_lines(table(shown, [ListedJob(row) for row in rows], colours=has_colours()))
    if len(rows) == most:
        click.echo(f"… there may be more than {most:,}: --limit N shows them", err=True)


def _write_trace(client: Client, path: str, only: Mapping[str, object]) -> None:
    form = "jsonl" if path.endswith((".jsonl", ".json")) else "csv"
    text = client.text("/v1/history/trace", **only, format=form)
    if path == "-":
        click.echo(text, nl=False)
        return
    Path(path).write_text(text, encoding="utf-8")
    jobs = text.count("\n") - (form == "csv")
    nodes = read(Nodes, client.get("/v1/nodes")).nodes
    cluster = "+".join(f"1x{len(node.gpus)}:{node.kind}" for node in nodes)
    click.echo(f"Wrote {counted(jobs, 'job')} to {path}.")
    if jobs:
        click.echo(f"What if? dovetail compare {path} --cluster {cluster} --policies fifo,srtf,las")


def time_range(since: str | None, until: str | None) -> tuple[float | None, float | None]:
    begin, end = unix_time(since, "--since"), unix_time(until, "--until")
    if begin is not None and end is not None and begin >= end:
        raise click.UsageError(f"--since {since} is not before --until {until}; nothing is between")
    return begin, end


def unix_time(text: str | None, option: str) -> float | None:
    """Seconds since 1970: a time of day or a date, or so long ago."""
    if text is None:
        return None
    ago = text.strip().removesuffix("ago").strip()
    number = ago.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = ago[len(number) :].strip()
    if number.replace(".", "", 1).isdigit() and unit in _UNITS:
        return max(time.time() - float(number) * _UNITS[unit], 0.0)
    from datetime import datetime, timedelta

    if ago.lower() in _DAYS:
        midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight - timedelta(days=_DAYS.index(ago.lower()))).timestamp()
    try:
        return max(datetime.fromisoformat(text).timestamp(), 0.0)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{option} {text}: write 2h, 7d, yesterday, 2026-11-01 or '2026-11-01 18:00'"
        ) from None


@click.command()
@click.option("--since", metavar="WHEN", help="2h, 7d, 2026-11-01.  [the beginning of the journal]")
@as_json
@with_client
def costs(client: Client, since: str | None, as_json: bool) -> None:
    """What running everybody's jobs has cost: energy, carbon and lateness, as simulations are charged.

    What each user's ended jobs have cost says dovetail report. Prices and watts come from the file
    that `dovetail up --costs FILE` names.
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
    yield "of", "all users; each user's own: dovetail report"
    yield "since", clock(found.since, time.time())
    money = partial(money_text, currency=found.currency)
    yield "energy", f"{found.energy_kwh:.4g} kWh, cost {money(found.energy_cost)}"
    yield "carbon", f"{found.co2_kg:.4g} kg of CO2" if found.co2_kg else ""
    late = ""
    if found.deadline_misses:
        jobs, by = counted(found.deadline_misses, "job"), duration_text(found.tardiness_s)
        late = f"{jobs} by {by} in all, "
    yield "lateness", f"{late}cost {money(found.tardiness_cost)}"
    yield (
        "moves",
        f"{found.migrations}, cost {money(found.move_cost)}" * bool(found.migrations),
    )
    unnamed = "" if found.currency or found.file == "none" else "; the cost file names no currency"
    yield "total", f"{money(found.total_cost)}{unnamed}"
    from dovetail.cli.serving.service_text import cost_text

    for own in found.services:
        yield f"service {own.name}", cost_text(own)
