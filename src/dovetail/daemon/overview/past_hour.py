"""The stints of the past hour, followed in the journal while somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final, NamedTuple, final

from dovetail.api.page_row import PastHour, PastStint
from dovetail.core.model import WHOLE_GPU, JobId, Node, Seconds
from dovetail.daemon.clock import Clock
from dovetail.daemon.gpus_told import held
from dovetail.daemon.overview.stints import GpuStay, StintBook
from dovetail.store import Filter, JournalReader

_HOUR_S = 3600.0
_AT_ONCE = 20_000  # entries, when looking further back
_MOST_BACK = 10 * _AT_ONCE
_MOST_STINTS = 20_000  # the last ones


class NameAndUser(NamedTuple):
    name: str
    user: str


@final
class RecentStints:
    """`titles`: of a job that has not ended, None of others."""

    def __init__(
        self,
        reader: JournalReader,
        clock: Clock,
        titles: Callable[[JobId], NameAndUser | None],
        nodes: Sequence[Node],
    ) -> None:
        self._nodes: Final = nodes
        self._reader: Final = reader
        self._clock: Final = clock
        self._titles: Final = titles
        self._lock: Final = Lock()
        self._book: StintBook | None = None
        self._seq = 0
        self._known: dict[JobId, NameAndUser] = {}

    def told(self) -> PastHour:
        with self._lock:
            begin = self._clock() - _HOUR_S
            book = self._book or self._begun(begin)
            for seq, line in self._reader.lines_after(self._seq):
                book.read((line,))
                self._seq = seq
            book.unknown.clear()
            book.closed = [s for s in book.closed if (s.until or 0.0) > begin][-_MOST_STINTS:]
            self._known = {s.job_id: self._title(s.job_id) for s in book.closed}
            stints = [self._row(stint) for stint in book.closed]
            return PastHour(seq=self._seq, begin=self._clock.unix(begin), stints=stints)

    def _begun(self, begin: Seconds) -> StintBook:
        """From an hour ago on; for those that ran already then, as far back as their start."""
        book, first = StintBook(), self._reader.seq_before(begin)
        self._seq = first
        for seq, line in self._reader.lines_after(first):
            book.read((line,))
            self._seq = seq
        lost, upto = book.unknown, first
        while lost and upto > max(first - _MOST_BACK, 0):
            earlier = StintBook()
            earlier.read(self._reader.lines_with('"start":"', upto - _AT_ONCE, upto))
            for job_id in lost.keys() & earlier.open.keys():
                stint = earlier.open[job_id]
                stint.until, stint.end = lost.pop(job_id)
                book.closed.append(stint)
            upto -= _AT_ONCE
        self._book = book
        return book

    def _title(self, job_id: JobId) -> NameAndUser:
        known = self._known.get(job_id) or self._titles(job_id)
        if known is not None:
            return known
        rows = self._reader.history(Filter(job_id=job_id), 1)
        return NameAndUser(rows[0].name, rows[0].user) if rows else NameAndUser("", "")

    def _row(self, stint: GpuStay) -> PastStint:
        titles, unix = self._known[stint.job_id], self._clock.unix
        return PastStint(
            id=stint.job_id,
            name=titles.name,
            user=titles.user,
            since=unix(stint.since),
            until=unix(stint.until or stint.since),
            share=stint.on.share / WHOLE_GPU,
            on=held(stint.on, self._nodes),
            end=stint.end,
        )
