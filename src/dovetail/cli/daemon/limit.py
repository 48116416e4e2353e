"""`dovetail limit`: the limits of users on a shared box."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

import click

from dovetail.api.tenant_row import LimitRow, LimitsTold
from dovetail.api.wire import read
from dovetail.cli.reach import (
    print_json,
    print_lines,
    shown_or_set,
    warn_of_unknown,
    with_client,
)
from dovetail.client.connection import Client
from dovetail.text.tables import Column, table

_NAMES = ("queued", "running", "gpus", "gpu_hours", "priority", "megabytes")


def _of(name: str) -> Callable[[LimitRow], str]:
    """How much is used, and of how much."""

    def told(row: LimitRow) -> str:
        most, used = getattr(row, name), getattr(row.used, name, None)
        if most is None:
            return "no limit"
        return f"{most:g}" if used is None else f"{used:.3g} of {most:g}"

    return told


_COLUMNS: tuple[Column[LimitRow], ...] = (
    Column("USER", lambda row: "everybody" if row.user == "*" else row.user, least=9),
    *(Column(name.upper().replace("_", "-"), _of(name), right=True) for name in _NAMES),
)


@shown_or_set
def limit(client: Client, as_json: bool) -> None:
    """List what users may have; `limit set USER --running N` changes it."""
    found = read(LimitsTold, client.get("/v1/limits"))
    if as_json:
        print_json(found.limits)
    elif not found.shared:
        click.echo("This box is one user's own: there are no limits.")
    else:
        print_lines(table(_COLUMNS, found.limits))
        click.echo(f"For more {found.ask}.", err=True)


@limit.command("set")
@click.argument("user")
@click.option("--queued", metavar="JOBS", help="Jobs that have not ended.  [10000]")
@click.option("--running", metavar="JOBS", help="Jobs in line or at work at once.  [none]")
@click.option("--gpus", metavar="GPUS", help="GPUs at once.  [none]")
@click.option("--gpu-hours", metavar="HOURS", help="GPU-hours in thirty days.  [none]")
@click.option("--priority", metavar="P", help="The highest that jobs may have.  [0]")
@click.option("--megabytes", metavar="MB", help="Descriptions and environments a day.  [1000]")
@with_client
def set_limit(client: Client, user: str, **given: str | None) -> None:
    """Of one user, or of everybody (USER is '*'). A number, or none for no limit, or default: as for
    everybody. What is not named stays as it is."""
    asked = {name: _value(name, text) for name, text in given.items() if text is not None}
    found = read(LimitsTold, client.put("/v1/limits", {"user": user, **asked}))
    row = next(row for row in found.limits if row.user == user)
    told = ", ".join(f"{name.replace('_', '-')} {_most(getattr(row, name))}" for name in _NAMES)
    click.echo(f"{'Everybody' if user == '*' else user} may have: {told}.")
    warn_of_unknown(found.unknown)


def _most(value: float | None) -> str:
    return "no limit" if value is None else f"{value:g}"


def _value(name: str, text: str) -> float | str | None:
    from dovetail.daemon.http.request_models import LARGEST_NUMBER
    from dovetail.jobfiles.fields import LARGEST_PRIORITY

    if text in ("none", "default"):
        return "none" if text == "none" else None
    is_priority = name == "priority"
    most = LARGEST_PRIORITY if is_priority else LARGEST_NUMBER
    least = -most if is_priority else 0.0
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not least <= value <= most:
        option = f"--{name.replace('_', '-')}"
        wanted = f"a number from {least:g} to {most:g}, none or default"
        raise click.BadParameter(f"{option} {text}: write {wanted}")
    return value
