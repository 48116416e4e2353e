"""`dovetail logs`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from dovetail.app.client import Client
from dovetail.app.live.follow import log_bytes, write_out
from dovetail.app.live.reach import job_id, with_client

_LINE_BYTES = 200  # a guess to begin with


@click.command()
@job_id
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("-n", "--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@with_client
def logs(client: Client, job_id: str, follow: bool, tail: int | None) -> None:
    """What a job has printed, output and errors together."""
    if tail is None:
        path = f"/v1/jobs/{job_id}/log"
        write_out(log_bytes(client, job_id) if follow else client.stream(path))
        return
    last, is_all = last_lines(client, job_id, tail)
    if not follow:
        write_out(iter([last]))
    elif is_all:
        write_out(log_bytes(client, job_id))
    else:
        write_out(_from_a_line_on(log_bytes(client, job_id, len(last) + 1)))


def last_lines(client: Client, job_id: str, lines: int) -> tuple[bytes, bool]:
    """The last lines of the log as it is now, and whether that is all of it."""
    size = max(lines, 1) * _LINE_BYTES
    while True:
        raw = b"".join(client.stream(f"/v1/jobs/{job_id}/log", tail=size))
        start = start_of_lines(raw, lines)
        if start or len(raw) < size:
            return raw[start:], not start
        size *= 8


def _from_a_line_on(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Without what comes before the first newline: it would be a part of a line."""
    for chunk in chunks:
        _, newline, rest = chunk.partition(b"\n")
        if newline:
            yield rest
            break
    yield from chunks


def start_of_lines(raw: bytes, lines: int) -> int:
    """Where the last so many lines begin; 0 if there are no more."""
    place = len(raw) - raw.endswith(b"\n")
    if lines == 0:
        return len(raw)
    for _ in range(lines):
        place = raw.rfind(b"\n", 0, place)
        if place < 0:
            return 0
    return place + 1
