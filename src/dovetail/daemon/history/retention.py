"""Retention: old entries go into archives, and run folders of jobs that ended are removed.

A row of every job stays for ever. Each step may be cut short by a kill: what is archived is on disk,
and known to be, before it is removed elsewhere; and what is half removed is removed at the next round.
Nothing is removed of a job that has not ended, has processes, or is of an open study.
How long that takes is said at the start of a daemon, else it is as usual.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import inf, isinf
from pathlib import Path
from time import monotonic
from typing import Final

from dovetail.core.entries import Event
from dovetail.core.errors import BadInput
from dovetail.core.model import JobId, Seconds
from dovetail.core.view import View
from dovetail.daemon.asking import Parts
from dovetail.daemon.history.submission_records import array_of
from dovetail.daemon.service import Service
from dovetail.home import Home
from dovetail.store import EndedJob
from dovetail.workloads.study.kind import studies_of

_FOR_EVER = "forever"
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(d|days?|y|years?|GB)", re.IGNORECASE)
DAY_S = 86400.0
_EVERY_S = 60.0
_SIZES_EVERY_S = 3600.0
_MUCH = 0.1  # of what all runs may take up, written since: then sooner
_AT_ONCE = 5_000  # entries
_FOLDERS_AT_ONCE = 200
_MOST_FOLDERS = 2_000  # a round
_MOST_ENTRIES = 2_000_000  # kept in the journal, however young


@dataclass(frozen=True, slots=True)
class Keep:
    """Run folders (logs, reports, checkpoints) of jobs that ended, and entries of the journal. Rows of
    ended jobs, as `history` shows them, are always kept."""

    runs_days: float = 30.0
    runs_gb: float = 100.0
    journal_days: float = 30.0
    environments: bool = True  # of ended jobs, with their folders, so that they can run again

    def text(self) -> str:
        runs = f"runs for {_days(self.runs_days)} and up to {_gb(self.runs_gb)}"
        return f"{runs}, the journal for {_days(self.journal_days)}, history for ever"

    def to_words(self) -> list[str]:
        runs = [(self.runs_days, "d"), (self.runs_gb, "GB")]
        runs.sort(key=lambda said: not isinf(said[0]))  # `forever` is said of both: it comes first
        return [
            *(f"runs={_said(value, unit)}" for value, unit in runs),
            f"journal={_said(self.journal_days, 'd')}",
            f"environments={'yes' if self.environments else 'no'}",
        ]


def keep_of(words: Sequence[str], before: Keep | None = None) -> Keep:
    """Retention from words such as `runs=30d`, `runs=100GB`, `journal=1y`, `runs=forever`."""
    keep = before or Keep()
    for word in words:
        what, _, amount = word.partition("=")
        found = _AMOUNT.fullmatch(amount.strip())
        if what == "runs" and amount == _FOR_EVER:
            keep = replace(keep, runs_days=inf, runs_gb=inf)
        elif what == "environments" and amount in ("yes", "no"):
            keep = replace(keep, environments=amount == "yes")
        elif what == "journal" and amount == _FOR_EVER:
            keep = replace(keep, journal_days=inf)
        elif found and what == "runs" and found[2].upper() == "GB":
            keep = replace(keep, runs_gb=float(found[1]))
        elif found and what in ("runs", "journal") and found[2].upper() != "GB":
            days = float(found[1]) * (365.0 if found[2][0] in "yY" else 1.0)
            of_runs = what == "runs"
            keep = replace(keep, runs_days=days) if of_runs else replace(keep, journal_days=days)
        else:
            raise BadInput(f"--keep {word}: {_wanted(what)}")
    return keep


def _wanted(what: str) -> str:
    if what == "journal":
        return "of the journal say how long: days (journal=30d), years (journal=1y) or forever"
    if what == "runs":
        return "of runs say days (runs=30d), years (runs=1y), gigabytes (runs=100GB) or forever"
    if what == "environments":
        return "of environments of ended jobs say yes or no; without, none can run again as it was"
    return (
        "say what and how long: runs=30d, runs=1y, runs=100GB, journal=30d, or forever for either"
    )


def _days(days: float) -> str:
    return "ever" if isinf(days) else f"{days:g} days"


def _gb(size: float) -> str:
    return "any size" if isinf(size) else f"{size:g} GB"


def _said(value: float, unit: str) -> str:
    return _FOR_EVER if isinf(value) else f"{value:g}{unit}"


class Retention:
    """On the thread of the upkeep; what changes the journal is asked of the loop."""

    def __init__(self, home: Home, parts: Parts, service: Service, keep: Keep) -> None:
        self._home: Final = home
        self._parts: Final = parts
        self._service: Final = service
        self._keep: Final = keep
        self._shelf: Final = parts.world.shelf
        self._next = monotonic() + _EVERY_S
        self._sizes_next = self._next
        self._free_then = self._shelf.free_bytes()  # when sizes were last looked at

    def tend(self) -> None:
        if monotonic() < self._next:
            return
        self._next = monotonic() + _EVERY_S
        self.prune_journal()
        self.remove_old_runs()
        written = self._free_then - self._shelf.free_bytes()
        if monotonic() >= self._sizes_next or written > _MUCH * self._keep.runs_gb * 1e9:
            self._sizes_next = monotonic() + _SIZES_EVERY_S
            self.remove_large_runs()
            self._free_then = self._shelf.free_bytes()

    # ------------------------------------------------------------------------------- the journal

    def prune_journal(self) -> int:
        """Entries that are old, and that no start needs any more, go into archives."""
        removed, last = 0, self._last_old_entry()
        while lines := self._next_lines(last):
            name = f"journal-{_month(self._unix(lines[-1][1]))}.jsonl.gz"
            texts = [f'{{"seq":{seq},{line[1:]}' for seq, line in lines]
            end = lines[-1][0] + 1
            self._archive(name, texts, partial(self._parts.store.prune, end, len(lines)))
            removed += len(lines)
        return removed

    def _next_lines(self, last: int) -> list[tuple[int, str]]:
        """Of one month, so that each archive holds its own."""
        first = self._parts.reader.first_seq()
        if not first or first > last:
            return []
        lines = self._parts.reader.some_lines_after(first - 1, _AT_ONCE)
        month = _month(self._unix(lines[0][1]))
        return [
            (seq, line) for seq, line in lines if seq <= last and _month(self._unix(line)) == month
        ]

    def _last_old_entry(self) -> int:
        """By halving: time in the journal only grows."""
        reader = self._parts.reader
        low, high = (reader.first_seq() or 1) - 1, reader.oldest_snapshot()
        by_number = reader.last_seq() - _MOST_ENTRIES
        before = self._parts.clock() - self._keep.journal_days * DAY_S
        low, top = max(low, min(by_number, high)), high
        while low < top:
            middle = (low + top + 1) // 2
            ((_, line),) = reader.some_lines_after(middle - 1, 1)
            low, top = (middle, top) if _at(line) < before else (low, middle - 1)
        return low

    def _unix(self, line: str) -> float:
        return self._parts.clock.unix(_at(line))

    # --------------------------------------------------------------------------------- run folders

    def remove_old_runs(self) -> int:
        """Remove the run folders of jobs that ended long ago, and half-removed ones."""
        self._shelf.clear()
        before = self._parts.clock.unix(self._parts.clock()) - self._keep.runs_days * DAY_S
        removed = 0
        for jobs in self._ended_with_folders(before):
            removed += self._remove(jobs)
            if removed >= _MOST_FOLDERS:
                break
        return removed

    def remove_large_runs(self) -> int:
        """The oldest first, until all of them take up no more than they may."""
        limit = self._keep.runs_gb * 1e9
        total = float(self._shelf.bytes_of()) if limit != float("inf") else 0.0
        removed = 0
        for jobs in self._ended_with_folders(float("inf")):
            for own in jobs:
                if total <= limit:
                    return removed
                total -= self._shelf.bytes_of(own.job_id)
                removed += self._remove([own])
        return removed

    def _ended_with_folders(self, before: float) -> Iterator[list[EndedJob]]:
        """The oldest first, some at a time; those that must stay are passed over."""
        after: EndedJob | None = None
        while page := self._parts.reader.described(before, _FOLDERS_AT_ONCE, after):
            after = page[-1]
            yield page

    def _remove(self, jobs: Sequence[EndedJob]) -> int:
        """First the folders, then what the journal says they were: a kill in between is made up for."""
        needed = self._service.look(lambda view, now: {*studies_of(view).open, *view.tracks})
        gone = [own for own in jobs if self._may_go(own, needed)]
        if not gone:
            return 0
        for own in gone:
            self._shelf.remove(own.job_id)
        ids = [own.job_id for own in gone]
        ids += [array for array in {*map(array_of, ids)} - {*ids} if self._is_over(array)]
        texts = [self._description(job_id) for job_id in ids]

        def forget() -> None:
            for job_id in ids:
                self._parts.store.forget("specs", job_id)
            self._parts.store.commit()

        self._archive(f"jobs-{_month(gone[-1].ended_at)}.jsonl.gz", texts, forget)
        return len(gone)

    def _may_go(self, own: EndedJob, needed: set[str]) -> bool:
        if own.job_id in needed or self._parts.world.has_processes(JobId(own.job_id)):
            return False
        return str(json.loads(own.row).get("group", "")) not in needed

    def _description(self, job_id: str) -> str:
        spec = json.loads(self._parts.reader.spec(job_id) or "null")
        return json.dumps({"id": job_id, "submitted": spec})

    def _is_over(self, array: str) -> bool:
        """Its members are all gone: then its own folder goes, too."""
        if any(job_id.startswith(f"{array}.") for job_id in self._shelf.jobs()):
            return False
        self._shelf.remove(array)
        return True

    # ------------------------------------------------------------------------------------ archives

    def _archive(self, name: str, texts: Sequence[str], then: Callable[[], object]) -> None:
        """Add lines to an archive. The journal knows how long it is: what a kill left beyond that is
        written over, so that every line is there once."""
        key = f"archive {name}"
        size = append(self._home.archive / name, int(self._parts.reader.meta(key) or "0"), texts)

        def change(view: View, now: Seconds) -> tuple[list[Event], None]:
            self._parts.store.set_meta(key, str(size))
            self._parts.store.commit()
            then()
            return [], None

        self._service.change(change)


def append(path: Path, size: int, texts: Sequence[str]) -> int:
    """The archive's new length. It is on disk when this returns."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(descriptor, size)
        data = gzip.compress("".join(f"{text}\n" for text in texts).encode(), mtime=0)
        os.pwrite(descriptor, data, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return size + len(data)


def _at(line: str) -> float:
    return float(json.loads(line)["at"])


def _month(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m")
