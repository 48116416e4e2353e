"""The standard input of a terminal's command, sent to the job that it has submitted."""

from __future__ import annotations

import os
import select
import stat
import threading
import time

from dovetail.api.job_row import StdinTaken
from dovetail.api.wire import read
from dovetail.client.connection import Client, DaemonUnreachable, RequestRefused
from dovetail.core.errors import DovetailError

_PIECE = 1 << 20
_SIGN_OF_LIFE_S = 60.0  # far more often than the keeper asks for one
_FULL_S = 0.05  # until there may be room again
_AWAY_S = 0.5  # until the daemon may be back
_FD = 0


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
