"""`dovetail study`: look at studies, stop, resume, extend and cancel them, make a page of one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

import click

from dovetail.api.study_row import StudiesTold, StudyPage, StudyRow, TrialRow
from dovetail.api.wire import read
from dovetail.cli.lazy_group import LazyGroup
from dovetail.cli.reach import (
    MOST_ROWS,
    as_json,
    command_again,
    print_json,
    print_lines,
    with_client,
)
from dovetail.cli.studies.study_follow import path_of, study_called
from dovetail.client.connection import Client
from dovetail.client.study_rows import best_text, counts_text, is_hidden, study_columns
from dovetail.core.errors import BadInput, DovetailError
from dovetail.text.counting import counted
from dovetail.text.tables import clean, has_colours, is_terminal, table, width

_MOST_NAMED = 5
# These need more than the daemon.
_ELSEWHERE = {
    "policies": ("dovetail.cli.studies.study_policies:policies", "List policies and parameters."),
    "replay": ("dovetail.cli.studies.study_replay:replay", "Compare policies on recorded curves."),
}


@click.group(cls=LazyGroup, sections={"Commands": _ELSEWHERE})
def study() -> None:
    """Studies: what they have found; stop, resume, extend, cancel them. To begin one: dovetail tune."""


_name = click.argument("name")
_only = click.argument("name", required=False)  # the only one there is


@study.command("list")
@click.option("--limit", type=click.IntRange(0, MOST_ROWS), help="Closed ones at most.  [100]")
@click.option("--all", "all_", is_flag=True, help=f"All of them (up to {MOST_ROWS:,}).")
@as_json
@with_client
def list_(client: Client, limit: int | None, all_: bool, as_json: bool) -> None:
    """Studies that are open or stopped, and those closed last."""
    found = read(StudiesTold, client.get("/v1/studies", limit=MOST_ROWS if all_ else limit))
    rows = found.studies
    if as_json:
        print_json(rows)
    elif rows or not is_terminal():
        print_lines(table(study_columns(rows, width()), rows, colours=has_colours()))
    else:
        click.echo(f"There is no study. Begin one: {command_again()} tune study.yaml")
    if found.more and not as_json:
        again = f"{command_again()} study list --all"
        click.echo(f"… and {found.more:,} that closed before: {again}", err=True)


@study.command()
@_name
@click.option("--curves", "with_curves", is_flag=True, help="Draw all learning curves.")
@click.option("--all", "all_", is_flag=True, help="All trials, not only the most promising.")
@click.option("--watch", "watched", is_flag=True, help="Live, until it is closed or q is pressed.")
@as_json
@with_client
def show(
    client: Client, name: str, with_curves: bool, all_: bool, watched: bool, as_json: bool
) -> None:
    """Everything about one study: where it stands, and its trials, the most promising first."""
    found = study_called(client, name)
    if as_json:
        print_json(found)
        return
    if watched:
        from dovetail.cli.live_screen import has_keyboard
        from dovetail.cli.studies.study_follow import watch

        if not has_keyboard():
            plain = f"{command_again()} study show {quote(name)}"
            raise BadInput(f"--watch needs a terminal; for a pipe: {plain}")
        found = watch(client, found, keys="q quits")
    _print_study(found, with_curves, all_)


def _print_study(found: StudyPage, with_curves: bool, all_: bool) -> None:
    from dovetail.cli.studies.study_view import CHART_LINES, SHOWN, curves, details, trials_table

    print_lines([*details(found, time.time()), ""])
    if with_curves:
        print_lines([*curves(found, (width(), CHART_LINES), has_colours()), ""])
    print_lines(trials_table(found, None if all_ else SHOWN, width(), has_colours()))
    left = len(found.trials) - SHOWN
    if left > 0 and not all_:
        again = f"{command_again()} study show {quote(found.name)} --all"
        click.echo(clean(f"… and {left:,} more: {again}"), err=True)


def _readable(client: Client, name: str) -> StudyPage:
    """The study, for commands that need its values."""
    found = study_called(client, name)
    if is_hidden(found):
        owner = found.user
        raise BadInput(
            f"study {name!r} is {owner}'s: only {owner} or an administrator may see its values"
        )
    return found


def _or_only(client: Client, name: str | None) -> str:
    """The name, which nobody has to type where there is one study."""
    if name is not None:
        return name
    rows = read(StudiesTold, client.get("/v1/studies")).studies
    if len(rows) != 1:
        known = ", ".join([f"{row.name} ({row.id})" for row in rows[:_MOST_NAMED]])
        more = ", …" if len(rows) > _MOST_NAMED else ""
        raise BadInput(f"say of which study: {known}{more}" if rows else "there is no study")
    return rows[0].id


@study.command()
@_only
@as_json
@with_client
def best(client: Client, name: str | None, as_json: bool) -> None:
    """The best settings so far; the name may be left out where there is one study."""
    found = _readable(client, _or_only(client, name))
    if not found.best:
        raise BadInput(f"study {found.name} has no value of {found.metric}: {counts_text(found)}")
    if as_json:
        keys = ("name", "metric", "direction", "state")
        print_json({**{key: getattr(found, key) for key in keys}, **vars(found.best)})
    else:
        from dovetail.cli.studies.study_view import best_lines

        print_lines(best_lines(found))


@study.command()
@_name
@with_client
def stop(client: Client, name: str) -> None:
    """Take its trials off their GPUs; their progress is kept until it is resumed."""
    row = read(StudyRow, client.post(f"{path_of(name)}/stop"))
    again = f"{command_again()} study resume {quote(name)}"
    click.echo(clean(f"Study {row.name} is stopped; it goes on with: {again}"))


@study.command()
@_name
@with_client
def resume(client: Client, name: str) -> None:
    """Let a stopped study go on where it was."""
    row = read(StudyRow, client.post(f"{path_of(name)}/resume"))
    told = f"Study {row.name} goes on: {counts_text(row)}; best so far {best_text(row)}."
    click.echo(clean(told))


@study.command()
@_name
@click.argument("trials", type=click.IntRange(1))
@with_client
def extend(client: Client, name: str, trials: int) -> None:
    """Let an open study have so many more trials."""
    row = read(StudyRow, client.post(f"{path_of(name)}/extend", {"trials": trials}))
    told = f"Study {row.name} has {counted(row.trials, 'trial')} now: {counts_text(row)}."
    click.echo(clean(told))


@study.command()
@_name
@with_client
def cancel(client: Client, name: str) -> None:
    """End it and all its trials for good; what it has found can still be looked at."""
    before = study_called(client, name)
    row = read(StudyRow, client.post(f"{path_of(name)}/cancel"))
    ended = [trial.state for trial in before.trials if trial.state in _LIVING]
    told = f"Study {row.name} is cancelled: {counted(len(ended), 'trial')} ended"
    told += f", {ended.count('running')} of them running" if "running" in ended else ""
    best = f"best {best_text(row)}" if row.best else "no value"
    click.echo(clean(f"{told}; {row.done:,} done; {best}."))


_MOST_LAST_LINES = 50
_LIVING = ("new", "running", "paused")


@study.command()
@_name
@click.option("-o", "out", metavar="FILE", help="Where to write the page.  [NAME.html]")
@with_client
def report(client: Client, name: str, out: str | None) -> None:
    """Write a page about the study: curves, GPUs, settings, and what other policies would have
    cost."""
    from dovetail.reports.study_page import write_study

    found = _readable(client, name)
    path = Path(out or f"{_file_name(found.name)}.html")
    write_study(path, found, last_lines=_last_lines(client, found.trials))
    click.echo(f"Report: {path.absolute()} ({counted(len(found.trials), 'trial')})")


def _last_lines(client: Client, trials: Sequence[TrialRow]) -> dict[int, str]:
    """By trial: the last line that it printed, for the first trials that failed."""
    failed = [trial for trial in trials if trial.state == "failed"][:_MOST_LAST_LINES]
    return {trial.number: _last_line(client, trial.job) for trial in failed}


def _last_line(client: Client, job_id: str) -> str:
    """ "" where nothing was printed, or the log is gone."""
    from dovetail.cli.jobs.logs import last_lines

    try:
        raw, _ = last_lines(client, job_id, 1)
    except DovetailError:
        return ""
    return clean(" ".join(raw.decode(errors="replace").split()))


def _file_name(name: str) -> str:
    return (
        "".join(own if own.isalnum() or own in "-_." else "-" for own in name).strip(".") or "study"
    )
