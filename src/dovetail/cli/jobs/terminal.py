"""`dovetail shell`, `dovetail attach`, and `dovetail run -it`: jobs in terminals."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import click

from dovetail.api.job_row import ENDED, JobDetails
from dovetail.api.wire import read
from dovetail.cli.jobs.attached import cancel_and_wait
from dovetail.cli.jobs.submit import SETTINGS, SubmitCommand, seat_options, submitted
from dovetail.cli.reach import command_again, job_id, one_job, with_client
from dovetail.client.connection import Client
from dovetail.client.follow import ending, exit_code, wait_for
from dovetail.client.terminal import TerminalSeat, check_terminal, key_called, size_here
from dovetail.core.errors import BadInput
from dovetail.text.durations import duration_text

LINGER = "10m"
_SCROLL_BACK = 1 << 16  # bytes that whoever comes is shown first
_SHELL = "/bin/sh"

lingering = click.option(
    "--linger", metavar="TIME", default=LINGER, show_default=True,
    help="It ends when its terminal is gone for so long.",
)  # fmt: skip
leaving = click.option(
    "--detach-key", metavar="KEY", default="ctrl-]", show_default=True,
    help="Leaves it running: ctrl-] or another letter, or none.",
)  # fmt: skip


@click.command(cls=SubmitCommand, context_settings=SETTINGS)
@seat_options
@lingering
@leaving
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@with_client
def shell(
    client: Client, linger: str, detach_key: str, words: tuple[str, ...], **asked: Any
) -> None:
    """A shell, or a command, in a terminal on GPUs of its own: dovetail shell --gpus 1.

    It waits in the queue like any job, gives way only if --preemptible says so, and ends when the
    terminal is gone for as long as --linger says. dovetail attach comes back to it.
    """
    asked["words"] = words or (os.environ.get("SHELL") or _SHELL,)
    asked["name"] = asked["name"] or ("shell" if not words else None)
    run_in_terminal(client, asked, True, linger, detach_key)


def run_in_terminal(
    client: Client, asked: Mapping[str, Any], is_command: bool, linger: str, detach_key: str
) -> None:
    """Never returns: it ends with the job's exit code."""
    check_terminal()
    if asked.get("array"):
        raise click.UsageError("an array has no terminal; hand it in with dovetail submit")
    key = key_called(detach_key)
    linger_s = linger_seconds(linger)
    own = submitted(client, asked, is_command, {"terminal": {**size_here(), "linger_s": linger_s}})
    told = f"it ends if nobody is back within {duration_text(linger_s)}"
    sys.exit(_sit_until_it_ends(client, own.ids[0], key, told))


def _sit_until_it_ends(client: Client, job_id: str, key: bytes, told: str) -> int:
    """Until it begins, the terminal is not lent to it: Ctrl-C then cancels it."""
    try:
        row = read(JobDetails, client.get(f"/v1/jobs/{job_id}"))
        if row.phase == "queued":
            say(f"job {job_id} waits for its GPUs; Ctrl-C cancels it")
        return sit(client, job_id, 0, key, told=told)
    except KeyboardInterrupt:
        return cancel_and_wait(client, job_id)


def linger_seconds(text: str) -> float:
    from dovetail.jobfiles.quantities import duration

    with suppress(ValueError):
        if (found := duration(text)) >= 1:
            return found
    raise BadInput(f"--linger {text}: write a time of a second or more, such as 10m")


def sit(client: Client, job_id: str, start: int, key: bytes, *, told: str = "", **how: bool) -> int:
    """At the job's console, to its end or until they leave it; the exit code."""
    tell = partial(say_meanwhile, job_id)
    if not TerminalSeat(client, job_id, leave_key=key, say=tell, **how).sit(start):
        again = f"{command_again()} attach {job_id} comes back"
        say(f"left job {job_id}, which goes on; {again}{told and f'; {told}'}")
        return 0
    row = wait_for(client, job_id)
    if row.phase != "finished":
        say(ending(row))
    return exit_code(row)


def say_meanwhile(job_id: str, text: str) -> None:
    """Print a line while the terminal belongs to the job, which may have left the cursor anywhere
    in a line: ours begins at the left."""
    click.echo(f"\r\ndovetail: job {job_id}: {text}\r", err=True)


def say(text: str) -> None:
    click.echo(f"dovetail: {text}", err=True)


@click.command()
@job_id
@leaving
@click.option("--read-only", is_flag=True, help="Look, and pass on no key.")
@with_client
def attach(client: Client, job_id: str, detach_key: str, read_only: bool) -> None:
    """Look into the terminal of a job that runs, and type there; several may at once.

    What it printed before is shown first. Of a job without a terminal what it prints is shown.
    """
    check_terminal()
    key = key_called(detach_key)
    own = one_job(client, job_id, ("running", "suspended", "starting", "queued"))
    row = read(JobDetails, client.get(f"/v1/jobs/{own}"))
    if row.phase in ENDED:
        raise BadInput(f"job {own} has {row.phase}; {command_again()} logs {own} shows its output")
    if not row.terminal:
        say(f"job {own} has no terminal: this is what it prints; {detach_key} leaves it")
    types, has_terminal = row.terminal and not read_only, row.terminal
    sys.exit(sit(client, own, -_SCROLL_BACK, key, types=types, has_terminal=has_terminal))
