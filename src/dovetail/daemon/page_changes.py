"""What changes while pages are open: put together on the loop, a few times a second, once for all.

The loop notes which jobs an entry is about, which costs it a word in a set, and only while somebody
looks. When the journal is on disk it makes the rows of what was noted. Whoever streams them reads that
on another thread and never asks the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Final

from dovetail.api.job_row import JobRow
from dovetail.api.machine_row import Counts
from dovetail.api.page_row import PageUpdate
from dovetail.core.entries import (
    Amended,
    GpusClosed,
    GpusOpened,
    GroupAction,
    GroupEvent,
    JournalEntry,
    LimitSet,
    NodeChange,
    NodeJoined,
    Occupied,
    PolicySet,
    Submitted,
    TenantSet,
)
from dovetail.core.model import JobId, Seconds
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.clock import Clock
from dovetail.daemon.history.job_rows import row_of
from dovetail.daemon.node_rows import node_rows
from dovetail.store import Store
from dovetail.workloads.service.entries import KIND as SERVICE
from dovetail.workloads.service.kind import services_of

EVERY_S = 0.25
MOST_JOBS = 300  # in one update; a page that shows more is read anew
_KEPT = 40  # updates, for who comes back: ten seconds of a busy day
_OF_ALL = (PolicySet, TenantSet, LimitSet)


class PageChanges:
    """`tell`: called on the loop when there is an update; `later`: when one is due in so many seconds,
    for which somebody must `publish`. Neither may take time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store: Final = store
        self._clock: Final = clock
        self._is_watched = False
        self._base = 0
        self._told: tuple[PageUpdate, ...] = ()
        self._published_at = 0.0
        self._is_due = False
        self.tell: Callable[[], None] = _nobody
        self.later: Callable[[float], None] = _nobody_later
        self._forget()

    def _forget(self) -> None:
        self._jobs: set[JobId] = set()
        self._ended: dict[JobId, Track] = {}
        self._studies: set[str] = set()
        self._services: set[str] = set()
        self._settings = False
        self._all_nodes = True  # until it is known who had which GPUs before
        self._nodes_of: dict[JobId, tuple[int, ...]] = {}

    # ------------------------------------------------------------------------- from other threads

    def watch(self) -> bool:
        """From now on. In this order: an entry that was not noted is in the journal before the base.
        True: this is new, and the loop should be made to look."""
        if self._is_watched:
            return False
        self._is_watched = self._is_due = True
        self._told, self._base = (), self._store.last_seq
        return True

    def rest(self) -> None:
        """Nobody looks."""
        self._is_watched = False

    @property
    def seq(self) -> int:
        """Up to which entry all is told."""
        told = self._told
        return told[-1].seq if told else self._base

    @property
    def last(self) -> PageUpdate | None:
        told = self._told
        return told[-1] if told else None

    def after(self, seq: int) -> PageUpdate | None:
        """What has changed since then, in one; None: nothing."""
        told, base = self._told, self._base
        missed = [update for update in told if update.seq > seq]
        if not missed:
            return None
        first = told[0].seq if len(told) == _KEPT else base  # from there on nothing is missing
        found = merged(missed)
        return found if seq >= first else replace(found, complete=False)

    # --------------------------------------------------------------------------------- on the loop

    def note(self, entry: JournalEntry) -> None:
        if not self._is_watched:
            return
        job_id = getattr(entry, "job_id", None)
        if job_id is not None:
            self._jobs.add(job_id)
        elif isinstance(entry, Submitted | Amended):
            self._jobs.add(entry.job.id)
        elif isinstance(entry, NodeJoined | NodeChange | Occupied):
            self._all_nodes = True
        elif isinstance(entry, GpusClosed | GpusOpened):
            self._all_nodes = self._settings = True
        elif isinstance(entry, _OF_ALL):
            self._settings = True
        elif isinstance(entry, GroupEvent | GroupAction):
            (self._services if entry.kind == SERVICE else self._studies).add(_group_of(entry))

    def ended(self, track: Track) -> None:
        if self._is_watched:
            self._ended[track.job.id] = track

    def look(self, view: View) -> None:
        """The journal is on disk: tell what has changed, unless that was done just now."""
        if not self._is_watched:
            self._forget()
            return
        news = self._jobs or self._studies or self._services or self._settings
        left = self._published_at + EVERY_S - monotonic()
        if left <= 0 and (news or self._is_due):
            self._publish(view)
        elif news and not self._is_due:
            self._is_due = True
            self.later(left)

    def _publish(self, view: View) -> None:
        update = self._update(view)
        self._told = (*self._told[1 - _KEPT :], update)
        self._published_at, self._is_due = monotonic(), False
        self.tell()

    def _update(self, view: View) -> PageUpdate:
        tracks = [self._track(view, job_id) for job_id in self._jobs]
        changed = [track for track in tracks if track is not None]
        nodes = self._nodes(view, changed)
        self._note_groups(view, changed)
        many, running = len(changed) > MOST_JOBS, len(view.running)
        told = () if many else changed
        rows = [row_of(track, self._clock, view.room.nodes) for track in told]
        update = PageUpdate(
            seq=self._store.last_seq,
            at=self._clock.unix(self._clock()),
            counts=Counts(running=running, waiting=len(view.tracks) - running),
            jobs=rows,
            nodes=node_rows(view, nodes),
            studies=sorted(self._studies),
            services=sorted(self._services),
            settings=self._settings,
            complete=not many,
        )
        self._jobs, self._ended, self._settings = set(), {}, False
        self._studies, self._services = set(), set()
        return update

    def _note_groups(self, view: View, changed: list[Track]) -> None:
        services = services_of(view).open
        for group in {track.job.group for track in changed if track.job.group}:
            (self._services if group in services else self._studies).add(group)

    def _track(self, view: View, job_id: JobId) -> Track | None:
        return view.tracks.get(job_id) or self._ended.get(job_id)

    def _nodes(self, view: View, changed: list[Track]) -> set[int] | None:
        """Those on which GPUs may have changed hands; None: all."""
        if self._all_nodes:
            self._all_nodes = False
            self._nodes_of = {own: _nodes_of(track) for own, track in view.running.items()}
            return None
        found = set[int]()
        for track in changed:
            job_id, now = track.job.id, _nodes_of(track)
            before = self._nodes_of.pop(job_id, ())
            found |= {*before, *now}
            if now:
                self._nodes_of[job_id] = now
        return found


def _nobody() -> None:
    """Until there is somebody to tell."""


def _nobody_later(seconds: Seconds) -> None:
    """The same."""


def _nodes_of(track: Track) -> tuple[int, ...]:
    placement = track.placement if track.ended_at < 0 else None
    return () if placement is None else tuple([piece.node for piece in placement.slices])


def _group_of(entry: GroupEvent | GroupAction) -> str:
    for name in ("study_id", "service_id"):
        if (found := getattr(entry, name, None)) is not None:
            return str(found)
    return str(entry.design.id)  # type: ignore[union-attr]


def merged(updates: list[PageUpdate]) -> PageUpdate:
    """One for several, the newer row of each taken."""
    if len(updates) == 1:
        return updates[0]
    jobs: dict[str, JobRow] = {}
    for update in updates:
        for row in update.jobs:
            jobs.pop(row.id, None)
            jobs[row.id] = row
    nodes = {row.id: row for update in updates for row in update.nodes}
    return replace(
        updates[-1],
        jobs=list(jobs.values()),
        nodes=list(nodes.values()),
        studies=sorted({own for update in updates for own in update.studies}),
        services=sorted({own for update in updates for own in update.services}),
        settings=any(update.settings for update in updates),
        complete=all(update.complete for update in updates),
    )
