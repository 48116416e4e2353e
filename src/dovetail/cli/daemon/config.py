"""`dovetail config`: what the configuration file says, and where each setting comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import click

from dovetail.api.machine_row import SettingRow, SettingsTold
from dovetail.api.wire import read
from dovetail.cli.daemon.config_check import check_said
from dovetail.cli.daemon.up import place_for, up
from dovetail.cli.daemon.up_settings import from_file, line_of, options_of, schema
from dovetail.cli.reach import print_json, print_lines
from dovetail.client.connection import Client, DaemonUnreachable, RequestRefused
from dovetail.client.hosts import check_hosts
from dovetail.client.notify_settings import notify_settings
from dovetail.config_file import read_config
from dovetail.home import Home
from dovetail.notify.settings import config_file
from dovetail.text.counting import counted
from dovetail.text.tables import Column, table

_system = click.option("--system", is_flag=True, help="That of everybody's daemon on this machine.")


class _Setting(NamedTuple):
    setting: str
    value: str
    source: str


_COLUMNS: tuple[Column[_Setting], ...] = (
    Column("SETTING", lambda row: row.setting),
    Column("VALUE", lambda row: row.value, least=16),
    Column("FROM", lambda row: row.source, least=20),
)


@click.group(invoke_without_command=True)
@click.pass_context
def config(ctx: click.Context) -> None:
    """The settings of `dovetail up`, in one file; what is typed wins.

    \b
    dovetail config          every setting, its value and where that comes from
    dovetail config path     the file: ~/.config/dovetail/config.toml, or
                             /etc/dovetail/config.toml with --system
    dovetail config check    is the file right?
    dovetail config schema   what may stand there, as JSON Schema
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(show, system=False, as_json=False)


@config.command()
@_system
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.pass_obj
def show(home: str | None, system: bool, as_json: bool) -> None:
    """Every setting, its value and where that comes from."""
    rows = _rows(_place(home, system))
    if as_json:
        print_json([row._asdict() for row in rows])
    else:
        print_lines(table(_COLUMNS, rows))


@config.command()
@_system
@click.pass_obj
def check(home: str | None, system: bool) -> None:
    """Say whether `up` would take the file here, else which line it would refuse."""
    place = _place(home, system)
    file, said = from_file(up, place)
    check_said(place, file, said)
    notify_settings(file.path)
    check_hosts(file.path)
    if not file.path.exists():
        click.echo(f"There is no {file.path}: everything is as it is typed.")
        return
    click.echo(f"{file.path} is right: {counted(len(said), 'setting')} of up.")
    if "notify" in file.tables and file.path != config_file():
        click.echo(f"[notify] is read from {config_file()}, of whoever hands a job in, not here.")


@config.command("schema")
def show_schema() -> None:
    """What may stand in the file, as JSON Schema."""
    print_json(schema(up))


@config.command()
@_system
@click.pass_obj
def path(home: str | None, system: bool) -> None:
    """Where the file is, or would be."""
    click.echo(_place(home, system).config)


def _place(home: str | None, system: bool) -> Home:
    return place_for(home, system, as_root=False)


def _rows(place: Home) -> list[_Setting]:
    """As the running daemon has it, else as the file says."""
    file, said = from_file(up, place)
    running = {row.name: row for row in _running(place)}
    found = []
    for name, option in options_of(up).items():
        key = str(option.name)
        value = _text(said[key]) if key in said else ""
        source = _short(line_of(file, key)) if key in said else "usual"
        if key in running and running[key].value:
            here = running[key]
            also = f"; {source} says {value}" if value and value != here.value else ""
            value, source = here.value, _short(here.source) + also
        found.append(_Setting(name, value, source))
    return [*found, *_notify_rows()]


def _notify_rows() -> Iterator[_Setting]:
    """Of the user's own file, whichever the daemon is."""
    own, file = asdict(notify_settings()), read_config(config_file())
    mail = {f"mail.{name}": value for name, value in own.pop("mail").items()}
    for name, value in (own | mail).items():
        table: Any = file.table("notify")
        for key in name.split("."):
            table = table.get(key) if isinstance(table, dict) else None
        is_said = table is not None
        source = _short(file.at("notify", *name.split("."))) if is_said else "usual"
        yield _Setting(f"notify.{name}", _notify_text(name, value) if is_said else "", source)


def _notify_text(name: str, value: object) -> str:
    """Whoever knows the password or the path of a webhook can use it."""
    if name == "mail.password":
        return "(set)"
    if name == "webhook":
        return "/".join([*str(value).split("/")[:3], "…"])
    return _text(value)


def _running(place: Home) -> list[SettingRow]:
    client = Client(place, timeout_s=5.0)
    try:
        return read(SettingsTold, client.get("/v1/settings")).settings
    except (DaemonUnreachable, RequestRefused):
        return []
    finally:
        client.close()


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _short(where: str) -> str:
    home = str(Path.home())
    return f"~{where.removeprefix(home)}" if where.startswith(f"{home}/") else where
