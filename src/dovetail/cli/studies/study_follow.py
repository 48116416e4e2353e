"""Following a study: on a terminal as a live view, elsewhere with one line for each new best."""

from __future__ import annotations

import os
import time
from shlex import quote

import click

from dovetail.api.study_row import BestTrial, StudiesTold, StudyHead, StudyPage
from dovetail.api.wire import read
from dovetail.cli.live_screen import draw, has_keyboard, quits, screen
from dovetail.cli.reach import command_again, print_lines
from dovetail.cli.studies.study_view import CHART_LINES, StudyScene, curves, frame
from dovetail.client.connection import Client, DaemonUnreachable, quoted
from dovetail.client.follow import patiently
from dovetail.client.study_rows import (
    CLOSED,
    best_text,
    counts_text,
    quiet_text,
    settings_text,
    target_text,
    tells_counts,
    value_text,
)
from dovetail.core.errors import BadInput
from dovetail.text.durations import duration_text
from dovetail.text.tables import clean, has_colours, width

_FIRST_LOOK_S, _REDRAW_S = 0.1, 1.0  # at first more often: it may fail, or be over, at once
_PATIENCE = 5.0  # a study that takes long to tell is asked for less often


def path_of(name: str) -> str:
    if not name.strip():
        raise BadInput(f"there is no study {name!r}; `dovetail study list` shows them")
    return f"/v1/studies/{quoted(name)}"


def study_called(client: Client, name: str) -> StudyPage:
    return read(StudyPage, client.get(path_of(name)))


def follow(client: Client, name: str, quiet: bool = False) -> StudyPage:
    """Until it is closed, or somebody leaves: the study as it was seen last."""
    study = study_called(client, name)
    if has_keyboard() and not quiet:
        study = watch(client, study)
        print_lines(curves(study, (width(), CHART_LINES), has_colours()))
    else:
        study = _told(client, study, quiet)
    if study.state != CLOSED:
        say_how_to_come_back(study)
    elif not quiet:
        print_lines(ending(study))
    return study


def watch(client: Client, study: StudyPage, keys: str = "q detaches") -> StudyPage:
    """The live view; returns the study as it was seen last."""
    scene = StudyScene(study, keys=keys)
    if study.state == CLOSED:
        return study
    with screen():
        looked_at, interval, size = time.monotonic(), _FIRST_LOOK_S, (0, 0)
        while scene.study.state != CLOSED:
            now, window = time.monotonic(), os.get_terminal_size()
            is_due = now - looked_at >= interval
            if is_due:
                scene = _look(client, scene)
                looked_at = time.monotonic()
                interval = max(_longer(interval), _PATIENCE * (looked_at - now))
            if is_due or size != window:
                size = window
                draw(frame(scene, size[0], size[1], time.time(), has_colours()))
            if quits():
                break
    return scene.study


def _longer(pause_s: float) -> float:
    return min(pause_s * 1.5, _REDRAW_S)


def _look(client: Client, before: StudyScene) -> StudyScene:
    """While the daemon is away, the last answer stays on the screen, with a line about it."""
    try:
        return before._replace(study=study_called(client, before.study.id), away="")
    except DaemonUnreachable as error:
        return before._replace(away=str(error))


# ------------------------------------------------------------------------------ without a terminal


def _told(client: Client, study: StudyPage, quiet: bool) -> StudyPage:
    try:
        return _tell(client, study, quiet)
    except DaemonUnreachable:
        say_how_to_come_back(study)
        raise


def _tell(client: Client, study: StudyPage, quiet: bool) -> StudyPage:
    """One line for each new best, until it is closed or held; once a warning."""
    told, is_warned = "", False
    row: StudyHead = study
    pause_s = _FIRST_LOOK_S
    try:
        while True:
            if row.best is not None and _best_shown(row.best) != told and not quiet:
                told = _best_shown(row.best)
                click.echo(new_best(study.metric, row, row.best))
            warning = quiet_text(row.quiet, study.metric, command_again())
            if warning and not is_warned:
                is_warned = True
                click.echo(clean(f"Warning: {warning}"), err=True)
            if row.state != "open":
                break
            time.sleep(pause_s)
            pause_s = _longer(pause_s)
            row = _row(client, study.id)
    except KeyboardInterrupt:
        return study
    return patiently(client, StudyPage, path_of(study.id))


def _best_shown(best: BestTrial | None) -> str:
    """A value that only differs in digits that are not shown is no news."""
    return "" if best is None else f"{best.trial}: {value_text(best.value)}"


def _row(client: Client, study_id: str) -> StudyHead:
    """As listed among the open ones: that is short, however many curves there are."""
    rows = patiently(client, StudiesTold, "/v1/studies?limit=0").studies
    found = next((row for row in rows if row.id == study_id), None)
    return found or patiently(client, StudyPage, path_of(study_id))


def new_best(metric: str, row: StudyHead, best: BestTrial) -> str:
    """`3 min  val_loss 0.41 by trial 3 at step 2 (lr 0.01, units 64)`"""
    told = f"{duration_text(row.age_s):>11}  {metric} {best_text(row)}"
    return clean(f"{told} ({settings_text(best.settings)})")


# -------------------------------------------------------------------------------------- what is said


def ending(study: StudyPage) -> list[str]:
    """How it ended, and its best trial."""
    told = f"Study {study.name} closed after {duration_text(study.age_s)}"
    counts = "" if tells_counts(study.reason) else counts_text(study)
    told += f": {study.reason}" if study.reason else ""
    lines = [f"{told}; {counts}." if counts else f"{told}."]
    if study.best:
        settings = settings_text(study.best.settings)
        lines.append(f"Best: {study.metric} {best_text(study)} ({settings}).")
    else:
        job = next((trial.job for trial in study.trials), "JOB")
        logs = f"{command_again()} logs {job}"
        what = "a finite " if any(trial.points for trial in study.trials) else ""
        lines.append(f"No trial reported {what}{study.metric}; what one printed: {logs}")
    if study.target is not None:
        lines.append(f"Target: {target_text(study)}.")
    return [clean(line) for line in lines]


def say_how_to_come_back(study: StudyHead) -> None:
    command, name = command_again(), study.name
    if study.state == "stopped":
        told = f"Study {name} is stopped; it goes on with: {command} study resume {quote(name)}"
    else:
        told = f"Study {name} goes on. Come back: {command} study show {quote(name)} --watch"
    click.echo(clean(told), err=True)
