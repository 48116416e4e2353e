"""`dovetail there`: the other end of `dovetail --host`, typed by ssh alone."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import threading
from contextlib import suppress
from pathlib import Path

import click

from dovetail.cli.remote.message import carried_in
from dovetail.client.command_name import TYPED_VARIABLE


@click.command(hidden=True)
@click.argument("word")
@click.pass_context
def there(ctx: click.Context, word: str) -> None:
    """Carry out a command of another machine."""
    told = carried_in(word)
    if told.interrupt:
        _interrupt(told.interrupt)
        return
    with suppress(OSError):
        os.chdir(told.folder or Path.home())
    os.environ.pop("DOVETAIL_HOST", None)
    os.environ[TYPED_VARIABLE] = told.typed
    _end_with_the_connection()
    command = ctx.find_root().command
    command.main(list(told.words), prog_name=told.typed, standalone_mode=False)


def _interrupt(word: str) -> None:
    """A Ctrl-C for the command that came as that word."""
    for own in Path("/proc").glob("[0-9]*"):
        try:
            words = (own / "cmdline").read_bytes().split(b"\0")
            if own.stat().st_uid == os.getuid() and word.encode() in words:
                os.kill(int(own.name), signal.SIGINT)
        except OSError:
            continue  # it has ended


def _end_with_the_connection() -> None:
    """A terminal that goes says so; a pipe is only found broken by who writes, and some only wait."""
    if not stat.S_ISFIFO(mode := os.fstat(1).st_mode) and not stat.S_ISSOCK(mode):
        return
    threading.Thread(target=_watch_output, name="connection", daemon=True).start()


def _watch_output() -> None:
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    while True:
        for _, event in poll.poll():
            if event & (select.POLLERR | select.POLLHUP):
                os.kill(os.getpid(), signal.SIGHUP)
                return
