"""From a command to the daemon: which one, which of its jobs, and to print what it says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import update_wrapper
from shlex import quote
from typing import Any, NamedTuple

import click

from dovetail.api.forecast_row import Expected, Forecast
from dovetail.api.job_row import JobDetails, JobRow, Jobs, Past
from dovetail.api.wire import read
from dovetail.client.command_name import typed_command
from dovetail.client.connection import Client, RequestRefused
from dovetail.home import find_home

MOST_ROWS = 10_000  # that the daemon tells at once
_MOST_FORECASTS = 500  # more would not fit the line that asks for them


WANTED = "ID|NAME|PATTERN"

job_id = click.argument("job_id", metavar=WANTED)
job_ids = click.argument("ids", metavar=f"{WANTED}...", nargs=-1, required=True)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


HOST = "dovetail.host"  # of a context: the machine in the network that was named, if one was


def client_of(home: str | None) -> Client:
    """Of the daemon that `--home` or `--host` names."""
    context = click.get_current_context(silent=True)
    host = context.meta.get(HOST) if context else None
    if host is None or host.is_by_ssh:
        return Client(find_home(home), named=home)
    from dovetail.client.network_line import NetworkLine

    return Client(find_home(home), line=NetworkLine(host))


def with_client(command: Callable[..., None]) -> Callable[..., None]:
    """The first argument of the command becomes a client of the daemon that `--home` names."""

    @click.pass_obj
    def connected(home: str | None, *args: Any, **options: Any) -> None:
        client = client_of(home)
        try:
            command(client, *args, **options)
        finally:
            client.close()

    return update_wrapper(connected, command)


def shown_or_set(show: Callable[..., None]) -> click.Group:
    """A group that shows how things are, unless a subcommand of it sets them."""

    @click.group(show.__name__, invoke_without_command=True, help=show.__doc__)
    @as_json
    @click.pass_context
    def group(ctx: click.Context, as_json: bool) -> None:
        if ctx.invoked_subcommand is None:
            ctx.invoke(with_client(show), as_json=as_json)

    return group


def command_again() -> str:
    """With the daemon that was named, if one was."""
    context = click.get_current_context(silent=True)
    if context is not None and (host := context.meta.get(HOST)) is not None:
        return f"{typed_command()} --host {quote(host.name)}"
    home = context.obj if context else None
    return f"{typed_command()} --home {quote(home)}" if home else typed_command()


def print_json(value: object) -> None:
    """Rows, or the JSON of an answer."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=vars))


def print_lines(lines: list[str]) -> None:
    click.echo("\n".join(lines))


def warn_of_unknown(unknown: Sequence[str]) -> None:
    """Users and groups may come later from a directory; more often a name is misspelled."""
    for own in unknown:
        told = f"the system knows no {own}: this holds once there is one"
        click.echo(f"dovetail: warning: {told}", err=True)


def is_id(text: str) -> bool:
    """`12` or `12.3`, rather than a name."""
    return text.isascii() and text.replace(".", "", 1).isdigit() and text[0] != "."


def found_jobs(client: Client, wanted: str, quiet: bool = False) -> Sequence[JobRow]:
    """The job of that id; for the number of an array all its members, also those that ended; for a
    name or pattern the caller's that live, else the last one that ended, each with all its array."""
    if not is_id(wanted):
        return _named(client, wanted, quiet)
    try:
        return [read(JobDetails, client.get(f"/v1/jobs/{wanted}"))]
    except RequestRefused as error:
        members = _members(client, wanted) if error.status == 404 and wanted.isdigit() else []
        if not members:
            raise
    return sorted(members, key=lambda row: int(row.id.partition(".")[2]))


def one_job(client: Client, wanted: str, phases: Sequence[str]) -> str:
    """The id of the one that is meant. Of several of that name or array the last one in the first of
    these phases that has any; that there are others is said."""
    if is_id(wanted) and not wanted.isdigit():
        return wanted
    rows = found_jobs(client, wanted)
    rank = {phase: number for number, phase in enumerate(phases)}
    first = min(rank.get(row.phase, len(rank)) for row in rows)
    last = [row for row in rows if rank.get(row.phase, len(rank)) == first][-1]
    if len(rows) > 1:
        many = f"{len(rows):,} jobs are {'of array' if is_id(wanted) else 'called'} {wanted}"
        told = f"{many}; this is {last.id}, the last {last.phase}"
        click.echo(f"dovetail: {told}", err=True)
    return last.id


def _named(client: Client, name: str, quiet: bool) -> list[JobRow]:
    """By number. Others' jobs only where the caller has none of that name."""
    me = _me()
    found = live(client, name=name)
    rows = [row for row in found if row.user == me] or found
    rows = rows or _ended_last(client, name, me, quiet) or _ended_last(client, name, None, quiet)
    if not rows:
        lists = f"{command_again()} queue and history list them"
        raise RequestRefused(404, f"there is no job called {name!r}; {lists}")
    rows = _with_their_arrays(client, name, rows)
    return sorted(rows, key=lambda row: tuple(map(int, row.id.split("."))))


def _me() -> str:
    from dovetail.daemon.users.callers import user_name

    return user_name(os.getuid())


def _ended_last(client: Client, name: str, user: str | None, quiet: bool) -> list[JobRow]:
    """The one that ended last, if any; that there are others is said."""
    rows = ended(client, name=name, user=user, limit=2)
    if len({array_of(row.id) for row in rows}) > 1 and not quiet:
        many = f"several jobs called {name} have ended; this is {array_of(rows[0].id)}, the last"
        click.echo(f"dovetail: {many}; {command_again()} history lists them", err=True)
    return rows[:1]


def _with_their_arrays(client: Client, name: str, rows: list[JobRow]) -> list[JobRow]:
    """Members of that name that have ended before others of their array."""
    arrays = {array_of(row.id) for row in rows if "." in row.id}
    if not arrays:
        return rows
    past = ended(client, name=name, limit=MOST_ROWS)
    found = {row.id: row for row in past if array_of(row.id) in arrays}
    return list({**{row.id: row for row in rows}, **found}.values())


def array_of(job_id: str) -> str:
    """The number of the array; a job that belongs to none is its own."""
    return job_id.partition(".")[0]


def _members(client: Client, array: str) -> list[JobRow]:
    rows = {row.id: row for row in _known(client) if row.id.startswith(f"{array}.")}
    return list(rows.values())


def _known(client: Client) -> Iterator[JobRow]:
    """Those that live last: one that ends meanwhile is then told as it was, not left out."""
    yield from ended(client, limit=MOST_ROWS)
    yield from live(client)
    yield from ended(client, limit=100)


def live(client: Client, name: str | None = None) -> list[JobRow]:
    return read(Jobs, client.get("/v1/jobs", name=name, limit=MOST_ROWS)).jobs


def ended(client: Client, limit: int, **only: object) -> list[JobRow]:
    """The newest first."""
    return read(Past, client.get("/v1/history", **only, limit=limit)).jobs


# --------------------------------------------------------------------------------------- forecasts


class ListedJob(NamedTuple):
    """A row of a list, with what is expected of the job, where the daemon was asked."""

    job: JobRow
    expected: Expected | None = None

    def to_json(self) -> dict[str, object]:
        return {**vars(self.job), **(self.expected._asdict() if self.expected else {})}


def with_forecast(client: Client, rows: Sequence[JobRow]) -> list[ListedJob]:
    live = [row.id for row in rows if row.ended_at is None][:_MOST_FORECASTS]
    if not live:
        return [ListedJob(row) for row in rows]
    try:
        found = read(Forecast, client.get("/v1/forecast", ids=",".join(live)))
    except RequestRefused:
        return [ListedJob(row) for row in rows]
    return [ListedJob(row, _expected(row.id, found)) for row in rows]


def _expected(job_id: str, found: Forecast) -> Expected | None:
    if job_id not in found.starts and job_id not in found.ends:
        return None
    return Expected(found.starts.get(job_id), found.ends.get(job_id))
