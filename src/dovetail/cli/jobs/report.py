"""`dovetail report`: what ended jobs have used, by user and tenant."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from dovetail.api.page_row import UsageRow, UsageTold
from dovetail.api.wire import read
from dovetail.cli.jobs.history import time_range
from dovetail.cli.reach import as_json, print_json, print_lines, with_client
from dovetail.client.connection import Client
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.tables import Column, clean, has_colours, table
from dovetail.text.times import clock

_DAY_S = 86_400.0
_BY = ("user", "tenant")


@click.command()
@click.option("--week", is_flag=True, help="The last 7 days.  [unless --month or --since]")
@click.option("--month", is_flag=True, help="The last 30 days.")
@click.option(
    "--since", metavar="WHEN", help="Ended since: 2h, 7d, 2026-11-01, '2026-11-01 18:00'."
)
@click.option("--until", metavar="WHEN", help="Ended before.")
@click.option("--user", help="Only this user's jobs.")
@click.option(
    "--by", type=click.Choice(["user", "tenant", "model", "name", "day"]), help="That alone."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV and nothing else.")
@as_json
@with_client
def report(
    client: Client,
    week: bool,
    month: bool,
    since: str | None,
    until: str | None,
    user: str | None,
    by: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Who has used what: jobs, GPU-hours and how busy those GPUs were, waiting, energy, money.

    Of jobs that ended in that time; by user and by tenant, unless --by says otherwise.
    """
    _one_of({"--week": week, "--month": month, "--since": since is not None})
    _one_of({"--csv": as_csv, "--json": as_json})
    begin, end = time_range(since, until)
    if begin is None:
        days = 30 if month else 7
        begin = max((time.time() if end is None else end) - days * _DAY_S, 0.0)
    asked = {"since": begin, "until": end, "user": user, "most": 0}
    found = {
        own: read(UsageTold, client.get("/v1/page/usage", by=own, **asked))
        for own in ([by] if by else _BY)
    }
    if as_json:
        print_json({own: told.groups for own, told in found.items()} | {"since": begin})
    elif as_csv:
        click.echo(_csv(found), nl=False)
    else:
        _print(found, user, begin, end, has_tenants=by is not None)


def _one_of(given: Mapping[str, bool]) -> None:
    names = [option for option, is_given in given.items() if is_given]
    if len(names) > 1:
        raise click.UsageError(f"{' and '.join(names[:2])} exclude each other; leave out one")


def _print(
    found: dict[str, UsageTold],
    user: str | None,
    begin: float,
    end: float | None,
    has_tenants: bool,
) -> None:
    told, now = next(iter(found.values())), time.time()
    when = f"since {clock(begin, now)}"
    if end is not None:
        when = f"from {clock(begin, now)} until {clock(end, now)}"
    whose = f" of {clean(user)}" if user else ""
    click.echo(f"{counted(told.total, 'job')}{whose} ended {when}.")
    for by, own in found.items():
        if by == "tenant" and not has_tenants and {row.key for row in own.groups} <= {""}:
            continue  # nobody has named one
        columns = [Column(by.upper(), _key, least=8), *_COLUMNS, _money_column(own.currency)]
        print_lines(["", *table(columns, own.groups, colours=has_colours())])
    if any(map(_lost, told.groups)):
        click.echo("\nLOST: GPU-hours of saving jobs, bringing them back, and doing work again.")
    if not told.all:
        click.echo("Only the newest were looked at.", err=True)
    if told.uncosted:
        click.echo(f"note: {told.uncosted}", err=True)


def _key(row: UsageRow) -> str:
    return row.key or "-"


def _lost(row: UsageRow) -> float | None:
    """None: less than a hundredth, as where all that was lost is how long it took to start."""
    return row.lost_gpu_hours if row.lost_gpu_hours >= 0.01 * row.gpu_hours > 0 else None


def _busy(row: UsageRow) -> str:
    """Used against given."""
    if row.busy_gpu_hours is None or not row.gpu_hours:
        return ""
    return f"{row.busy_gpu_hours / row.gpu_hours:.0%}"


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    if 0 < value < 0.01:
        return "<0.01"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


_COLUMNS: list[Column[UsageRow]] = [
    Column("JOBS", lambda row: f"{row.jobs:,}", right=True),
    Column("FAILED", lambda row: f"{row.failed:,}" if row.failed else "", right=True),
    Column("GPU-H", lambda row: _figure(row.gpu_hours), right=True),
    Column("BUSY", _busy, right=True),
    Column("LOST", lambda row: _figure(_lost(row)), right=True),
    Column("CPU-H", lambda row: _figure(row.cpu_hours), right=True),
    Column("WAIT", lambda row: duration_text(row.mean_wait_s), right=True),
    Column("WAIT P90", lambda row: duration_text(row.p90_wait_s), right=True),
    Column("KWH", lambda row: _figure(row.energy_kwh), right=True),
]


def _money_column(currency: str) -> Column[UsageRow]:
    return Column(currency.upper() or "MONEY", lambda row: _figure(row.money), right=True)


def _csv(found: dict[str, UsageTold]) -> str:
    import csv
    from io import StringIO

    text = StringIO()
    names: list[str] = [name for name in UsageRow.__dataclass_fields__ if name != "key"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["by", "key", *names])
    for by, told in found.items():
        for row in told.groups:
            fields: dict[str, Any] = vars(row)
            writer.writerow([by, _plain(row.key), *(fields[name] for name in names)])
    return text.getvalue()


def _plain(text: str) -> str:
    """What a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
