"""A job followed from the terminal it was submitted from."""

from __future__ import annotations

import os
import sys
import threading

import click

from dovetail.api.job_row import JobDetails
from dovetail.api.wire import read
from dovetail.cli.jobs.job_columns import reason_to_wait
from dovetail.client.connection import Client, RequestRefused
from dovetail.client.follow import ending, exit_code, log_bytes, wait_for, write_out
from dovetail.core.errors import DovetailError

_INTERRUPTED = 130


def are_apart() -> bool:
    """Whether output and errors of this command go to different places. Where they go to the same,
    one stream keeps them in order."""
    try:
        out, err = os.fstat(1), os.fstat(2)
    except OSError:  # one is closed
        return True
    return (out.st_dev, out.st_ino) != (err.st_dev, err.st_ino)


def attend(client: Client, job_id: str, apart: bool = False) -> int:
    """Shows what it prints until it has ended; the exit code to end with."""
    _say_if_it_waits(client, job_id)
    try:
        errors = _errors_beside(client, job_id) if apart else None
        write_out(log_bytes(client, job_id, stream="stdout" if apart else None), apart=apart)
        if errors is not None:
            errors.join()
        row = wait_for(client, job_id)
    except KeyboardInterrupt:
        return _cancel(client, job_id)
    if row.phase != "finished":
        _say(ending(row))
    return exit_code(row)


def _errors_beside(client: Client, job_id: str) -> threading.Thread:
    def follow(own: Client) -> None:
        try:
            for _, piece in log_bytes(own, job_id, stream="stderr"):
                sys.stderr.buffer.write(piece)
                sys.stderr.buffer.flush()
        except (DovetailError, OSError, ValueError):
            pass  # whoever follows the output says it
        finally:
            own.close()

    thread = threading.Thread(target=follow, args=(client.another(),), daemon=True)
    thread.start()
    return thread


def _say_if_it_waits(client: Client, job_id: str) -> None:
    if not sys.stderr.isatty():
        return
    row = read(JobDetails, client.get(f"/v1/jobs/{job_id}"))
    _say(f"job {job_id} {row.phase}{reason_to_wait(row)}; Ctrl-C cancels it")


def _cancel(client: Client, job_id: str) -> int:
    """Ctrl-C once cancels and waits for the end; twice leaves at once."""
    _say(f"cancelling job {job_id}; Ctrl-C again leaves without waiting for its end")
    try:
        client.post("/v1/jobs/cancel", {"ids": [job_id]})
        for _ in log_bytes(client, job_id, tail=0):
            pass
        _say(ending(wait_for(client, job_id)))
    except RequestRefused as error:  # it ended by itself in the meantime
        _say(str(error))
    return _INTERRUPTED


def _say(text: str) -> None:
    click.echo(f"dovetail: {text}", err=True)
