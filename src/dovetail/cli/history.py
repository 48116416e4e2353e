"""`dovetail history` and `dovetail nodes`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from dovetail.cli.job_columns import HISTORY, chosen
from dovetail.cli.reach import MOST_ROWS, as_json, print_json, print_lines, with_client
from dovetail.client.connection import Client
from dovetail.text.counting import counted
from dovetail.text.tables import Column, has_colours, table

_SHOWN = 50
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


@click.command()
@click.option("--user", help="Only this user's jobs.")
@click.option("--name", metavar="PATTERN", help="Only jobs of that name, such as 'train-*'.")
@click.option(
    "--since", metavar="WHEN", help="Ended since: 2h, 7d, 2026-11-01, '2026-11-01 18:00'."
)
@click.option("--until", metavar="WHEN", help="Ended before.")
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), default=_SHOWN, show_default=True)
@click.option("-o", "columns", metavar="COL,COL", help="Columns, such as id,name,ran,exit.")
@click.option("--trace", metavar="FILE", help="Write them as a trace (.csv, .jsonl) to simulate.")
@as_json
@with_client
def history(
    client: Client,
    since: str | None,
    until: str | None,
    limit: int,
    columns: str | None,
    trace: str | None,
    as_json: bool,
    **only: str | None,
) -> None:
    """Jobs that have ended, the newest first."""
    times = {"since": unix_time(since, "--since"), "until": unix_time(until, "--until")}
    if trace is not None:
        _write_trace(client, trace, {**only, **times})
        return
    shown = chosen(columns, HISTORY)
    rows = client.get("/v1/history", **only, **times, limit=limit)["jobs"]
    if as_json:
        print_json(rows)
        return
    print_lines(table(shown, rows, colours=has_colours()))
    if len(rows) == limit:
        click.echo(f"… there may be more than {limit:,}: --limit N shows them", err=True)


def _write_trace(client: Client, path: str, only: dict[str, Any]) -> None:
    form = "jsonl" if path.endswith((".jsonl", ".json")) else "csv"
    text = client.text("/v1/history/trace", **only, format=form)
    if path == "-":
        click.echo(text, nl=False)
        return
    Path(path).write_text(text, encoding="utf-8")
    jobs = text.count("\n") - (form == "csv")
    nodes = client.get("/v1/nodes")["nodes"]
    cluster = "+".join(f"1x{len(node['gpus'])}:{node['kind']}" for node in nodes)
    click.echo(f"Wrote {counted(jobs, 'job')} to {path}.")
    if jobs:
        click.echo(f"What if? dovetail compare {path} --cluster {cluster} --policies fifo,srtf,las")


def unix_time(text: str | None, option: str) -> float | None:
    """Seconds since 1970: a time of day or a date, or so long ago."""
    if text is None:
        return None
    ago = text.strip().removesuffix("ago").strip()
    number = ago.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = ago[len(number) :].strip()
    if number.replace(".", "", 1).isdigit() and unit in _UNITS:
        return max(time.time() - float(number) * _UNITS[unit], 0.0)
    from datetime import datetime

    try:
        return max(datetime.fromisoformat(text).timestamp(), 0.0)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{option} {text}: write 2h, 7d, 2026-11-01 or '2026-11-01 18:00'"
        ) from None


# ------------------------------------------------------------------------------------------- nodes


def _state(row: Any) -> str:
    if not row["up"]:
        return "down"
    if row["strangers"]:
        return "in use by others"
    return "busy" if row["jobs"] else "free"


def _jobs(row: Any) -> str:
    return ", ".join(
        f"{own['job']} {own['name']}" + (f" ({own['share']:.0%})" if own["share"] < 1 else "")
        for own in row["jobs"]
    )


def _memory(row: Any) -> str:
    return f"{row['memory_gb']:.0f} GB" if row["memory_gb"] else ""


_STYLES = {"free": "green", "in use by others": "red", "down": "red"}
_COLUMNS = (
    Column("NODE", lambda row: str(row["node"]), least=8),
    Column("GPU", lambda row: str(row["index"]), right=True),
    Column("KIND", lambda row: str(row["kind"]), least=6),
    Column("MEMORY", _memory, right=True),
    Column("STATE", _state, style=lambda row: _STYLES.get(_state(row), "")),
    Column("UUID", lambda row: row["uuid"] or "", least=14),
    Column("JOBS", _jobs, least=12),
)


@click.command()
@as_json
@with_client
def nodes(client: Client, as_json: bool) -> None:
    """Every GPU or slot, who has it, and whether processes of others use it."""
    found = client.get("/v1/nodes")["nodes"]
    if as_json:
        print_json(found)
        return
    print_lines(table(_COLUMNS, gpu_rows(found), colours=has_colours()))


def gpu_rows(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **gpu,
            "node": node["id"],
            "kind": node["kind"],
            "up": node["up"],
            "memory_gb": node["gpu_memory_gb"],
        }
        for node in nodes
        for gpu in node["gpus"]
    ]
