"""Following a study: on a terminal as a live view, elsewhere with one line for each new best."""

from __future__ import annotations

import os
import time
from shlex import quote
from typing import Any

import click

from dovetail.cli.live_screen import draw, has_keyboard, quits, screen
from dovetail.cli.reach import command_again, print_lines
from dovetail.cli.study_view import CHART_LINES, StudyScene, curves, frame
from dovetail.client.connection import Client, Unreachable, quoted
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
from dovetail.text.durations import duration_text
from dovetail.text.tables import Row, clean, has_colours, width

_FIRST_LOOK_S, _REDRAW_S = 0.1, 1.0  # at first more often: it may fail, or be over, at once
_PATIENCE = 5.0  # a study that takes long to tell is asked for less often


def path_of(name: str) -> str:
    return f"/v1/studies/{quoted(name)}"


def follow(client: Client, name: str, quiet: bool = False) -> dict[str, Any]:
    """Until it is closed, or somebody leaves: the study as it was seen last."""
    study: dict[str, Any] = client.get(path_of(name))
    if has_keyboard() and not quiet:
        study = watch(client, study)
        print_lines(curves(study, (width(), CHART_LINES), has_colours()))
    else:
        study = _told(client, study, quiet)
    if study["state"] != CLOSED:
        say_how_to_come_back(study)
    elif not quiet:
        print_lines(ending(study))
    return study


def watch(client: Client, study: dict[str, Any], keys: str = "q detaches") -> dict[str, Any]:
    """The live view; ends with what was seen last."""
    scene = StudyScene(study, keys=keys)
    if study["state"] == CLOSED:
        return study
    with screen():
        looked_at, interval, size = time.monotonic(), _FIRST_LOOK_S, (0, 0)
        while scene.study["state"] != CLOSED:
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
    return dict(scene.study)


def _longer(pause_s: float) -> float:
    return min(pause_s * 1.5, _REDRAW_S)


def _look(client: Client, before: StudyScene) -> StudyScene:
    """While the daemon is away, what was seen last stays, and that it is away is said."""
    try:
        return before._replace(study=client.get(path_of(before.study["id"])), away="")
    except Unreachable as error:
        return before._replace(away=str(error))


# ------------------------------------------------------------------------------ without a terminal


def _told(client: Client, study: dict[str, Any], quiet: bool) -> dict[str, Any]:
    try:
        return _tell(client, study, quiet)
    except Unreachable:
        say_how_to_come_back(study)
        raise


def _tell(client: Client, study: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """One line for each new best, until it is closed or held; once a warning."""
    told, is_warned = "", False
    row, pause_s = study, _FIRST_LOOK_S
    try:
        while True:
            if _is_new(row, told) and not quiet:
                told = _best_shown(row)
                click.echo(new_best(study, row))
            warning = quiet_text({**row, "metric": study["metric"]}, command_again())
            if warning and not is_warned:
                is_warned = True
                click.echo(clean(f"Warning: {warning}"), err=True)
            if row["state"] != "open":
                break
            time.sleep(pause_s)
            pause_s = _longer(pause_s)
            row = _row(client, study["id"])
    except KeyboardInterrupt:
        return study
    return patiently(client, path_of(study["id"]))


def _is_new(row: Row, told: str) -> bool:
    return bool(row["best"]) and _best_shown(row) != told


def _best_shown(row: Row) -> str:
    """A value that only differs in digits that are not shown is no news."""
    return f"{row['best']['trial']}: {value_text(row['best']['value'])}"


def _row(client: Client, study_id: str) -> dict[str, Any]:
    """As listed among the open ones: that is short, however many curves there are."""
    rows = patiently(client, "/v1/studies?limit=0")["studies"]
    found = next((row for row in rows if row["id"] == study_id), None)
    return found or patiently(client, path_of(study_id))


def new_best(study: Row, row: Row) -> str:
    """`3 min  val_loss 0.41 by trial 3 at step 2 (lr 0.01, units 64)`"""
    told = f"{duration_text(row['age_s']):>11}  {study['metric']} {best_text(row)}"
    return clean(f"{told} ({settings_text(row['best']['settings'])})")


# -------------------------------------------------------------------------------------- what is said


def ending(study: Row) -> list[str]:
    """How it ended, and what came of it."""
    told = f"Study {study['name']} closed after {duration_text(study['age_s'])}"
    counts = "" if tells_counts(study["reason"]) else counts_text(study)
    told += f": {study['reason']}" if study["reason"] else ""
    lines = [f"{told}; {counts}." if counts else f"{told}."]
    if study["best"]:
        settings = settings_text(study["best"]["settings"])
        lines.append(f"Best: {study['metric']} {best_text(study)} ({settings}).")
    else:
        job = next((trial["job"] for trial in study["trials"]), "JOB")
        logs = f"{command_again()} logs {job}"
        what = "a finite " if any(trial["points"] for trial in study["trials"]) else ""
        lines.append(f"No trial reported {what}{study['metric']}; what one printed: {logs}")
    if study["target"] is not None:
        lines.append(f"Target: {target_text(study)}.")
    return [clean(line) for line in lines]


def say_how_to_come_back(study: Row) -> None:
    command, name = command_again(), study["name"]
    if study["state"] == "stopped":
        told = f"Study {name} is stopped; it goes on with: {command} study resume {quote(name)}"
    else:
        told = f"Study {name} goes on. Come back: {command} study show {quote(name)} --watch"
    click.echo(clean(told), err=True)
