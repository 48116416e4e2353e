"""The standard input of a job, on its way from `dovetail run` to the job.

It lies in a ring, so that neither a job that waits nor one that reads slowly lets it
grow: whoever sends it is told how much was taken, and sends the rest again.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from dovetail.api.job_row import StdinTaken
from dovetail.daemon.refusals import Conflict, DiskFull
from dovetail.worlds.world import Stdin

_LOCK: Final = threading.Lock()  # one writer at a time; a piece takes milliseconds


WAITING_BYTES: Final = 4 << 20  # of one that has not started: there may be very many of those
ALL_WAITING_BYTES: Final = 1 << 28  # of all of a user's together


class Waiting(NamedTuple):
    stdin: Stdin
    put: int


_waiting: Final[dict[str, dict[str, Waiting]]] = {}  # by user: what was sent before they started


def take(
    stdin: Stdin, at: int, data: bytes, is_end: bool, has_started: bool = True, user: str = ""
) -> StdinTaken:
    """Put in what there is room for. `at` is the place of the data's first byte in all that is sent;
    what was taken before is not taken twice."""
    with _LOCK:
        put, is_all = stdin.put()
        got = stdin.got()
        if at > put:
            raise Conflict(
                f"of the standard input {put} bytes have come; go on with those, not {at}"
            )
        if got < 0 or is_all:
            return StdinTaken(taken=put, open=False)
        rest = data[put - at :]
        most = stdin.room_bytes if has_started else _most_while_it_waits(user, stdin)
        piece = rest[: max(most - (put - got), 0)]
        try:
            put = stdin.add(put, piece, is_end and len(piece) == len(rest))
        except OSError as error:
            raise DiskFull(f"the standard input cannot be kept: {error.strerror}") from None
        if piece and not has_started:
            _waiting.setdefault(user, {})[stdin.name] = Waiting(stdin, put)
    return StdinTaken(taken=put, open=True)


def _most_while_it_waits(user: str, stdin: Stdin) -> int:
    """The disk is everybody's: who has sent much to jobs that wait sends the rest when they run."""
    own = _waiting.get(user, {})
    if sum(sent.put for sent in own.values()) + WAITING_BYTES > ALL_WAITING_BYTES:
        for name in [name for name, sent in own.items() if not sent.stdin.is_there()]:
            del own[name]  # those have ended
    others = sum(sent.put for name, sent in own.items() if name != stdin.name)
    return min(WAITING_BYTES, max(ALL_WAITING_BYTES - others, 0))
