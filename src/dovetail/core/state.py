"""State is the fold of the journal. `State.record` is the only way to change it.

Policies get the same object typed as `View`, which has no way to change anything.
"""

from __future__ import annotations

from typing import Any, assert_never, final

from dovetail.core.cluster_changes import ClusterChanges
from dovetail.core.entries import (
    Amended,
    Branch,
    Cancelled,
    Displaced,
    Failed,
    Finished,
    GpusClosed,
    GpusOpened,
    GroupAction,
    GroupEvent,
    Held,
    Interrupted,
    JournalEntry,
    LimitSet,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    NoMoreNodes,
    Note,
    Occupied,
    Paced,
    Pinned,
    PolicySet,
    Preempt,
    Promote,
    Refuse,
    Released,
    Reported,
    Requeued,
    Resize,
    Restored,
    Saved,
    Start,
    Started,
    Stayed,
    Stop,
    Submitted,
    TenantSet,
    Unpinned,
    Wake,
    Woke,
)
from dovetail.core.errors import IllegalEntry
from dovetail.core.measuring import measure
from dovetail.core.model import Job, Placement
from dovetail.core.queue import is_kept
from dovetail.core.track import FINISHED, QUEUED, RUNNING, STARTING, SUSPENDED, Phase, Track


@final
class State(ClusterChanges):
    """The view, and the one verb that changes it."""

    __slots__ = ()

    def record(self, entry: JournalEntry) -> None:
        # The frequent ones first, by their very types, which are final: that is cheaper than a match,
        # and than `isinstance` where the answer is no.
        if type(entry) is Start:
            self._start(entry.job_id, entry.placement)
            return
        before = self.now
        try:
            if type(entry) is Submitted:
                at = entry.at
                if at < before:
                    self._advance(at)
                self.now = at  # as in `_advance`, written out here and below
                self._submitted(entry.job)
            elif type(entry) is Finished:
                at = entry.at
                if at < before:
                    self._advance(at)
                self.now = at
                finished = self._tracks.get(entry.job_id)
                if finished is None or finished.placement is None:
                    finished = self._may_end(entry.job_id)
                else:
                    self._release(finished, 0.0)
                self._end(finished, FINISHED)
            elif type(entry) is Started:
                self._advance(entry.at)
                self._started(entry.job_id)
            elif type(entry) is Preempt:
                self._preempt(entry.job_id)
            else:
                self._record_rare(entry)
        except IllegalEntry:
            self.now = before  # what was refused did not happen, and no time has passed
            raise

    def _record_rare(self, entry: JournalEntry) -> None:
        match entry:
            case Paced():  # first, as it is the most frequent of these where jobs share GPUs
                self._advance(entry.at)
                self._paced(entry.job_id, entry.speed)
            case Woke():
                self._advance(entry.at)
            case Wake():
                pass
            case Refuse():
                self._refuse(entry)
            case Promote():
                self._promote(entry.job_id)
            case Resize():
                self._resize(entry.job_id, entry.placement)
            case Failed():
                self._advance(entry.at)
                self._failed(entry)
            case Interrupted():
                self._advance(entry.at)
                self._interrupted(entry)
            case Cancelled():
                self._advance(entry.at)
                track = self._track(entry.job_id)
                if track.placement is not None:
                    self._release(track, 0.0)
                self._end(track, Phase.CANCELLED, entry.reason)
            case Occupied() | NodeDown() | NodeUp() | NodeDraining() | GpusClosed() | GpusOpened():
                self._advance(entry.at)
                self._change_node(entry)
            case NodeJoined() | NodeLeft() | NoMoreNodes() | TenantSet():
                self._advance(entry.at)
                self._change_cluster(entry)
            case Start() | Started() | Submitted() | Finished() | Preempt():
                raise AssertionError("recorded above")
            case _:
                self._record_live(entry)

    def _record_live(
        self,
        entry: Stop | Reported | Saved | Restored | Pinned | Unpinned | Stayed | Displaced | Held
        | Released | Requeued | Amended | PolicySet | LimitSet | GroupEvent | GroupAction | Branch
        | Note,
    ) -> None:  # fmt: skip
        """What happens to real processes and what their users want meanwhile."""
        match entry:
            case Stop():
                self._stop(entry)
            case Reported():
                self._advance(entry.at)
                self._reported(entry)
            case Saved() | Restored() | Pinned() | Unpinned() | Stayed() | Displaced():
                self._advance(entry.at)
                self._gave_way(entry)
            case Requeued():
                self._advance(entry.at)
                self._requeued(self._track(entry.job_id), entry.reason)
            case Held() | Released() | Amended():
                self._advance(entry.at)
                self._wished(entry)
            case PolicySet():
                self._advance(entry.at)
                self.policy = entry.policy
            case LimitSet():
                self._advance(entry.at)
                self.limits[entry.limit.user] = entry.limit
            case GroupEvent():
                self._advance(entry.at)
                self.kind(entry.kind).record(self, entry)
            case GroupAction():
                self.kind(entry.kind).record(self, entry)
            case Branch():
                self._branch(entry)
            case Note():
                self._note(entry)
            case _:
                assert_never(entry)

    # ----------------------------------------------------------- what jobs and their processes do

    def _stop(self, entry: Stop) -> None:
        track = self._track(entry.job_id)
        if track.placement is not None:
            self._release(track, 0.0)
        track.exit_code = entry.exit_code
        self._end(track, Phase.CANCELLED if entry.unneeded else Phase.FAILED, entry.reason)

    def _reported(self, entry: Reported) -> None:
        track = self._track(entry.job_id)
        if entry.step is not None:
            track.step = entry.step
            measure(track, entry.step, self.now, self.room.nodes)
        if entry.metrics:
            track.metrics = {**track.metrics, **entry.metrics}
        track.reported_at = self.now
        track.reported_upto = entry.upto
        track.reports_left_out += entry.left_out or 0
        heeded = False
        for index in self._on_report:
            if index.reports(track, entry) is not False:
                heeded = True
        if not heeded:
            self.unheeded += 1

    def _gave_way(self, entry: Saved | Restored | Pinned | Unpinned | Stayed | Displaced) -> None:
        track = self._track(entry.job_id)
        match entry:
            case Saved():
                self._saved(track, entry)
            case Restored():
                track.restored_in_s = entry.seconds
                track.parked_bytes = 0
            case Pinned():
                self._pin(track, entry.reason)
            case Unpinned():
                self._pin_as_usual(track)
                self._pin(track, track.pinned)
            case Stayed():
                self._stayed(track, entry)
            case Displaced():
                self._displace(self._held(entry.job_id), entry.reason)

    def _saved(self, track: Track, saved: Saved) -> None:
        track.rung = saved.rung
        track.saved_in_s = saved.seconds
        track.parked_bytes = saved.bytes
        track.parked_at = track.left if saved.parked else None
        self._tie(track, bool(saved.tied) and saved.parked)
        if saved.parked:
            self._keep_parked(track)
            return
        self._lose(track, saved.lost_s)
        track.parked_bytes = 0
        track.moves_from = None
        self._keep_no_longer(track)
        track.process = track.placement is not None  # it may have been started again meanwhile
        if track.process:
            track.run += 1

    def _displace(self, track: Track, reason: str) -> None:
        if track.phase is STARTING and track.first_start_at == track.started_at:
            track.first_start_at = -1.0  # it never really began
        left, is_starting = track.left, track.phase is STARTING
        self._release(track, 0.0)
        if is_starting:
            track.left = left  # it never came to where it was to go
            self._keep_as_before(track)
        track.reason = reason
        self._wait_again(track, SUSPENDED if track.executed_s > 0 else QUEUED)

    def _pin(self, track: Track, reason: str) -> None:
        track.pinned = reason
        if track.placement is not None:
            track.turn += 1
            self._say_it_runs(track)

    def _stayed(self, track: Track, entry: Stayed) -> None:
        if track.placement is not None:
            if track.phase is not STARTING or not track.resizes:
                raise IllegalEntry(f"job {entry.job_id!r} runs already at t={self.now:g}")
            self._stay_as_it_was(track, entry.placement)
        else:
            self._stay(track, entry.placement)
        self._pin(track, entry.reason)

    def _stay(self, track: Track, placement: Placement) -> None:
        """It could not be made to give way."""
        self._check_room(track.job.id, placement, track.shape, home=placement)
        self.room.take(placement, track.shape)
        self._step_out(track)
        track.preemptions -= 1
        track.process = True
        track.phase = RUNNING
        track.placement = placement
        track.started_at = track.working_since = self.now
        self._running[track.job.id] = track

    # ------------------------------------------------------------------------------ users' wishes

    def _wished(self, entry: Held | Released | Amended) -> None:
        if isinstance(entry, Amended):
            self._amended(self._track(entry.job.id), entry.job)
            return
        track = self._track(entry.job_id)
        was_in_line = not track.barred
        track.held = entry.reason if isinstance(entry, Held) else ""
        track.bar()
        if track.placement is None:
            self._line_up_or_park(track, was_in_line)
        if track.benched and not track.held:
            self._leave_line(track)

    def _requeued(self, track: Track, reason: str) -> None:
        if track.placement is None and not track.process:
            raise IllegalEntry(
                f"job {track.job.id!r} waits at t={self.now:g}: there is nothing to start over"
            )
        track.requeued = reason

    def _amended(self, track: Track, job: Job) -> None:
        if (job.group, job.member) != (track.job.group, track.job.member):
            raise IllegalEntry(f"job {job.id!r} cannot change its group at t={self.now:g}")
        shape, why_never = self._shape_of(job, None, is_kept(track, job), self._tied_to(track))
        if track.placement is not None and shape is not track.shape:
            raise IllegalEntry(
                f"job {job.id!r} runs: what it needs cannot change at t={self.now:g}"
            )
        track.job = job
        track.shape = shape
        track.turn += 1
        if track.placement is not None:
            self._say_it_runs(track)
            return
        if why_never:
            self.unplaceable[job.id] = why_never
        if not track.barred:
            self._say_it_waits(track)

    # ------------------------------------------------------------------------------------- groups

    def tell_closed(self, group: Any, reason: str) -> None:
        """Said by the kind of the group, when it has closed it."""
        for index in self._on_close:
            index.closes(group, reason)

    def _branch(self, entry: Branch) -> None:
        track = self._track(entry.job_id)
        group = self._group_of(track)
        if group is None:
            raise IllegalEntry(f"job {entry.job_id!r} belongs to no open group")
        self.kind(group.kind).branches(track, entry.source, entry.settings)
        if track.placement is not None:
            self._release(track, 0.0)
        self._end(track, Phase.CANCELLED, f"goes on from job {entry.source}")

    # ----------------------------------------------------------------------- what policies remember

    def _note(self, entry: Note) -> None:
        if entry.job_id is None:
            self.notes[entry.key] = entry.value
            if entry.value is None:
                del self.notes[entry.key]
            return
        track = self._track(entry.job_id)
        others = {key: value for key, value in track.notes.items() if key != entry.key}
        track.notes = others if entry.value is None else {**others, entry.key: entry.value}
