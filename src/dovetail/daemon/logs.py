"""Reading the log of a job, and following it while it grows and its pages are turned.

Places are counted from the first byte that the job ever printed. Of a long log the beginning and the
end are kept (see `keeper.pages`); what is gone in between, or before a slow reader, is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from time import monotonic, sleep

from dovetail.jobfiles.gone_output import gone_text
from dovetail.worlds.printed import without_colours
from dovetail.worlds.world import JobLog

_CHUNK = 1 << 18
_LOOK_EVERY_S = 0.2
_PAGE_TURNED_WITHIN_S = 1.0
_LAST_LINES = 4096  # bytes at the end in which the last line is looked for
_LONGEST_LINE = 200


def begin(log: JobLog, tail: int | None) -> int:
    """The place to read from for all of it, or for the last so many bytes."""
    return 0 if tail is None else max(log.end() - tail, 0)


class Reading:
    """A place in a log, and the way on from there."""

    def __init__(self, log: JobLog, upto: int) -> None:
        self._log = log
        self.upto = upto

    def next(self) -> tuple[int, bytes]:
        """The next bytes, and how many before them are gone. Nothing: for now there is no more."""
        start, chunk = self._log.read(self.upto, _CHUNK)
        missing = start - self.upto if chunk else 0
        self.upto = start + len(chunk) if chunk else self.upto
        return missing, chunk


async def follow(
    log: JobLog, tail: int | None, is_over: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """All of it, or about the last `tail` bytes, then what comes until the job is over."""
    reading = Reading(log, begin(log, tail))
    while True:
        over = is_over()  # asked first: what was written before that is then read below
        while (piece := reading.next())[1]:
            yield _marked(*piece)
        if over:
            return
        await asyncio.sleep(_LOOK_EVERY_S)


async def unbroken(log: JobLog, start: int, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
    """From there until the job is over, or something is gone: whoever counts the bytes asks again,
    and is told where the rest begins."""
    reading = Reading(log, start)
    while True:
        over = is_over()
        while (piece := reading.next())[1]:
            if piece[0]:
                return
            yield piece[1]
        if over:
            return
        await asyncio.sleep(_LOOK_EVERY_S)


def part(log: JobLog, start: int, most: int) -> bytes:
    """At most so many bytes from there on, as far as none is gone between them."""
    reading, found = Reading(log, start), b""
    while len(found) < most and (piece := reading.next())[1]:
        if piece[0]:
            break
        found += piece[1]
    return found[:most]


def first_after(log: JobLog, start: int) -> int:
    """The first byte from `start` on that is still there; below zero `start` counts from the end."""
    upto = begin(log, -start) if start < 0 else min(start, log.end())
    return log.read(upto, 0)[0]


def whole(log: JobLog, tail: int | None) -> Iterator[bytes]:
    """The log as it is now. A job that writes faster than we read does not keep us for ever."""
    reading, end = Reading(log, begin(log, tail)), log.end()
    gives_up = monotonic() + _PAGE_TURNED_WITHIN_S
    while reading.upto < end and monotonic() < gives_up:
        missing, chunk = reading.next()
        if chunk:
            yield _marked(missing, chunk)
            gives_up = monotonic() + _PAGE_TURNED_WITHIN_S
        else:
            sleep(0.001)  # a page is being turned


def _marked(missing: int, chunk: bytes) -> bytes:
    return f"\n{gone_text(missing)}\n".encode() + chunk if missing else chunk


def last_line(log: JobLog) -> str:
    """The last one that says something, shortened; "" if there is none."""
    text = b"".join(whole(log, _LAST_LINES)).decode(errors="replace")
    lines = map(as_shown, reversed(text.split("\n")))
    return next((line for line in lines if line), "")[:_LONGEST_LINE]


def as_shown(line: str) -> str:
    """In one line, without what would steer a terminal."""
    plain = " ".join(without_colours(line).split())
    return "".join(c if c.isprintable() else "?" for c in plain)
