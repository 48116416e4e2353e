"""Consoles: what people see and type of a job's process, and of commands that are run beside it.

What a process prints lies in pages on disk, which the daemon reads; here whoever listens is rung when
there is more. A reader that is behind makes the process wait, as a slow terminal would; one that does
not read for a while is waited for no more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from time import monotonic

from .descriptors import READ, WRITE
from .terminal import resize

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from .descriptors import Descriptors
    from .pages import LogPages

BEHIND_BYTES = 1 << 20  # so far a reader may be behind before the process waits for it
PATIENCE_S = 3.0  # with a reader that does not read
_FIRST_READER_S = 10.0  # until the first one has come
_UNSENT_BYTES = 1 << 16  # that are typed and not read by the process
_SESSIONS = 64  # of people who type, whose counts are kept


class Reader:
    """Somebody who reads one stream of a console, up to `place`."""

    def __init__(self, stream: str, place: int, ring: Callable[[], None]) -> None:
        self.stream = stream
        self.place = place
        self.ring = ring
        self.moved_at = monotonic()
        self._is_behind = False

    def is_waited_for(self, end: int, now: float) -> float:
        """So long the process may still wait for it; 0: it need not."""
        was, self._is_behind = self._is_behind, end - self.place > BEHIND_BYTES
        if self._is_behind and not was:
            self.moved_at = now
        return max(PATIENCE_S - (now - self.moved_at), 0.0) if self._is_behind else 0.0

    def read_to(self, place: int) -> None:
        if place > self.place:
            self.moved_at = monotonic()
        self.place = place


class Console:
    """One process with its streams. `typing` is where what is typed goes: a terminal or a pipe; -1:
    it is not read."""

    def __init__(
        self, watch: Descriptors, pages: dict[str, LogPages], typing: int, is_terminal: bool
    ):
        self._watch = watch
        self.pages = pages
        self.typing = typing
        self.is_terminal = is_terminal
        self.sources: list[int] = []  # that wait for slow readers
        self._readers: list[Reader] = []
        self._begun_at = monotonic()
        self._awaited = set(pages) if typing >= 0 else set()  # streams that nobody has read yet
        self._waits = False
        self._unsent = b""
        self._is_all = False
        self._sessions: dict[str, int] = {}
        if typing >= 0 and not is_terminal:
            os.set_blocking(typing, False)

    # ------------------------------------------------------------------------------ what it prints

    def printed(self) -> None:
        for reader in self._readers:
            reader.ring()
        self.look()

    def add(self, reader: Reader) -> None:
        self._awaited.discard(reader.stream)
        self._readers.append(reader)
        reader.ring()

    def left(self, reader: Reader) -> None:
        """They may be back in a moment: where they were is remembered as long as for a slow one."""
        reader.ring = _nobody
        reader.moved_at = self._begun_at = monotonic()

    def look(self) -> float | None:
        """Let the process go on or wait; seconds until this must be looked at again, if ever."""
        now = monotonic()
        self._readers = [
            one for one in self._readers if one.ring is not _nobody or _is_prompt(one, now)
        ]
        left = [one.is_waited_for(self.pages[one.stream].end, now) for one in self._readers]
        if any(self.pages[stream].end > BEHIND_BYTES for stream in self._awaited):
            left.append(_FIRST_READER_S - (now - self._begun_at))
        soon = max(left, default=0.0)
        self._let(waits=soon > 0)
        return soon if soon > 0 else None

    def _let(self, waits: bool) -> None:
        if waits != self._waits:
            self._waits = waits
            for fd in self.sources:
                self._want(fd)

    def _want(self, fd: int) -> None:
        write = WRITE if fd == self.typing and self._unsent else 0
        self._watch.want(fd, (0 if self._waits else READ) | write)

    def unread_since(self) -> float:
        """Since when nobody reads it; 0: somebody does."""
        return 0.0 if any(one.ring is not _nobody for one in self._readers) else self._begun_at

    # ------------------------------------------------------------------------------ what is typed

    def type(self, session: str, at: int, data: bytes, is_all: bool) -> int:
        """How many bytes of this session are taken by now; what was taken before is not taken twice."""
        taken = self._sessions.pop(session, 0)
        piece = data[taken - at :] if at <= taken else b""
        piece = piece[: max(_UNSENT_BYTES - len(self._unsent), 0)] if self.typing >= 0 else b""
        taken += len(piece)
        self._sessions[session] = taken
        while len(self._sessions) > _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._unsent += piece
        self._is_all = self._is_all or (is_all and taken == at + len(data))
        self.send()
        return taken

    def send(self) -> None:
        """As much as the process takes now."""
        if self.typing < 0:
            return
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self.typing, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # it reads no more
            self._unsent, self._is_all = b"", True
        if self.typing in self.sources:
            self._want(self.typing)
        elif self._unsent:
            self._watch.add(self.typing, lambda events: self.send(), WRITE)
        else:
            self._watch.remove(self.typing)
        if self._is_all and not self._unsent and not self.is_terminal:
            self.close_typing()

    def close_typing(self) -> None:
        if self.typing >= 0:
            self._watch.remove(self.typing)
            with suppress(OSError):
                os.close(self.typing)
            self.typing = -1

    def resize(self, rows: int, columns: int) -> None:
        if self.is_terminal and self.typing >= 0:
            resize(self.typing, rows, columns)


def _nobody() -> None:
    """Rung for a reader that has left."""


def _is_prompt(reader: Reader, now: float) -> bool:
    return now - reader.moved_at < PATIENCE_S
