"""A console of a job from afar: what it prints, each byte once, and what is typed, likewise, also
across a daemon that goes down and comes up again meanwhile."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from dovetail.api.console_row import CommandStanding, TypedTaken
from dovetail.api.job_row import JobDetails
from dovetail.api.wire import read
from dovetail.client.connection import BrokenOff, Client, DaemonUnreachable, RequestRefused
from dovetail.client.follow import patiently

OVER: Final = "over"
_AGAIN_S: Final = 0.1  # until somebody may read what was typed
_AWAY_S: Final = 0.5  # until the daemon may be back


def seen(
    client: Client,
    path: str,
    start: int,
    phase: Callable[[str], None],
    stream: str | None = None,
    console: int = 0,
) -> Iterator[tuple[int, bytes]]:
    """What it prints from `start` on, with how many bytes before are gone. `phase` is told whenever
    the job's changes."""
    upto, came = start, 0
    while True:
        told: dict[str, str] = {}
        place, came = upto, 0
        try:
            asked = {"start": place, "stream": stream, "console": console}
            hear = partial(_hear, told, phase)
            for piece in client.stream(f"{path}/console", hear, **asked):
                missing = 0 if came or place < 0 else int(told["dovetail-start"]) - place
                came += len(piece)
                upto = int(told["dovetail-start"]) + came
                yield missing, piece
            if not came and place < 0:
                upto = int(told["dovetail-start"])
        except (BrokenOff, DaemonUnreachable):
            patiently(client, JobDetails, path)
            continue
        except RequestRefused as error:
            if error.status == 409:
                return  # a command that has ended with its job
            if error.status != 503:
                raise
            time.sleep(_AWAY_S)
            continue
        if told.get("dovetail-phase") == OVER and not came:
            return


def _hear(told: dict[str, str], phase: Callable[[str], None], headers: Mapping[str, str]) -> None:
    told.update(headers)
    phase(headers["dovetail-phase"])


class Typing:
    """One person's keys. `is_over` says when nobody wants them any more."""

    def __init__(
        self, client: Client, path: str, is_over: Callable[[], bool], console: int = 0
    ) -> None:
        self._client: Final = client
        self._path: Final = path
        self._console: Final = console
        self._is_over: Final = is_over
        self._session: Final = secrets.token_hex(8)
        self._taken = 0

    def send(self, keys: bytes, is_all: bool = False) -> bool:
        """All of them, each once; false: there is no use in more."""
        while not self._is_over():
            try:
                took = self._send(keys, is_all)
            except DaemonUnreachable:
                time.sleep(_AWAY_S)
                continue
            except RequestRefused as error:
                if error.status not in (409, 503):
                    raise
                time.sleep(_AGAIN_S)  # it does not run just now
                continue
            keys = keys[took.taken - self._taken :]
            self._taken = took.taken
            if not took.open:
                return False
            if not keys:
                return True
            time.sleep(_AGAIN_S)
        return False

    def _send(self, keys: bytes, is_all: bool) -> TypedTaken:
        asked = {"session": self._session, "at": self._taken, "console": self._console}
        told = self._client.send(f"{self._path}/console/input", keys, end=is_all, **asked)
        return read(TypedTaken, told)


def standing(client: Client, path: str, console: int) -> CommandStanding:
    """Of a command that ran beside a job, once nothing more comes of it."""
    try:
        return read(CommandStanding, client.get(f"{path}/exec/{console}"))
    except RequestRefused as error:
        if error.status not in (404, 409):
            raise
        return CommandStanding(over=True, code=137, failure="it ended with its job")
