"""Following a job to its end, also across a daemon that goes down and comes up again meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from math import inf

from dovetail.api.job_row import ENDED, JobDetails, JobRow
from dovetail.api.wire import Row, read
from dovetail.client.connection import BrokenOff, Client, DaemonUnreachable
from dovetail.core.errors import DovetailError
from dovetail.jobfiles.gone_output import gone_text
from dovetail.text.durations import duration_text

FAILED = 3
_FIRST_LOOK_S, _MOST_S = 0.05, 1.0
_AWAY_S = 600.0  # what runs outlives the daemon: whoever follows it waits until it is started again
_SAY_AFTER_S = 3.0  # one that is only restarted is back sooner
_THE_END = 1 << 53  # of any log


class TooLate(DovetailError):
    """It has not ended in the time there was."""


def wait_for(client: Client, job_id: str, until: float | None = None) -> JobDetails:
    """The row of the job when it has ended. `until` is a time of the monotonic clock."""
    pause = _FIRST_LOOK_S
    while True:
        row = patiently(client, JobDetails, f"/v1/jobs/{job_id}", until)
        if row.phase in ENDED:
            return row
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise TooLate(f"job {job_id} is still {row.phase}")
        time.sleep(pause if left is None else min(pause, left))
        pause = min(pause * 1.5, _MOST_S)


def patiently(client: Client, kind: type[Row], path: str, until: float | None = None) -> Row:
    """The answer of the daemon, if need be when it is back."""
    away_since, is_said = time.monotonic(), False
    gives_up = min(away_since + _AWAY_S, until or inf)
    while True:
        try:
            return read(kind, client.get(path))
        except DaemonUnreachable as error:
            now = time.monotonic()
            if now > gives_up:
                raise
            if now > away_since + _SAY_AFTER_S and not is_said:
                is_said = True
                wait = duration_text(gives_up - away_since)
                told = f"What runs goes on, but {error}. Waiting {wait} for it."
                print(told, file=sys.stderr, flush=True)
        time.sleep(0.5)


def log_bytes(
    client: Client, job_id: str, tail: int | None = None, stream: str | None = None
) -> Iterator[tuple[int, bytes]]:
    """The log as it grows, or one stream of it, until the job has ended: each byte once, with how
    many before it are gone."""
    upto = 0 if tail is None else -tail or _THE_END
    while True:
        begins: list[int] = []
        came, place = 0, upto
        try:
            for piece in client.stream(
                f"/v1/jobs/{job_id}/log",
                partial(_note_start, begins),
                follow=True,
                start=place,
                stream=stream,
            ):
                missing = 0 if came or not 0 <= place < _THE_END else begins[0] - place
                came += len(piece)
                upto = begins[0] + came
                yield missing, piece
        except BrokenOff:
            patiently(client, JobDetails, f"/v1/jobs/{job_id}")
            continue
        if not came:
            return


def _note_start(begins: list[int], headers: Mapping[str, str]) -> None:
    begins.append(int(headers["dovetail-start"]))


def write_out(pieces: Iterable[tuple[int, bytes]], apart: bool = False) -> None:
    """`apart`: lost output is told on standard error, since the output may be data."""
    for missing, piece in pieces:
        if missing and apart:
            print(f"dovetail: {gone_text(missing)}", file=sys.stderr, flush=True)
        elif missing:
            sys.stdout.buffer.write(f"\n{gone_text(missing)}\n".encode())
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


def ending(row: JobRow) -> str:
    """`job 7 (train) finished after 3 min`"""
    told = f"job {row.id} ({row.name}) {row.phase}"
    if row.started_at is not None:
        told += f" after {duration_text(row.run_s)}"
    return f"{told}: {row.reason}" if row.reason and row.phase != "finished" else told


def exit_code(row: JobRow) -> int:
    """The job's own where it has one."""
    if row.phase == "finished":
        return 0
    code = row.exit_code
    return code if code is not None and 0 < code < 256 else FAILED
