"""State is the fold of the journal. `State.record` is the only way to change it.

Policies get the same object typed as `View`, which has no way to change anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol, assert_never, final

from dovetail.core.entries import (
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    JournalEntry,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    Paced,
    Preempt,
    Promote,
    Refuse,
    Resize,
    Start,
    Started,
    Submitted,
    TenantSet,
    Wake,
    Woke,
)
from dovetail.core.errors import IllegalEntry
from dovetail.core.model import WHOLE_GPU, Job, JobId, Placement, Seconds, Shape
from dovetail.core.room import Room
from dovetail.core.track import FINISHED, QUEUED, RUNNING, STARTING, SUSPENDED, Phase, Track

WAITS: Final = 1
RUNS: Final = 2
ENDS: Final = 4
SETTLES: Final = 8


class Index(Protocol):
    """Something derived from the journal and kept up to date, because a policy asked for it.

    `watches` says what it wants to be told of, e.g. `WAITS | ENDS`.
    """

    watches: int

    def waits(self, track: Track) -> None:
        """The job now waits: it was submitted, preempted, interrupted or is to be tried again."""

    def runs(self, track: Track) -> None:
        """The job was given GPUs."""

    def ends(self, track: Track) -> None:
        """The job will never run again."""

    def settle(self) -> None:
        """Forget what a policy tried out."""


class IndexSpec(Protocol):
    """Says which index is wanted. Kept by the policy as a field, so it is always the same object."""

    def build(self, view: View) -> Index: ...


class View:
    """What a policy may look at."""

    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self.room: Final = Room()
        self._tracks: dict[JobId, Track] = {}
        self._running: dict[JobId, Track] = {}
        self._seen: set[JobId] = set()  # every job ever submitted
        self._unfinished: dict[JobId, Phase] = {}  # those that ended otherwise, and how
        self.unplaceable: dict[JobId, str] = {}  # can never start here, and why: refused at once
        self._shapes: dict[
            tuple[int, int, tuple[str, ...], float, float, str], tuple[Shape, str]
        ] = {}
        self._simple_shapes: dict[int, tuple[Shape, str]] = {}  # the same, by GPUs alone
        self._on_settle: list[Index] = []
        self._on_wait: list[Index] = []
        self._on_run: list[Index] = []
        self._on_end: list[Index] = []
        self._index_by_spec: dict[int, tuple[IndexSpec, Index]] = {}
        self._sequence = 0
        self._tickets = 0
        self.unsettled = False  # has an index something to put back?
        self.waiting_count = 0
        self.suspended_count = 0
        self.peak_suspended = 0
        self.capacity: Final[
            list[tuple[Seconds, int]]
        ] = []  # GPUs on nodes that are up, from then on

    @property
    def tracks(self) -> Mapping[JobId, Track]:
        """Every job that has not ended, in order of submission."""
        return self._tracks

    @property
    def running(self) -> Mapping[JobId, Track]:
        """The jobs that hold GPUs, in the order they were given them."""
        return self._running

    @property
    def ended(self) -> Mapping[JobId, Phase]:
        """How every job ended that did; put together when asked for, which is not at every event."""
        gone = self._seen.difference(self._tracks)
        return {job_id: self._unfinished.get(job_id, FINISHED) for job_id in gone}

    @property
    def shapes(self) -> Collection[tuple[Shape, str]]:
        return self._shapes.values()

    def index(self, spec: IndexSpec) -> Index:
        """The index for this spec: made when first asked for, kept up to date from then on."""
        found = self._index_by_spec.get(id(spec))
        if found is not None:
            return found[1]
        index = spec.build(self)
        watches = index.watches
        for track in self._tracks.values():
            if track.placement is None:
                if watches & WAITS:
                    index.waits(track)
            elif watches & RUNS:
                index.runs(track)
        self._index_by_spec[id(spec)] = (spec, index)
        for flag, told in (
            (WAITS, self._on_wait),
            (RUNS, self._on_run),
            (ENDS, self._on_end),
            (SETTLES, self._on_settle),
        ):
            if watches & flag:
                told.append(index)
        return index

    def settle(self) -> None:
        """Undo what policies have only tried out."""
        self.unsettled = False
        if self.room.drafted:
            self.room.rollback()
        for index in self._on_settle:
            index.settle()


@final
class State(View):
    """The view, and the one verb that changes it."""

    def record(self, entry: JournalEntry) -> None:
        before = self.now
        try:
            # The frequent ones first; type checks in a row are cheaper than a match.
            if isinstance(entry, Submitted):
                if entry.at != before:
                    self._advance(entry.at)
                self._submitted(entry.job)
            elif isinstance(entry, Start):
                self._start(entry.job_id, entry.placement)
            elif isinstance(entry, Finished):
                if entry.at != before:
                    self._advance(entry.at)
                finished = self._tracks.get(entry.job_id)
                if finished is None or finished.placement is None:
                    finished = self._held(entry.job_id)  # says what is wrong
                self._release(finished, 0.0)
                self._end(finished, FINISHED)
            elif isinstance(entry, Started):
                self._advance(entry.at)
                self._started(entry.job_id)
            elif isinstance(entry, Preempt):
                self._preempt(entry.job_id)
            else:
                self._record_rare(entry)
        except IllegalEntry:
            self.now = before  # what was refused did not happen, and no time has passed
            raise

    def _record_rare(self, entry: JournalEntry) -> None:
        match entry:
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
                track = self._held(entry.job_id)
                self._release(track, entry.lost_s)
                track.reason = entry.reason
                self._wait_again(track, SUSPENDED if track.executed_s > 0 else QUEUED)
            case Cancelled():
                self._advance(entry.at)
                track = self._track(entry.job_id)
                if track.placement is not None:
                    self._release(track, 0.0)
                self._end(track, Phase.CANCELLED, entry.reason)
            case Paced():
                self._advance(entry.at)
                self._paced(entry.job_id, entry.speed)
            case NodeJoined() | NodeDown() | NodeUp() | NodeDraining() | NodeLeft() | TenantSet():
                self._advance(entry.at)
                self._change_cluster(entry)
            case Start() | Started() | Submitted() | Finished() | Preempt():
                raise AssertionError("recorded above")
            case _:
                assert_never(entry)

    # ---------------------------------------------------------------------------------------- jobs

    def _advance(self, at: Seconds) -> None:
        if at < self.now:
            raise IllegalEntry(f"time runs backwards: t={at!r} after t={self.now!r}")
        if self.suspended_count > self.peak_suspended and at > self.now:
            self.peak_suspended = self.suspended_count  # moments of no length do not count
        self.now = at

    def _track(self, job_id: JobId) -> Track:
        track = self._tracks.get(job_id)
        if track is None:
            how = self._unfinished.get(job_id, FINISHED).value
            what = f"has ended ({how})" if job_id in self._seen else "is not known"
            raise IllegalEntry(f"job {job_id!r} {what} at t={self.now:g}")
        return track

    def _held(self, job_id: JobId) -> Track:
        track = self._track(job_id)
        if track.placement is None:
            raise IllegalEntry(f"job {job_id!r} holds no GPUs at t={self.now:g}")
        return track

    def _submitted(self, job: Job) -> None:
        job_id, seen = job.id, self._seen
        if job_id in seen:
            raise IllegalEntry(f"job {job_id!r} is submitted twice; job ids must differ")
        seen.add(job_id)
        found = self._simple_shapes.get(job.gpus) if job.simple else None
        if found is None:
            found = self._shape_of(job)
        shape, why_never = found
        self._tickets += 1
        track = Track(job, shape, self._sequence, self.now, self._tickets)
        self._sequence += 1
        self._tracks[job_id] = track
        self.waiting_count += 1
        if why_never:
            self.unplaceable[job_id] = why_never
        for index in self._on_wait:
            index.waits(track)

    def _shape_of(self, job: Job) -> tuple[Shape, str]:
        tenant = job.tenant if self.room.tenants_matter else ""
        key = (job.gpus, job.share, job.kinds, job.cpus, job.memory_gb, tenant)
        found = self._shapes.get(key)
        if found is None:
            shape = Shape(len(self._shapes), job, tenant)
            found = (shape, self.room.why_never(shape))
            self._shapes[key] = found
            if job.simple and not self.room.tenants_matter:
                self._simple_shapes[job.gpus] = found
        return found

    def _start(self, job_id: JobId, placement: Placement) -> None:
        track = self._tracks.get(job_id) or self._track(job_id)
        if track.placement is not None:
            raise IllegalEntry(f"cannot start job {job_id!r} at t={self.now:g}: it runs already")
        room, shape, count, now = self.room, track.shape, placement.gpus, self.now
        if count != shape.gpus and not self._may_have(track, count):
            raise IllegalEntry(
                f"cannot start job {job_id!r} with {count} GPUs: it asked for {shape}"
            )
        if not room.drafted or not room.confirm(True, placement, shape):
            if not room.is_plainly_free(placement, shape):
                self._check_room(job_id, placement, shape)
            room.take(placement, shape)
        if track.phase is SUSPENDED:
            self.suspended_count -= 1
        if room.prompt and not (track.first_start_at >= 0 and track.job.interruption.restore_s > 0):
            track.phase = RUNNING
            track.working_since = now
        else:
            track.phase = STARTING
            track.working_since = -1.0
        track.placement = placement
        track.holds = (
            float(count) if placement.share == WHOLE_GPU else count * placement.share / WHOLE_GPU
        )
        track.started_at = now
        track.turn += 1
        self.waiting_count -= 1
        self._running[job_id] = track
        for index in self._on_run:
            index.runs(track)
        if track.first_start_at < 0:
            track.first_start_at = now

    def _check_room(self, job_id: JobId, placement: Placement, shape: Shape) -> None:
        try:
            self.room.check(placement, shape)
        except IllegalEntry as error:
            raise IllegalEntry(f"cannot start job {job_id!r} at t={self.now:g}: {error}") from None

    @staticmethod
    def _may_have(track: Track, count: int) -> bool:
        low, high = track.job.min_gpus, track.job.max_gpus
        return (
            (low if low is not None else track.job.gpus)
            <= count
            <= (high if high is not None else track.job.gpus)
        )

    def _started(self, job_id: JobId) -> None:
        track = self._held(job_id)
        if track.phase is not STARTING and track.working_since != track.started_at:
            raise IllegalEntry(f"job {job_id!r} reports a second start at t={self.now:g}")
        track.phase = RUNNING
        track.working_since = self.now

    def _preempt(self, job_id: JobId) -> None:
        track = self._held(job_id)
        self._release(track, 0.0)
        track.preemptions += 1
        self._wait_again(track, SUSPENDED)

    def _release(self, track: Track, lost_s: Seconds) -> None:
        """Take the GPUs back; the account of this stint is closed."""
        room, placement = self.room, track.placement
        assert placement is not None
        if not room.drafted or not room.confirm(False, placement, track.shape):
            room.give(placement, track.shape)
        self._settle_stint(track, lost_s)
        track.placement = None
        track.holds = 0.0
        track.speed = 1.0
        track.working_since = -1.0
        track.turn += 1
        del self._running[track.job.id]

    def _settle_so_far(self, track: Track) -> None:
        """Book what the job did so far; it goes on running, in another way."""
        self._settle_stint(track, 0.0)
        track.started_at = self.now
        if track.working_since >= 0:
            track.working_since = self.now

    def _paced(self, job_id: JobId, speed: float) -> None:
        track = self._held(job_id)
        if not speed > 0:
            raise IllegalEntry(f"job {job_id!r} is said to run at speed {speed}")
        self._settle_so_far(track)
        track.speed = speed
        track.turn += 1
        for index in self._on_run:
            index.runs(track)

    def _settle_stint(self, track: Track, lost_s: Seconds) -> None:
        """Book the GPU-seconds held and the progress made since the last time this was done."""
        now, since, speed = self.now, track.working_since, track.speed
        held = now - track.started_at
        worked = now - since if since >= 0 else 0.0
        track.held_s += held
        track.held_gpu_s += track.holds * held
        track.executed_s += worked * speed
        if lost_s:
            lost_s = min(lost_s, track.executed_s)
            track.executed_s -= lost_s
        if lost_s or worked != held:
            track.lost_gpu_s += track.holds * (held - worked + lost_s / speed)

    def _wait_again(self, track: Track, phase: Phase) -> None:
        track.phase = phase
        track.waiting_since = self.now
        self._tickets += 1
        track.ticket = self._tickets
        self.waiting_count += 1
        if phase is SUSPENDED:
            self.suspended_count += 1
        for index in self._on_wait:
            index.waits(track)

    def _refuse(self, entry: Refuse) -> None:
        track = self._track(entry.job_id)
        if track.placement is not None:
            raise IllegalEntry(f"cannot refuse job {entry.job_id!r} at t={self.now:g}: it runs")
        self._end(track, Phase.REFUSED, entry.reason)

    def _promote(self, job_id: JobId) -> None:
        track = self._track(job_id)
        if track.placement is not None:
            raise IllegalEntry(f"cannot promote job {job_id!r} at t={self.now:g}: it runs")
        track.forgiven_gpu_s = track.held_gpu_s
        track.turn += 1
        for index in self._on_wait:
            index.waits(track)

    def _failed(self, entry: Failed) -> None:
        track = self._held(entry.job_id)
        self._release(track, entry.lost_s)
        track.attempts += 1
        if track.attempts > track.job.retries:
            self._end(track, Phase.FAILED, entry.reason)
        else:
            track.reason = entry.reason
            self._wait_again(track, QUEUED)

    def _end(self, track: Track, phase: Phase, reason: str = "") -> None:
        job_id, before = track.job.id, track.phase
        if before is QUEUED or before is SUSPENDED:
            self.waiting_count -= 1
            if before is SUSPENDED:
                self.suspended_count -= 1
        track.turn += 1
        track.phase = phase
        track.reason = reason
        track.ended_at = self.now
        del self._tracks[job_id]
        if self.unplaceable:
            self.unplaceable.pop(job_id, None)
        if phase is not FINISHED:
            self._unfinished[job_id] = phase
        for index in self._on_end:
            index.ends(track)

    def _resize(self, job_id: JobId, placement: Placement) -> None:
        track = self._held(job_id)
        before = track.placement
        assert before is not None
        if not self._may_have(track, placement.gpus):
            raise IllegalEntry(f"cannot give job {job_id!r} {placement.gpus} GPUs")
        self.room.give(before, track.shape)
        try:
            self.room.check(placement, track.shape, before)
        except IllegalEntry as error:
            self.room.take(before, track.shape)
            raise IllegalEntry(f"cannot resize job {job_id!r} at t={self.now:g}: {error}") from None
        self.room.take(placement, track.shape)
        self._settle_so_far(track)
        track.placement = placement
        track.holds = placement.gpus * placement.share / WHOLE_GPU
        track.turn += 1
        for index in self._on_run:
            index.runs(track)

    # ------------------------------------------------------------------------------------- cluster

    def _change_cluster(
        self, entry: NodeJoined | NodeDown | NodeUp | NodeDraining | NodeLeft | TenantSet
    ) -> None:
        room = self.room
        tenants_mattered = room.tenants_matter
        if isinstance(entry, NodeJoined):
            if entry.node.id in room.index:
                raise IllegalEntry(f"node {entry.node.id!r} joins twice; node ids must differ")
            room.add(entry.node)
        elif isinstance(entry, TenantSet):
            room.set_tenant(entry.tenant)
        else:
            n = room.index.get(entry.node_id)
            if n is None or n in room.gone:
                raise IllegalEntry(f"there is no node {entry.node_id!r}")
            if isinstance(entry, NodeLeft):
                room.remove(n)
            else:
                room.set_open(n, isinstance(entry, NodeUp))
            if isinstance(entry, NodeDown | NodeUp):
                room.set_up(n, isinstance(entry, NodeUp))
        self.capacity.append((self.now, room.gpus_up))
        if room.tenants_matter and not tenants_mattered:
            self._give_shapes_their_tenants()
        self._judge_shapes_again()

    def _give_shapes_their_tenants(self) -> None:
        """From now on jobs of two tenants are no longer interchangeable: shape them all anew."""
        self._shapes.clear()
        self._simple_shapes.clear()
        for track in self._tracks.values():
            track.shape, _ = self._shape_of(track.job)
            track.turn += 1
            if track.placement is None:
                for index in self._on_wait:
                    index.waits(track)
                continue
            if track.shape.tenant in self.room.held:
                self.room.held[track.shape.tenant] += track.holds
            for index in self._on_run:
                index.runs(track)

    def _judge_shapes_again(self) -> None:
        """What fits the cluster at all has changed: judge the known shapes and the waiting jobs."""
        self._simple_shapes.clear()
        if not self._shapes:
            return
        for key, (shape, _) in list(self._shapes.items()):
            self._shapes[key] = (shape, self.room.why_never(shape))
        never = {shape.lane: why for shape, why in self._shapes.values() if why}
        self.unplaceable = {
            job_id: never[track.shape.lane]
            for job_id, track in self._tracks.items()
            if track.placement is None and track.shape.lane in never
        }
