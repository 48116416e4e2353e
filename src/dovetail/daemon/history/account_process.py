"""The account of costs and the snapshots, in a process of their own.

Both follow the journal as it is on disk, and take seconds of a processor where there are many jobs.
Whoever shares an interpreter with that waits for it time and again; the loop does not. The process is
started when it is needed, ends when nobody has asked for a while, and holds the second state meanwhile.

`python -m dovetail.daemon.history.account_process JOURNAL SOCKET`
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import DEVNULL, Popen
from threading import Lock
from typing import Any, Final, TypeAlias, final

from dovetail.core.errors import DovetailError
from dovetail.core.journal import decode
from dovetail.core.model import Seconds
from dovetail.daemon.history.costs import Figures, charged
from dovetail.daemon.history.running_costs import KeptCosts, RunningCosts, hour_key
from dovetail.models.cost import Costs
from dovetail.store import JournalReader, PreparedTail, prepared_tail

Answers: TypeAlias = Mapping[str, Callable[..., object]]  # by question

EXACT = 20_000  # a journal of so many entries is read as a whole: it knows every instant
_IDLE_S = 60.0  # without a question: then it ends, and its memory is free
_NICENESS = 5  # nobody waits for it who is in a hurry
_TRIES = 2  # it may have ended just now for want of questions


@final
class AccountProcess:
    """Any thread may ask; they wait for each other."""

    def __init__(self, journal: Path, reader: JournalReader, costs: Costs) -> None:
        self._journal: Final = journal
        self._reader: Final = reader
        self._costs: Final = costs
        self._lock: Final = Lock()
        self._is_closed = False
        self._process: Popen[bytes] | None = None
        self._socket: Connection | None = None

    def since(self, since: Seconds, now: Seconds) -> Figures:
        """What was charged from then to now."""
        if self._is_short():
            return self._charged_in_all(now, since)
        return dict(self._ask("since", since, now))

    def snapshot(self) -> KeptCosts:
        """Of the state that all committed entries lead to. It may take seconds; others go on."""
        kept = self._ask("snapshot")
        assert isinstance(kept, KeptCosts)
        return kept

    def last_snapshot(self) -> KeptCosts:
        """The same when the loop is over: then nobody waits for this interpreter."""
        if self._process is not None:
            return self.snapshot()
        return RunningCosts(self._reader, self._costs).snapshot()

    def prepared_tail(self) -> PreparedTail | None:
        """One that the journal's writer may go on in: SQLite has moved its log since. None: not now."""
        prepared: PreparedTail | None = self._ask("prepared_tail")
        if prepared is None or self._reader.move_log():
            return prepared
        prepared.forget()
        return None

    def mark(self, now: Seconds) -> tuple[str, str] | None:
        """The key and value of meta for this hour, if it has none yet."""
        key = hour_key(now)
        if self._reader.meta(key) is not None:
            return None
        found = self._charged_in_all(now, 0.0) if self._is_short() else self._ask("figures", now)
        return key, json.dumps([now, found])

    def close(self) -> None:
        """Nobody is answered any more, though some thread may still ask."""
        with self._lock:
            self._is_closed = True
            self._end()

    def _is_short(self) -> bool:
        return self._reader.first_seq() == 1 and self._reader.last_seq() <= EXACT

    def _charged_in_all(self, now: Seconds, since: Seconds) -> Figures:
        entries = (decode(line) for _, line in self._reader.lines_after(0))
        return charged(entries, self._costs, now, since)

    def _ask(self, what: str, *arguments: object) -> Any:
        with self._lock:
            if self._is_closed:
                raise DovetailError("the account is closed, since the daemon ends")
            for _ in range(_TRIES):
                try:
                    is_answer, told = self._asked(what, arguments)
                except (EOFError, OSError):
                    self._end()
                    continue
                if not is_answer:
                    raise DovetailError(f"the account cannot be read: {told}")
                return told
        raise DovetailError("the process that keeps the account ends before it answers")

    def _asked(self, what: str, arguments: tuple[object, ...]) -> tuple[bool, Any]:
        socket = self._socket or self._begin()
        socket.send((what, arguments))
        answer: tuple[bool, Any] = socket.recv()
        return answer

    def _begin(self) -> Connection:
        ours, theirs = Pipe()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-P", "-m", __name__, str(self._journal), str(number)]
            # Out of reach of the terminal's signals: it ends with the daemon, not before its answer.
            self._process = Popen(
                command, stdin=DEVNULL, pass_fds=(number,), start_new_session=True
            )
        self._socket = ours
        ours.send(self._costs)
        return ours

    def _end(self) -> None:
        """It ends by itself when nobody listens any more."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.wait()
        self._socket = self._process = None


def serve(journal: Path, socket: Connection) -> None:
    """Answer until nobody asks."""
    with closing(JournalReader(journal)) as reader:
        account = RunningCosts(reader, socket.recv())
        answers: Answers = {
            "figures": account.figures,
            "prepared_tail": partial(prepared_tail, journal),
            "since": account.since,
            "snapshot": account.snapshot,
        }
        while socket.poll(_IDLE_S):
            what, arguments = socket.recv()
            socket.send(_answer(answers[what], arguments))


def _answer(answer: Callable[..., object], arguments: tuple[Any, ...]) -> tuple[bool, object]:
    try:
        return True, answer(*arguments)
    except Exception as error:  # it is told to whoever asked, and the next one may have more luck
        return False, f"{type(error).__name__}: {error}"


def main(journal: str, number: str) -> None:
    os.nice(_NICENESS)
    gc.disable()  # nothing that it keeps is cyclic
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the daemon is gone
        serve(Path(journal), Connection(int(number)))


if __name__ == "__main__":
    main(*sys.argv[1:])
