"""`dovetail logs`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click

from dovetail.api.job_row import ENDED
from dovetail.cli.reach import job_id, one_job, with_client
from dovetail.client.connection import Client, RequestRefused
from dovetail.client.follow import log_bytes, write_out

_LINE_BYTES = 200  # a guess to begin with


@click.command()
@job_id
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("-n", "--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@click.option("--stdout", "stream", flag_value="stdout", help="Its output alone (of dovetail run).")
@click.option("--stderr", "stream", flag_value="stderr", help="Its errors alone (of dovetail run).")
@with_client
def logs(client: Client, job_id: str, follow: bool, tail: int | None, stream: str | None) -> None:
    """What a job has printed, output and errors together; of a service, its first replica."""
    own = _of_job_or_service(client, job_id)
    grows = partial(log_bytes, client, own, stream=stream)
    if tail is None:
        now = client.stream(f"/v1/jobs/{own}/log", stream=stream)
        write_out(grows() if follow else ((0, piece) for piece in now))
        return
    last, is_all = last_lines(client, own, tail, stream)
    if not follow:
        write_out([(0, last)])
    elif is_all:
        write_out(grows())
    else:
        write_out(_from_a_line_on(grows(len(last) + 1)))


def _of_job_or_service(client: Client, wanted: str) -> str:
    """The job whose log is meant."""
    try:
        return one_job(client, wanted, ("running", "suspended", *ENDED))
    except RequestRefused as refused:
        from dovetail.cli.serving.service_text import logged, service_instead

        job, what = logged(service_instead(client, wanted, refused))[0]
        click.echo(f"dovetail: this is {what} of service {wanted}", err=True)
        return job


def last_lines(
    client: Client, job_id: str, lines: int, stream: str | None = None
) -> tuple[bytes, bool]:
    """The last lines of the log as it is now, and whether that is all of it."""
    size = max(lines, 1) * _LINE_BYTES
    while True:
        raw = b"".join(client.stream(f"/v1/jobs/{job_id}/log", tail=size, stream=stream))
        start = start_of_lines(raw, lines)
        if start or len(raw) < size:
            return raw[start:], not start
        size *= 8


def _from_a_line_on(pieces: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Without the bytes before the first newline: they would be a part of a line."""
    for missing, piece in pieces:
        _, newline, rest = piece.partition(b"\n")
        if newline:
            yield missing, rest
            break
    yield from pieces


def start_of_lines(raw: bytes, lines: int) -> int:
    """The byte at which the last so many lines begin; 0 if there are no more."""
    place = len(raw) - raw.endswith(b"\n")
    if lines == 0:
        return len(raw)
    for _ in range(lines):
        place = raw.rfind(b"\n", 0, place)
        if place < 0:
            return 0
    return place + 1
