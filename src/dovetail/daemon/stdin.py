"""What a job reads as its standard input, on its way from `dovetail run` to the job's keeper.

It lies in a ring (see `keeper.Feed`), so that neither a job that waits nor one that reads slowly lets it
grow: whoever sends it is told how much was taken, and sends the rest again.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final, NamedTuple

from dovetail.daemon.errors import Conflict, DiskFull
from dovetail.worlds.local import keeper

_LOCK: Final = threading.Lock()  # one writer at a time; a piece takes milliseconds


class Taken(NamedTuple):
    taken: int  # bytes in all
    open: bool  # is there any use in more?


WAITING_BYTES: Final = 4 << 20  # of one that has not started: there may be very many of those
ALL_WAITING_BYTES: Final = 1 << 28  # of all of a user's together
_waiting: Final[dict[str, dict[Path, int]]] = {}  # by user: what was sent before they started


def take(
    stdin: Path, at: int, data: bytes, is_end: bool, has_started: bool = True, user: str = ""
) -> Taken:
    """Put in what there is room for. `at` is the place of the data's first byte in all that is sent;
    what was taken before is not taken twice."""
    with _LOCK:
        _, put, is_all = keeper.what_is_put(str(stdin))
        got = keeper.what_is_got(str(stdin))
        if at > put:
            raise Conflict(
                f"of the standard input {put} bytes have come; go on with those, not {at}"
            )
        if got < 0 or is_all:
            return Taken(put, False)
        rest = data[put - at :]
        most = keeper.STDIN_BYTES if has_started else _most_while_it_waits(user, stdin)
        piece = rest[: max(most - (put - got), 0)]
        try:
            put = _put_in(stdin, put, piece, is_end and len(piece) == len(rest))
        except OSError as error:
            raise DiskFull(f"the standard input cannot be kept: {error.strerror}") from None
        if piece and not has_started:
            _waiting.setdefault(user, {})[stdin] = put
    return Taken(put, True)


def _most_while_it_waits(user: str, stdin: Path) -> int:
    """The disk is everybody's: who has sent much to jobs that wait sends the rest when they run."""
    own = _waiting.get(user, {})
    if sum(own.values()) + WAITING_BYTES > ALL_WAITING_BYTES:
        for path in [path for path in own if not path.exists()]:  # those have ended
            del own[path]
    others = sum(own.values()) - own.get(stdin, 0)
    return min(WAITING_BYTES, max(ALL_WAITING_BYTES - others, 0))


def _put_in(stdin: Path, put: int, piece: bytes, is_all: bool) -> int:
    """Also without data: the time of it is a sign of life."""
    upto = put + len(piece)
    keeper.note_put(str(stdin), upto, put, False)
    place = put % keeper.STDIN_BYTES
    first = keeper.STDIN_BYTES - place
    fd = os.open(stdin, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        _write(fd, piece[:first], place)
        _write(fd, piece[first:], 0)
    finally:
        os.close(fd)
    keeper.note_put(str(stdin), upto, upto, is_all)
    return upto


def _write(fd: int, data: bytes, place: int) -> None:
    while data:
        written = os.pwrite(fd, data, place)
        data, place = data[written:], place + written
