"""A job followed from the terminal it was submitted from, whose standard input is sent to it."""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
import time

import click

from dovetail.api.job_row import JobDetails, StdinTaken
from dovetail.api.wire import read
from dovetail.cli.jobs.job_columns import reason_to_wait
from dovetail.client.connection import Client, DaemonUnreachable, RequestRefused
from dovetail.client.follow import ending, exit_code, log_bytes, wait_for, write_out
from dovetail.core.errors import DovetailError

_INTERRUPTED = 130
_PIECE = 1 << 20
_SIGN_OF_LIFE_S = 60.0  # far more often than the keeper asks for one
_FULL_S = 0.05  # until there may be room again
_AWAY_S = 0.5  # until the daemon may be back
_FD = 0


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
        return cancel_and_wait(client, job_id)
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


def cancel_and_wait(client: Client, job_id: str) -> int:
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


def has_input() -> bool:
    """Whether somebody gives this command an input: not a keyboard, not nothing."""
    try:
        found = os.fstat(_FD)
        return not os.isatty(_FD) and not _is_same(found, os.stat(os.devnull))
    except OSError:  # it is closed
        return False


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return stat.S_ISCHR(one.st_mode) and one.st_rdev == other.st_rdev


def send_input(client: Client, job_id: str) -> None:
    """Beside everything else, until there is no more or the job wants none."""
    sending = _Sending(client.another(), job_id)
    threading.Thread(target=sending.run, name="standard input", daemon=True).start()


class _Sending:
    def __init__(self, client: Client, job_id: str) -> None:
        self._client = client
        self._path = f"/v1/jobs/{job_id}/stdin"
        self._taken = 0

    def run(self) -> None:
        try:
            is_open = True
            while is_open:
                if select.select([_FD], [], [], _SIGN_OF_LIFE_S)[0]:
                    piece = os.read(_FD, _PIECE)
                    is_open = self._send(piece, is_end=not piece)
                else:
                    is_open = self._send(b"", is_end=False)
        except (DovetailError, OSError):
            return  # the job is over, or whoever follows it says what is wrong
        finally:
            self._client.close()

    def _send(self, piece: bytes, is_end: bool) -> bool:
        """All of it; false: there is no use in more."""
        while True:
            try:
                said = self._client.send(self._path, piece, at=self._taken, end=is_end)
                answer = read(StdinTaken, said)
            except DaemonUnreachable:
                time.sleep(_AWAY_S)
                continue
            except RequestRefused as error:
                if error.status not in (503, 507):
                    raise
                time.sleep(_AWAY_S)
                continue
            new = answer.taken - self._taken
            piece, self._taken = piece[new:], answer.taken
            if not answer.open or is_end:
                return False
            if not piece:
                return True
            time.sleep(_FULL_S)
