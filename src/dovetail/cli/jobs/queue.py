"""`dovetail queue`, `show`, `why`, and the commands that change jobs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import click

from dovetail.api.job_row import Ids, Jobs
from dovetail.api.wire import read
from dovetail.cli.jobs.job_columns import DEFAULT, as_entities, chosen, span_shown
from dovetail.cli.reach import (
    MOST_ROWS,
    WANTED,
    ListedJob,
    as_json,
    command_again,
    found_jobs,
    is_id,
    job_id,
    job_ids,
    one_job,
    print_json,
    print_lines,
    with_client,
    with_forecast,
)
from dovetail.client.connection import Client, RequestRefused
from dovetail.text.counting import counted, ids_text
from dovetail.text.tables import Column, clean, has_colours, is_terminal, table

SHOWN = 200
_REDRAW_S = 2.0
_HOME_AND_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


@click.command()
@click.option("--user", help="Only this user's jobs.")
@click.option("--name", metavar="PATTERN", help="Only jobs of that name, such as 'train-*'.")
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), help=f"Rows at most.  [{SHOWN}]")
@click.option("--all", "all_", is_flag=True, help=f"All rows (up to {MOST_ROWS:,}).")
@click.option("-o", "columns", metavar="COL,COL", help="Columns, such as id,name,submitted,note.")
@click.option("--watch", is_flag=True, help="Again every two seconds, until Ctrl-C.")
@as_json
@with_client
def queue(
    client: Client,
    user: str | None,
    name: str | None,
    limit: int | None,
    all_: bool,
    columns: str | None,
    watch: bool,
    as_json: bool,
) -> None:
    """Jobs that have not ended: first what runs, then what waits, in order."""
    shown = chosen(columns, DEFAULT)
    most = MOST_ROWS if all_ else limit or (MOST_ROWS if as_json else SHOWN)
    asked = {"user": user, "name": name, "limit": most}
    while True:
        found = read(Jobs, client.get("/v1/jobs", **asked))
        if not (as_json or all_):
            _as_entities(client, found, asked)
        rows = with_forecast(client, found.jobs)
        if as_json:
            print_json([row.to_json() for row in rows])
        else:
            _print_queue(found, rows, shown, watch)
        if not watch:
            return
        time.sleep(_REDRAW_S)


def _as_entities(client: Client, found: Jobs, asked: Mapping[str, Any]) -> None:
    """With each study as one entry; its trials must not crowd out the jobs behind them."""
    rows = found.jobs
    if found.total > len(rows) and any(row.trial is not None for row in rows):
        rows = read(Jobs, client.get("/v1/jobs", **{**asked, "limit": MOST_ROWS})).jobs
    told = as_entities(rows)
    found.total -= len(rows) - len(told)
    found.jobs = told[: asked["limit"]]


def _print_queue(
    found: Jobs, rows: Sequence[ListedJob], columns: Sequence[Column[ListedJob]], watch: bool
) -> None:
    if watch and is_terminal():
        click.echo(_HOME_AND_CLEAR, nl=False, color=True)
    if rows or not is_terminal():
        print_lines(table(columns, rows, colours=has_colours()))
    if is_terminal():
        click.echo(("\n" if rows else "") + summary(found))
    if found.total > len(rows):
        more = f"{found.total - len(rows):,} more: {command_again()} queue --all"
        click.echo(f"… and {more}", err=True)
    if any(span is not None and span.guess for span in map(span_shown, rows)):
        again = f"{command_again()} why ID says on what it rests"
        told = "?: a guess: it rests on a job of which none like it has finished"
        click.echo(f"dovetail: {told}; {again}", err=True)
    if overtakes(rows):
        again = f"{command_again()} why ID says more"
        told = "it fits where those before it do not, or its turn comes by then"
        click.echo(f"dovetail: who stands further down may start sooner: {told}; {again}", err=True)
    if found.trouble:
        click.echo(f"dovetail: {found.trouble}", err=True)
    for line in found.closed:
        click.echo(f"dovetail: {clean(line)}", err=True)
    if found.notices:
        told = counted(found.notices, "notice")
        click.echo(f"dovetail: {told} that nobody has acknowledged: dovetail doctor", err=True)


def overtakes(rows: Sequence[ListedJob]) -> bool:
    """Does any start before others that stand before it?"""
    latest = 0.0
    for row in rows:
        if row.expected is None or row.job.placement or row.job.reason:
            continue  # it runs, or is held
        start = row.expected.expected_start
        at = inf if start is None else start.expected
        if at < latest - 1.0:
            return True
        latest = max(latest, at)
    return False


def summary(found: Jobs) -> str:
    """2 running, 5 waiting · policy fair-share"""
    if not found.running + found.waiting:
        return f"No job runs or waits. Submit one: {command_again()} submit -- python train.py"
    return f"{found.running:,} running, {found.waiting:,} waiting · policy {found.policy}"


# ------------------------------------------------------------------------------------- one of them


@click.command()
@job_id
@as_json
@with_client
def show(client: Client, job_id: str, as_json: bool) -> None:
    """Everything about one job; of an array, or of several that have that name, a list. Or of a
    service."""
    try:
        rows = found_jobs(client, job_id)
    except RequestRefused as refused:
        _show_service(client, job_id, refused, as_json)
        return
    if len(rows) == 1 and not is_id(job_id):
        job_id = rows[0].id
        rows = found_jobs(client, job_id)
    listed, is_one = with_forecast(client, rows), rows[0].id == job_id
    if as_json:
        told = [row.to_json() for row in listed]
        print_json(told[0] if is_one else told)
    elif is_one:
        from dovetail.client.job_facts import details

        print_lines(details(*listed[0], time.time()))
    else:
        print_lines(table(chosen(None, DEFAULT), listed, colours=has_colours()))


@click.command()
@job_id
@as_json
@with_client
def why(client: Client, job_id: str, as_json: bool) -> None:
    """What a job waits for, who is ahead and why, and what would let it start; or why a service has as
    many replicas as it has."""
    try:
        own = one_job(client, job_id, ("queued", "suspended", "starting", "running"))
    except RequestRefused as refused:
        _why_service(client, job_id, refused, as_json)
        return
    found = client.get(f"/v1/jobs/{own}/why")
    if as_json:
        print_json(found)
    else:
        from dovetail.api.why_row import Why

        for line in read(Why, found).text.split("\n"):
            click.echo(clean(line))


def _show_service(client: Client, name: str, refused: RequestRefused, as_json: bool) -> None:
    from dovetail.cli.serving.service_text import service_instead, show_lines

    row = service_instead(client, name, refused)
    if as_json:
        print_json(row)
    else:
        print_lines(list(show_lines(row)))


def _why_service(client: Client, name: str, refused: RequestRefused, as_json: bool) -> None:
    from dovetail.cli.serving.service_text import service_instead, why_lines

    row = service_instead(client, name, refused)
    if as_json:
        print_json({"replicas": row.wanted, "why": row.why, "trouble": row.trouble})
    else:
        print_lines(list(why_lines(row)))


# ------------------------------------------------------------------------------------ changing them


def _changes_jobs(change: Callable[[Client, Sequence[str], bool], None]) -> click.Command:
    """A command about jobs by id, by name or pattern, or all of one's own."""
    command = click.command()(with_client(change))
    command.params += [
        click.Argument(["ids"], metavar=f"[{WANTED}]...", nargs=-1),
        click.Option(["--mine"], is_flag=True, help="All jobs of yours that have not ended."),
    ]
    return command


@_changes_jobs
def cancel(client: Client, ids: Sequence[str], mine: bool) -> None:
    """End jobs: by id (12, 7.3), array (7), name (train) or pattern ('train-*')."""
    _change(client, "cancel", "Cancelled", ids, mine)


@_changes_jobs
def pause(client: Client, ids: Sequence[str], mine: bool) -> None:
    """Take jobs off their GPUs, or keep them in the queue, until they are resumed."""
    _change(client, "pause", "Paused", ids, mine)


@_changes_jobs
def resume(client: Client, ids: Sequence[str], mine: bool) -> None:
    """Let jobs that are paused, held or not yet due go on when it is their turn."""
    _change(client, "resume", "Resumed", ids, mine)


@_changes_jobs
def requeue(client: Client, ids: Sequence[str], mine: bool) -> None:
    """Stop running jobs and let them start over from the queue."""
    _change(client, "requeue", "Requeued", ids, mine)


def _change(client: Client, verb: str, done: str, ids: Sequence[str], mine: bool) -> None:
    if mine == bool(ids):
        raise click.UsageError(f"say which jobs to {verb}: ids, names or patterns, or --mine")
    asked: dict[str, object] = {"mine": True} if mine else {"ids": list(ids)}
    found = read(Ids, client.post(f"/v1/jobs/{verb}", {**asked, "partly": True}))
    click.echo(f"{done} {ids_text(found.ids)}." if found.ids else f"There is no job to {verb}.")
    say_problems(found.problems)


def say_problems(problems: Sequence[str]) -> None:
    """What could be done is done; for the rest the command fails."""
    for problem in problems:
        click.echo(f"dovetail: {clean(problem)}", err=True)
    if problems:
        sys.exit(1)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", metavar=f"{WANTED}... PRIORITY", nargs=-1)
@with_client
def prio(client: Client, words: Sequence[str]) -> None:
    """Change the priority of jobs: higher goes first, 0 is what jobs have.

    \b
    dovetail prio 12 5       job 12 goes before others
    dovetail prio train -1   those called train let others pass
    """
    ids, priority = _jobs_and_priority(words)
    asked = {"ids": ids, "priority": priority, "partly": True}
    found = read(Ids, client.post("/v1/jobs/priority", asked))
    click.echo(f"Priority {priority:g} for {ids_text(found.ids)}.")
    say_problems(found.problems)


def _jobs_and_priority(words: Sequence[str]) -> tuple[list[str], float]:
    *ids, last = words or ("",)
    try:
        priority = float(last)
    except ValueError:
        raise click.UsageError(
            f"the priority comes last, a number: prio JOB... 5, not {last!r}"
        ) from None
    if not ids:
        raise click.UsageError(f"say whose priority becomes {last}: prio JOB... {last}")
    return ids, priority


# --------------------------------------------------------------------------------------- waiting


@click.command()
@job_ids
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Give up after that.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
@with_client
def wait(client: Client, ids: Sequence[str], timeout: float | None, quiet: bool) -> None:
    """Until jobs have ended. 0: all have finished; 1: one is not there; 3: one has failed; 124: time
    is up."""
    from dovetail.client.follow import TooLate, ending, wait_for

    until = None if timeout is None else time.monotonic() + timeout
    wanted, well, missing = list[str](), True, False
    for own in ids:
        try:
            wanted += [row.id for row in found_jobs(client, own, quiet)]
        except RequestRefused as error:
            if len(ids) == 1:
                raise
            click.echo(f"dovetail: {clean(str(error))}", err=True)
            missing = True
    try:
        for own in dict.fromkeys(wanted):
            row = wait_for(client, own, until)
            well = well and row.phase == "finished"
            if not quiet:
                click.echo(ending(row))
    except TooLate as late:
        click.echo(f"dovetail: {late}", err=True)
        sys.exit(124)
    sys.exit(3 if not well else 1 if missing else 0)
