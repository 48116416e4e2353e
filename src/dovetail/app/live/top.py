"""`dovetail top`: the machine and its queue, drawn anew every second."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from dovetail.app.client import Client, Unreachable
from dovetail.app.live.reach import with_client, with_forecast
from dovetail.app.live.screen import Scene, frame
from dovetail.core.errors import BadInput

_REDRAW_S = 1.0
_FORECAST_EVERY_S = 3.0
_LOOK_FOR_KEYS_S = 0.2
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"  # another screen, without cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"
_QUIT = b"qQ\x03\x04"


@click.command()
@click.option("--interval", type=click.FloatRange(0.1), default=_REDRAW_S, metavar="SECONDS")
@with_client
def top(client: Client, interval: float) -> None:
    """Watch GPUs, running jobs and the queue. q quits."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("top needs a terminal; for a pipe: dovetail queue --json")
    client.get("/v1/health")  # better said before the screen is taken
    with _screen():
        _watch(client, interval)


def _watch(client: Client, interval: float) -> None:
    scene = Scene()
    forecast_at = drawn_at = -1e9
    size = (0, 0)
    while not _quits():
        now, window = time.monotonic(), os.get_terminal_size()
        if now - drawn_at >= interval:
            fresh = now - forecast_at >= _FORECAST_EVERY_S
            scene = _look(client, scene, window.lines, fresh)
            forecast_at = now if fresh else forecast_at
        if now - drawn_at >= interval or size != window:
            _draw(frame(scene, window.columns, window.lines, time.time()))
            drawn_at = now if now - drawn_at >= interval else drawn_at
            size = window


def _look(client: Client, before: Scene, lines: int, fresh: bool) -> Scene:
    """While the daemon is away, what was seen last stays, and that it is away is said."""
    try:
        found = client.get("/v1/jobs", limit=max(lines, 1) + 64)
        nodes = client.get("/v1/nodes")["nodes"]
        rows: list[dict[str, Any]] = found["jobs"]
        if fresh:
            rows = with_forecast(client, rows)
        else:
            rows = [{**_expected(before, row["id"]), **row} for row in rows]
    except Unreachable as error:
        return before._replace(away=str(error))
    return Scene(found, nodes, rows)


def _expected(scene: Scene, job_id: str) -> dict[str, Any]:
    row = next((row for row in scene.rows if row["id"] == job_id), {})
    return {name: row.get(name) for name in ("expected_start", "expected_end")}


def _draw(lines: list[str]) -> None:
    """Over what is there, line by line, so that nothing flickers."""
    sys.stdout.write("\x1b[H" + "\x1b[K\r\n".join(lines) + "\x1b[K\x1b[J")
    sys.stdout.flush()


# ------------------------------------------------------------------------------------ the terminal


def _quits() -> bool:
    """Waits a moment for a key."""
    ready, _, _ = select.select([sys.stdin], [], [], _LOOK_FOR_KEYS_S)
    if not ready:
        return False
    keys = os.read(sys.stdin.fileno(), 64)
    return not keys or any(key in _QUIT for key in keys)


@contextmanager
def _screen() -> Iterator[None]:
    """The terminal is given back as it was, however we leave."""
    import termios
    import tty

    was = termios.tcgetattr(sys.stdin)

    def enter() -> None:
        tty.setcbreak(sys.stdin)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()

    def leave() -> None:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, was)

    def be_stopped(*_: object) -> None:
        leave()
        signal.raise_signal(signal.SIGSTOP)
        enter()

    def end(number: int, *_: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTSTP, be_stopped)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        enter()
        yield
    except KeyboardInterrupt:
        pass
    finally:
        leave()
