"""`dovetail exec`: a command beside a job that runs."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from functools import partial
from typing import Any

import click

from dovetail.api.console_row import CommandStarted
from dovetail.api.wire import read
from dovetail.cli.jobs.attached import has_input
from dovetail.cli.jobs.submit import SETTINGS
from dovetail.cli.jobs.terminal import say_meanwhile
from dovetail.cli.reach import one_job, with_client
from dovetail.client.connection import Client
from dovetail.client.consoles import Typing, seen, standing
from dovetail.client.follow import write_out
from dovetail.core.errors import DovetailError

_PIECE = 1 << 16


@click.command("exec", context_settings=SETTINGS)
@click.option("-i", "-t", "--interactive", is_flag=True, help="In a terminal: -it.")
@click.option("--workdir", metavar="DIR", help="Folder to run in, instead of the job's.")
@click.argument("job_id", metavar="ID|NAME|PATTERN")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@with_client
def exec_command(
    client: Client, interactive: bool, workdir: str | None, job_id: str, words: tuple[str, ...]
) -> None:
    """Run a command beside a job: its user, folder, variables, GPUs and limits. The exit code is the
    command's own. It is suspended and ends with the job."""
    from dovetail.client.terminal import check_terminal, size_here

    words = words[1:] if words[:1] == ("--",) else words
    own = one_job(client, job_id, ("running",))
    asked: dict[str, Any] = {"argv": list(words), "cwd": workdir and os.path.abspath(workdir)}
    if interactive:
        check_terminal()
        asked["size"] = size_here()
    told = read(CommandStarted, client.post(f"/v1/jobs/{own}/exec", asked))
    if interactive:
        _in_terminal(client, own, told.console)
    else:
        _Beside(client, own, told.console).follow()
    ended = standing(client, f"/v1/jobs/{own}", told.console)
    if ended.failure:
        click.echo(f"dovetail: {ended.failure}", err=True)
    sys.exit(1 if ended.code is None else ended.code)


def _in_terminal(client: Client, job_id: str, console: int) -> None:
    from dovetail.client.terminal import TerminalSeat

    seat = TerminalSeat(client, job_id, console, say=partial(say_meanwhile, job_id))
    if not seat.sit(0, "stdout"):
        sys.exit(1)


class _Beside:
    def __init__(self, client: Client, job_id: str, console: int) -> None:
        self._client = client
        self._path = f"/v1/jobs/{job_id}"
        self._console = console
        self._over = threading.Event()
        self._asked = 0

    def follow(self) -> None:
        """Ctrl-C is passed on; a second one kills it."""
        before = signal.signal(signal.SIGINT, self._interrupt)
        errors = threading.Thread(target=self._show_errors, daemon=True)
        errors.start()
        threading.Thread(target=self._send_input, daemon=True).start()
        try:
            write_out(self._seen(self._client, "stdout"), apart=True)
            errors.join()
        finally:
            self._over.set()
            signal.signal(signal.SIGINT, before)

    def _seen(self, client: Client, stream: str) -> Any:
        return seen(client, self._path, 0, lambda phase: None, stream, self._console)

    def _show_errors(self) -> None:
        client = self._client.another()
        try:
            for _, piece in self._seen(client, "stderr"):
                sys.stderr.buffer.write(piece)
                sys.stderr.buffer.flush()
        except (DovetailError, OSError, ValueError):
            pass  # whoever follows the output says it
        finally:
            client.close()

    def _interrupt(self, *_: object) -> None:
        number = signal.SIGINT if self._asked == 0 else signal.SIGKILL
        self._asked += 1
        client = self._client.another()
        try:
            asked = {"signal": int(number)}
            client.post(f"{self._path}/exec/{self._console}/signal", asked)
        except DovetailError:
            pass  # it has ended
        finally:
            client.close()

    def _send_input(self) -> None:
        client = self._client.another()
        typing = Typing(client, self._path, self._over.is_set, self._console)
        try:
            if not has_input():
                typing.send(b"", is_all=True)
                return
            is_open = True
            while is_open:
                select.select([0], [], [])
                piece = os.read(0, _PIECE)
                is_open = typing.send(piece, is_all=not piece) and bool(piece)
        except (DovetailError, OSError):
            return  # whoever follows the output says what is wrong
        finally:
            client.close()
