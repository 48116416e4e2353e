"""`dovetail top`: the machine and its queue, drawn anew every second."""

from __future__ import annotations

import os
import time

import click

from dovetail.api.job_row import Jobs
from dovetail.api.machine_row import Nodes
from dovetail.api.wire import read
from dovetail.cli.daemon.top_screen import TopScene, frame
from dovetail.cli.live_screen import draw, has_keyboard, quits, screen
from dovetail.cli.reach import ListedJob, command_again, with_client, with_forecast
from dovetail.client.connection import Client, DaemonUnreachable
from dovetail.core.errors import BadInput

_REDRAW_S = 1.0
_FORECAST_EVERY_S = 3.0


@click.command()
@click.option("--interval", type=click.FloatRange(0.1), default=_REDRAW_S, metavar="SECONDS")
@with_client
def top(client: Client, interval: float) -> None:
    """Watch GPUs, running jobs and the queue. q quits."""
    if not has_keyboard():
        raise BadInput(f"top needs a terminal; for a pipe: {command_again()} queue --json")
    client.get("/v1/health")  # better said before the screen is taken
    with screen():
        _watch(client, interval)


def _watch(client: Client, interval: float) -> None:
    scene = TopScene()
    forecast_at = drawn_at = -1e9
    size = (0, 0)
    while not quits():
        now, window = time.monotonic(), os.get_terminal_size()
        if now - drawn_at >= interval:
            fresh = now - forecast_at >= _FORECAST_EVERY_S
            scene = _look(client, scene, window.lines, fresh)
            forecast_at = now if fresh else forecast_at
        if now - drawn_at >= interval or size != window:
            draw(frame(scene, window.columns, window.lines, time.time()))
            drawn_at = now if now - drawn_at >= interval else drawn_at
            size = window


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
