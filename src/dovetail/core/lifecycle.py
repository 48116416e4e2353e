"""What happens to a job from its submission to its end, whatever world it lives in."""

from __future__ import annotations

from dovetail.core.entries import Failed, Interrupted, Refuse
from dovetail.core.errors import IllegalEntry
from dovetail.core.keeping import Keeping
from dovetail.core.model import WHOLE_GPU, JobId, Placement, Seconds
from dovetail.core.queue import NOT_NEEDED
from dovetail.core.shape import Shape
from dovetail.core.track import FINISHED, QUEUED, RUNNING, STARTING, SUSPENDED, Phase, Track


class Lifecycle(Keeping):
    """The view, and the steps of a job's life. `State` decides when each is taken."""

    __slots__ = ()

    def _start_from_bench(self, track: Track, placement: Placement) -> None:
        """The last one of its group in the queue makes room for it there."""
        group = self._group_of(track)
        if group is None or not track.benched or track.held or track.stranded:
            raise IllegalEntry(
                f"cannot start job {track.job.id!r} at t={self.now:g}: it does not stand in line"
            )
        waiting = [self._tracks[job_id] for job_id in group.line if job_id not in self._running]
        if not waiting:
            raise IllegalEntry(
                f"cannot start job {track.job.id!r} at t={self.now:g}: {group.name} runs as many of "
                "its jobs at once as it may"
            )
        last = max(waiting, key=lambda other: other.ticket)
        self._swap(group, last, track)
        try:
            self._start(track.job.id, placement)
        except IllegalEntry:
            self._swap(group, track, last)
            raise

    def _start(self, job_id: JobId, placement: Placement) -> None:
        try:
            track = self._tracks[job_id]
        except KeyError:
            track = self._track(job_id)  # says why there is none
        if track.placement is not None:
            raise IllegalEntry(f"cannot start job {job_id!r} at t={self.now:g}: it runs already")
        if track.barred:
            self._start_from_bench(track, placement)
            return
        room, shape, now = self.room, track.shape, self.now
        if not room.drafted and placement is room.found and shape is room.found_for:
            room.take(placement, shape)  # it is what the book itself has just found
        elif (
            placement.gpus != shape.gpus
            or shape.options
            or not room.confirm(True, placement, shape)
        ):
            self._take(track, placement)
        if not track.process:
            track.run += 1
            track.process = True
        track.placement = placement
        track.started_at = now
        track.turn += 1
        is_first = track.first_start_at < 0.0
        if is_first:
            track.first_start_at = now
            if shape.options and track.job.settles:
                track.shape, _ = self._shape_of(track.job, placement)
        elif track.left is not None and _on_other_nodes(track.left, placement):
            track.migrations += 1
        if room.keeping:
            self._keep(track, placement)
        if track.phase is SUSPENDED:
            self._suspend(-1)
        if room.prompt and (is_first or track.job.interruption.restore_s <= 0):
            track.phase = RUNNING
            track.working_since = now
        else:
            track.phase = STARTING
            track.working_since = -1.0
        self.waiting_count -= 1
        self._running[job_id] = track
        tell = self._tell_run
        if tell is not None:
            tell(track)

    def _take(self, track: Track, placement: Placement) -> None:
        """Give the job GPUs that somebody has chosen: as drafted, or after a look at everything."""
        room, shape = self.room, track.shape
        if placement.gpus != shape.gpus or shape.options:
            self._check_size(track, placement)
        if not room.drafted or not room.confirm(True, placement, shape):
            self._check_room(track.job.id, placement, shape)
            room.take(placement, shape)

    def _check_room(
        self, job_id: JobId, placement: Placement, shape: Shape, home: Placement | None = None
    ) -> None:
        try:
            self.room.check(placement, shape, home)
        except IllegalEntry as error:
            raise IllegalEntry(f"cannot start job {job_id!r} at t={self.now:g}: {error}") from None

    def _check_size(self, track: Track, placement: Placement) -> None:
        """May the job have so many GPUs, and of that kind?"""
        if track.shape.options:
            self._check_option(track, placement)
        elif not self._may_have(track, placement.gpus):
            upto = f", {track.job.least_gpus} to {track.job.most_gpus} of them"
            raise IllegalEntry(
                f"cannot start job {track.job.id!r} with {placement.gpus} GPUs: "
                f"it asked for {track.shape}{upto if track.job.elastic else ''}"
            )

    def _check_option(self, track: Track, placement: Placement) -> None:
        """Is the placement one of the ways to run the job?"""
        nodes = self.room.nodes
        kinds = {nodes[n].kind for n, _ in placement.slices if 0 <= n < len(nodes)}
        if any([(kind, placement.gpus) not in track.shape.options for kind in kinds]):
            ways = " or ".join([f"{gpus} {kind}" for kind, gpus in track.shape.options])
            raise IllegalEntry(
                f"cannot start job {track.job.id!r} with {placement.gpus} GPUs of kind "
                f"{' and '.join(sorted(kinds))} at t={self.now:g}: it has options for {ways}"
            )

    @staticmethod
    def _may_have(track: Track, count: int) -> bool:
        if track.shape.options:
            return any([gpus == count for _, gpus in track.shape.options])
        return track.job.least_gpus <= count <= track.job.most_gpus

    def _started(self, job_id: JobId) -> None:
        track = self._held(job_id)
        if track.phase is not STARTING and track.working_since != track.started_at:
            raise IllegalEntry(f"job {job_id!r} reports a second start at t={self.now:g}")
        was_starting = track.phase is STARTING
        if was_starting:
            track.idle_s = track.idle_by(self.now)
        track.phase = RUNNING
        track.working_since = self.now
        if track.moves_from is not None:
            track.moves_from = None
        if track.parked_at is not None:
            track.parked_at = None
            self._tie(track, False)
        if was_starting:  # from now on its standing changes with time
            track.turn += 1
            self._say_it_runs(track)

    def _preempt(self, job_id: JobId) -> None:
        track = self._held(job_id)
        if track.stays:
            raise IllegalEntry(f"job {job_id!r} cannot give way at t={self.now:g}: {track.pinned}")
        self._release(track, 0.0)
        if track.keeps is not None and track.phase is STARTING:
            self._keep_as_before(track)  # else it is told by which rung it has given way
        track.preemptions += 1
        if track.rung:
            track.rung = ""
        self._wait_again(track, SUSPENDED)

    def _interrupted(self, entry: Interrupted) -> None:
        track = self._track(entry.job_id)
        was_waiting = track.placement is None
        if was_waiting:
            self._may_end(entry.job_id)
            self._lose(track, entry.lost_s)
        else:
            self._release(track, entry.lost_s)
        self._forget_processes(track)
        track.reason = entry.reason
        if was_waiting:
            self._step_out(track)
        self._wait_again(track, SUSPENDED if track.executed_s > 0 else QUEUED)

    def _forget_processes(self, track: Track) -> None:
        self._keep_nothing(track)
        track.process = False
        track.requeued = ""
        track.rung = ""
        track.parked_bytes = 0
        track.parked_at = None
        if track.tied:
            track.tied = False
            track.shape, _ = self._shape_for(track)
        self._pin_as_usual(track)

    @staticmethod
    def _lose(track: Track, lost_s: Seconds) -> None:
        """Work of a waiting job that will have to be done again."""
        lost_s = min(lost_s, track.executed_s)
        track.executed_s -= lost_s
        usual = track.shape.gpus * track.shape.share / WHOLE_GPU
        track.lost_gpu_s += (usual if track.left is None else track.left.holds) * lost_s

    def _release(self, track: Track, lost_s: Seconds) -> None:
        """Take the GPUs back; the account of this stint is closed."""
        room, placement = self.room, track.placement
        assert placement is not None
        if not room.drafted or not room.confirm(False, placement, track.shape):
            room.give(placement, track.shape)
            if room.strangers:
                room.keep_off_strangers(placement)
        # As in `_settle_stint`, written out: every job is released once at least.
        now, since, holds = self.now, track.working_since, placement.holds
        held = now - track.started_at
        worked = now - since if since >= 0.0 else 0.0
        track.held_s += held
        track.held_gpu_s += holds * held
        track.executed_s += worked * track.speed
        if lost_s or worked != held:
            self._lose_of_stint(track, holds, held - worked, lost_s)
        track.left = placement
        if track.moves_from is not None:
            track.left, track.moves_from = (
                track.moves_from,
                None,
            )  # it never came to where it was to go
        track.placement = None
        track.speed = 1.0
        track.working_since = -1.0
        track.turn += 1
        del self._running[track.job.id]

    def _settle_so_far(self, track: Track) -> None:
        """Book what the job did so far; it goes on running, in another way."""
        if track.phase is STARTING:
            track.idle_s = track.idle_by(self.now)
        assert track.placement is not None
        self._settle_stint(track, track.placement.holds, 0.0)
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
        self._say_it_runs(track)

    def _settle_stint(self, track: Track, holds: float, lost_s: Seconds) -> None:
        """Book the GPU-seconds held and the progress made since the last time this was done."""
        now, since = self.now, track.working_since
        held = now - track.started_at
        worked = now - since if since >= 0.0 else 0.0
        track.held_s += held
        track.held_gpu_s += holds * held
        track.executed_s += worked * track.speed
        if lost_s or worked != held:
            self._lose_of_stint(track, holds, held - worked, lost_s)

    @staticmethod
    def _lose_of_stint(track: Track, holds: float, idle_s: Seconds, lost_s: Seconds) -> None:
        lost_s = min(lost_s, track.executed_s)
        track.executed_s -= lost_s
        track.lost_gpu_s += holds * (idle_s + lost_s / track.speed)

    def _refuse(self, entry: Refuse) -> None:
        track = self._track(entry.job_id)
        if track.placement is not None:
            raise IllegalEntry(f"cannot refuse job {entry.job_id!r} at t={self.now:g}: it runs")
        is_needed = not entry.reason.startswith(NOT_NEEDED)
        self._end(track, Phase.REFUSED if is_needed else Phase.CANCELLED, entry.reason)

    def _promote(self, job_id: JobId) -> None:
        track = self._track(job_id)
        if track.placement is not None:
            raise IllegalEntry(f"cannot promote job {job_id!r} at t={self.now:g}: it runs")
        track.forgiven_gpu_s = track.held_gpu_s
        track.turn += 1
        if not track.barred:
            self._say_it_waits(track)

    def _failed(self, entry: Failed) -> None:
        track = self._track(entry.job_id)
        if track.placement is not None:
            self._release(track, entry.lost_s)
        elif self._may_end(entry.job_id):
            self._lose(track, entry.lost_s)
            self._step_out(track)
            track.phase = STARTING  # neither here nor there: it ends or lines up below
        self._forget_processes(track)
        track.exit_code = entry.exit_code
        track.attempts += 1
        if track.attempts > track.job.retries:
            self._end(track, Phase.FAILED, entry.reason)
        else:
            track.reason = entry.reason
            self._wait_again(track, QUEUED)

    def _end(self, track: Track, phase: Phase, reason: str = "") -> None:
        job, before = track.job, track.phase
        job_id = job.id
        if before is not RUNNING and before is not STARTING:
            self._step_out(track)
        track.phase = phase
        track.reason = reason
        track.ended_at = self.now
        if self.room.keeping and track.keeps is not None:
            self._keep_nothing(track)
        del self._tracks[job_id]
        if self.unplaceable:
            self.unplaceable.pop(job_id, None)
        if phase is not FINISHED:
            self._unfinished[job_id] = phase
        tell = self._tell_end
        if tell is not None:
            tell(track)
        if job.deadline is not None or track.migrations:
            for index in self._on_due:
                index.ends(track)
        if job.member is not None:
            self._leave_line(track)
        if self._dependants:
            self._tell_dependants(track)
        if self._remembers:
            self.past.append(track)

    def _resize(self, job_id: JobId, placement: Placement) -> None:
        track = self._held(job_id)
        before = track.placement
        assert before is not None
        if placement.slices != before.slices:
            self._move(track, before, placement)
            return
        if placement.share != before.share:  # else nothing changes in what is free
            self._exchange(track, before, placement)
        self._settle_so_far(track)
        track.placement = placement
        track.turn += 1
        self._say_it_runs(track)

    def _move(self, track: Track, before: Placement, after: Placement) -> None:
        """Other GPUs, more or fewer or elsewhere, from this moment on. It is saved and restored."""
        self._check_may_move(track, after)
        self._exchange(track, before, after)
        self._settle_so_far(track)
        track.resizes += 1
        if track.phase is RUNNING:
            track.moves_from = before
        track.placement = after
        if self.room.keeping:
            self._keep(track, after)
        track.speed = 1.0
        interruption = track.job.interruption
        if not self.room.prompt or interruption.save_s + interruption.restore_s > 0:
            track.phase = STARTING
            track.working_since = -1.0
        else:
            track.moves_from = None
        track.turn += 1
        self._say_it_runs(track)

    def _stay_as_it_was(self, track: Track, before: Placement) -> None:
        """It was to go on with other GPUs and could not be saved: it goes on with those it had."""
        assert track.placement is not None
        self._exchange(track, track.placement, before, home=before)
        self._settle_so_far(track)
        track.resizes -= 1
        track.moves_from = None
        track.placement = before
        if self.room.keeping:
            self._keep(track, before)
        track.phase = RUNNING
        track.working_since = self.now

    def _check_may_move(self, track: Track, placement: Placement) -> None:
        if track.pinned:
            raise IllegalEntry(
                f"job {track.job.id!r} cannot be given other GPUs at t={self.now:g}: {track.pinned}"
            )
        self._check_size(track, placement)
        if placement.share != track.job.share:
            raise IllegalEntry(
                f"job {track.job.id!r} cannot be given other GPUs and less of them at once"
            )

    def _exchange(
        self, track: Track, before: Placement, after: Placement, home: Placement | None = None
    ) -> None:
        """In the book of what is free: as drafted, or after a look at everything. `home`: what it may
        have although it is closed; None: what it had."""
        room, shape = self.room, track.shape
        given = room.drafted and room.confirm(False, before, shape)
        if given and room.drafted and room.confirm(True, after, shape):
            return
        if not given:
            room.give(before, shape)
        try:
            room.check(after, shape, home or before)
        except IllegalEntry as error:
            room.take(before, shape)
            raise IllegalEntry(
                f"cannot resize job {track.job.id!r} at t={self.now:g}: {error}"
            ) from None
        room.take(after, shape)
        if room.strangers and before.slices != after.slices:
            room.keep_off_strangers(before)


def _on_other_nodes(before: Placement, after: Placement) -> bool:
    if len(before.slices) == len(after.slices) == 1:
        return before.slices[0].node != after.slices[0].node
    return {piece.node for piece in before.slices} != {piece.node for piece in after.slices}
