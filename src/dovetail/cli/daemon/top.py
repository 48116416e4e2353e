"""`dovetail top`: the machine and its queue, drawn anew every second."""

from __future__ import annotations

import os
import time

import click

from dovetail.api.job_row import JobDetails, Jobs
from dovetail.api.machine_row import Nodes
from dovetail.api.why_row import Why
from dovetail.api.wire import read
from dovetail.cli.daemon.top_keys import TopKeys, after, in_view, typed_keys
from dovetail.cli.daemon.top_screen import TopScene, frame
from dovetail.cli.live_screen import draw, has_keyboard, pressed, screen
from dovetail.cli.reach import ListedJob, command_again, with_client, with_forecast
from dovetail.client.connection import Client, DaemonUnreachable
from dovetail.client.job_facts import details
from dovetail.core.errors import BadInput, DovetailError
from dovetail.text.tables import plain

_REDRAW_S = 1.0
_FORECAST_EVERY_S = 3.0
_LINE_BYTES = 200
_DONE = {"cancel": "cancelled", "pause": "paused", "resume": "resumed"}


@click.command()
@click.option("--interval", type=click.FloatRange(0.1), default=_REDRAW_S, metavar="SECONDS")
@with_client
def top(client: Client, interval: float) -> None:
    """Watch GPUs, running jobs and the queue; look at a job, cancel or pause it. q quits.

    Keys: arrows or j and k move, / filters, s sorts, l shows the log, w why it waits, Enter all
    about it, c cancels, p pauses and resumes.
    """
    if not has_keyboard():
        raise BadInput(f"top needs a terminal; for a pipe: {command_again()} queue --json")
    client.get("/v1/health")  # better said before the screen is taken
    with screen():
        _watch(client, interval)


def _watch(client: Client, interval: float) -> None:
    scene, keys = TopScene(), TopKeys()
    forecast_at = drawn_at = -1e9
    size = (0, 0)
    while not keys.quits:
        now, window, came = time.monotonic(), os.get_terminal_size(), pressed()
        for key in typed_keys(came):
            keys = after(keys, key, in_view(scene.rows, keys))
            if keys.wish:
                keys, drawn_at = _carried_out(client, keys), -1e9
        is_due = now - drawn_at >= interval
        if is_due:
            fresh = now - forecast_at >= _FORECAST_EVERY_S
            scene = _look(client, scene, window.lines, fresh)
            forecast_at, drawn_at = (now if fresh else forecast_at), now
        if keys.panel and (is_due or came):
            scene = scene._replace(panel=_told(client, keys, window.lines))
        if is_due or came or size != window:
            draw(frame(scene, window.columns, window.lines, time.time(), keys))
            size = window


def _carried_out(client: Client, keys: TopKeys) -> TopKeys:
    """A refusal is said in the last line."""
    try:
        client.post(f"/v1/jobs/{keys.wish}", {"ids": [keys.chosen]})
        says = f"{_DONE[keys.wish]} job {keys.chosen}"
    except DovetailError as error:
        says = str(error)
    return keys._replace(wish="", says=says)


def _told(client: Client, keys: TopKeys, lines: int) -> list[str]:
    """What the panel shows of the chosen job."""
    path = f"/v1/jobs/{keys.chosen}"
    try:
        if keys.panel == "log":
            text = client.text(f"{path}/log", tail=lines * _LINE_BYTES)
            return [
                plain(line.rpartition("\r")[2]) for line in text.replace("\r\n", "\n").split("\n")
            ]
        if keys.panel == "why":
            return read(Why, client.get(f"{path}/why")).text.split("\n")
        return details(read(JobDetails, client.get(path)), None, time.time())
    except DovetailError as error:
        return [str(error)]


def _look(client: Client, before: TopScene, lines: int, fresh: bool) -> TopScene:
    """While the daemon is away, the last answers stay on the screen, with a line about it."""
    try:
        found = read(Jobs, client.get("/v1/jobs", limit=max(lines, 1) + 64))
        nodes = read(Nodes, client.get("/v1/nodes")).nodes
        if fresh:
            return TopScene(found, nodes, with_forecast(client, found.jobs))
    except DaemonUnreachable as error:
        return before._replace(away=str(error))
    known = {row.job.id: row.expected for row in before.rows}
    return TopScene(found, nodes, [ListedJob(row, known.get(row.id)) for row in found.jobs])
