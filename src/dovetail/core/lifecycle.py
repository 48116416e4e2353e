"""What happens to a job from its submission to its end, whatever world it lives in."""

from __future__ import annotations

from typing import Final

from dovetail.core.entries import Failed, Interrupted, Refuse
from dovetail.core.errors import IllegalEntry
from dovetail.core.groups import Group
from dovetail.core.model import WHOLE_GPU, Job, JobId, Placement, Seconds, Shape
from dovetail.core.track import FINISHED, QUEUED, RUNNING, STARTING, SUSPENDED, Phase, Track
from dovetail.core.view import View

NOT_PREEMPTIBLE: Final = "its user does not want it to give way"


class Lifecycle(View):
    """The view, and the steps of a job's life. `State` decides when each is taken."""

    __slots__ = ()

    def _advance(self, at: Seconds) -> None:
        if at < self.now:
            raise IllegalEntry(f"time runs backwards: t={at!r} after t={self.now!r}")
        self.now = at

    def _suspend(self, more: int) -> None:
        """So many more jobs are suspended from now on."""
        now, number = self.now, self.suspended_count
        if number > self._peak_suspended and now > self._suspended_since:
            self._peak_suspended = number
        self._suspended_since = now
        self.suspended_count = number + more

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

    def _may_end(self, job_id: JobId) -> Track:
        """A waiting job can end only if it has run: while it gave way, or while it was parked."""
        track = self._track(job_id)
        if track.phase is not SUSPENDED:
            raise IllegalEntry(f"job {job_id!r} holds no GPUs at t={self.now:g}")
        return track

    def _submitted(self, job: Job) -> None:
        job_id, seen = job.id, self._seen
        if job_id in seen:
            raise IllegalEntry(f"job {job_id!r} is submitted twice; job ids must differ")
        seen.add(job_id)
        simple = job.simple
        shape = self._simple_shapes.get(job.gpus) if simple else None
        if shape is None:
            shape, why_never = self._shape_of(job)
            if why_never:
                self.unplaceable[job_id] = why_never
        sequence = self._sequence
        self._sequence = sequence + 1
        self._tickets = ticket = self._tickets + 1
        self._tracks[job_id] = track = Track(job, shape, sequence, self.now, ticket)
        if not simple:
            self._line_up_if_allowed(track)
            return
        self.waiting_count += 1
        for index in self._on_wait:
            index.waits(track)

    def _line_up_if_allowed(self, track: Track) -> None:
        if not track.job.preemptible:
            track.pinned = NOT_PREEMPTIBLE
        if track.job.after:
            self._await(track)
        group = self._group_of(track)
        if group is not None:
            self.kind(group.kind).joins(track)
        if not track.barred:
            self._line_up(track)

    def _line_up(self, track: Track) -> None:
        if track.job.member is not None and not self._has_place(track):
            return
        self.waiting_count += 1
        for index in self._on_wait:
            index.waits(track)

    def _await(self, track: Track) -> None:
        """Keep the job out of the queue until those it comes after have finished."""
        for other in track.job.after:
            phase = self._unfinished.get(other)
            if other in self._tracks:
                track.awaits = (*track.awaits, other)
                self._dependants.setdefault(other, []).append(track)
            elif phase is not None or other not in self._seen:
                what = "is not known" if phase is None else f"has ended ({phase.value})"
                self.unplaceable[track.job.id] = f"it comes after job {other!r}, which {what}"
                track.awaits = (*track.awaits, other)
        track.bar()

    # ------------------------------------------- groups, of which so many jobs may run at once

    def _group_of(self, track: Track) -> Group | None:
        """The open group that the job is a member of."""
        return self.groups.get(track.job.group) if track.job.member is not None else None

    def _has_place(self, track: Track) -> bool:
        """A member lines up only if its group has room for it there."""
        group = self._group_of(track)
        if group is None or group.has_place(track.job.id):
            return True
        self._bench(group, track)
        return False

    @staticmethod
    def _bench(group: Group, track: Track) -> None:
        track.benched = True
        track.bar()
        group.line.discard(track.job.id)
        group.bench[track.job.id] = track

    @staticmethod
    def _leave_bench(group: Group, track: Track) -> None:
        track.benched = False
        track.bar()
        group.bench.pop(track.job.id, None)

    def _fill_line(self, group: Group) -> None:
        while (track := group.next_on_bench()) is not None:
            self._leave_bench(group, track)
            self._line_up(track)

    def _leave_line(self, track: Track) -> None:
        """Held by its user, or over: another of its group may line up."""
        group = self._group_of(track)
        if group is not None:
            group.line.discard(track.job.id)
            self._fill_line(group)

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

    def _swap(self, group: Group, out: Track, to_line: Track) -> None:
        self._bench(group, out)
        self.waiting_count -= 1
        out.turn += 1
        self._park(out)
        self._leave_bench(group, to_line)
        self._line_up(to_line)

    def _tell_dependants(self, ended: Track) -> None:
        group = self._group_of(ended) if ended.job.last_step is not None else None
        spoilt = "" if group is None else self.kind(group.kind).why_not_after(ended)
        for track in self._dependants.pop(ended.job.id, ()):
            if track.ended_at >= 0:
                continue
            if spoilt and track.job.group == ended.job.group:
                self.unplaceable[track.job.id] = spoilt
            elif ended.phase is FINISHED:
                track.awaits = tuple([other for other in track.awaits if other != ended.job.id])
                track.bar()
                if not track.barred:
                    self._line_up(track)
            else:
                self.unplaceable[track.job.id] = (
                    f"it comes after job {ended.job.id!r}, which has ended ({ended.phase.value})"
                )

    def _shape_of(self, job: Job, began_on: Placement | None = None) -> tuple[Shape, str]:
        """What must be free for it, and why that can never be. Some jobs keep to the option they began
        with."""
        tenant = job.tenant if self.room.tenants_matter else ""
        settled: tuple[str, int] | None = None
        ways: tuple[tuple[str, int], ...] = ()
        if job.options:
            ways = tuple([(option.kind, option.gpus) for option in job.options])
            if job.settles and began_on is not None:
                settled = (self.room.nodes[began_on.slices[0].node].kind, began_on.gpus)
                ways = (settled,)
        key = (
            job.gpus, job.share, job.kinds, job.cpus, job.memory_gb, job.gpu_memory_gb, tenant,
            ways, settled is not None,
        )  # fmt: skip
        found = self._shapes.get(key)
        if found is None:
            found = self.room.shaped(self._next_lane(), job, tenant, settled)
            self._shapes[key] = found
            shape = found[0]
            if job.simple and not found[1] and not self.room.tenants_matter:
                self._simple_shapes[job.gpus] = shape
        return found

    def _next_lane(self) -> int:
        self._lanes += 1
        return self._lanes - 1

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
        if room.drafted or placement is not room.found or shape is not room.found_for:
            self._take(track, placement)
        else:
            room.take(placement, shape)  # it is what the book itself has just found
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
        for index in self._on_run:
            index.runs(track)

    def _take(self, track: Track, placement: Placement) -> None:
        """Give the job GPUs that somebody has chosen: as drafted, or after a look at everything."""
        room, shape = self.room, track.shape
        if placement.gpus != shape.gpus or shape.options:
            self._check_size(track, placement)
        if not room.drafted or not room.confirm(True, placement, shape):
            self._check_room(track.job.id, placement, shape)
            room.take(placement, shape)

    def _check_room(self, job_id: JobId, placement: Placement, shape: Shape) -> None:
        try:
            self.room.check(placement, shape)
        except IllegalEntry as error:
            raise IllegalEntry(f"cannot start job {job_id!r} at t={self.now:g}: {error}") from None

    def _check_size(self, track: Track, placement: Placement) -> None:
        """May the job have so many GPUs, and of that kind?"""
        if track.shape.options:
            self._check_option(track, placement)
        elif not self._may_have(track, placement.gpus):
            raise IllegalEntry(
                f"cannot start job {track.job.id!r} with {placement.gpus} GPUs: "
                f"it asked for {track.shape}"
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
        was_starting = track.phase is STARTING
        if was_starting:
            track.idle_s = track.idle_by(self.now)
        track.phase = RUNNING
        track.working_since = self.now
        if was_starting:  # from now on its standing changes with time
            track.turn += 1
            for index in self._on_run:
                index.runs(track)

    def _preempt(self, job_id: JobId) -> None:
        track = self._held(job_id)
        if track.pinned:
            raise IllegalEntry(f"job {job_id!r} cannot give way at t={self.now:g}: {track.pinned}")
        self._release(track, 0.0)
        track.preemptions += 1
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

    @staticmethod
    def _forget_processes(track: Track) -> None:
        track.process = False
        track.requeued = ""
        track.rung = ""
        track.parked_bytes = 0
        track.pinned = "" if track.job.preemptible else NOT_PREEMPTIBLE

    def _park(self, track: Track) -> None:
        for index in self._on_park:
            index.parks(track)
        if track.job.member is not None and not track.benched:
            self._leave_line(track)

    def _step_out(self, track: Track) -> None:
        """Leave the queue, for good or to line up elsewhere in it."""
        if track.phase is SUSPENDED:
            self._suspend(-1)
        if not track.barred:
            self.waiting_count -= 1
        track.turn += 1

    @staticmethod
    def _lose(track: Track, lost_s: Seconds) -> None:
        """Work of a waiting job that will have to be done again."""
        lost_s = min(lost_s, track.executed_s)
        track.executed_s -= lost_s
        track.lost_gpu_s += track.shape.gpus * track.shape.share / WHOLE_GPU * lost_s

    def _release(self, track: Track, lost_s: Seconds) -> None:
        """Take the GPUs back; the account of this stint is closed."""
        room, placement = self.room, track.placement
        assert placement is not None
        if not room.drafted or not room.confirm(False, placement, track.shape):
            room.give(placement, track.shape)
            if room.strangers:
                room.keep_off_strangers()
        self._settle_stint(track, placement.holds, lost_s)
        track.left = placement
        track.placement = None
        track.speed = 1.0
        track.working_since = -1.0
        track.turn += 1
        del self._running[track.job.id]

    def _settle_so_far(self, track: Track) -> None:
        """Book what the job did so far; it goes on running, in another way."""
        if track.phase is STARTING:
            track.idle_s = track.idle_by(self.now)
        self._settle_stint(track, track.holds, 0.0)
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

    def _settle_stint(self, track: Track, holds: float, lost_s: Seconds) -> None:
        """Book the GPU-seconds held and the progress made since the last time this was done."""
        now, since = self.now, track.working_since
        held = now - track.started_at
        worked = now - since if since >= 0.0 else 0.0
        track.held_s += held
        track.held_gpu_s += holds * held
        track.executed_s += worked * track.speed
        if lost_s or worked != held:
            lost_s = min(lost_s, track.executed_s)
            track.executed_s -= lost_s
            track.lost_gpu_s += holds * (held - worked + lost_s / track.speed)

    def _set_stranded(self, track: Track, why: str) -> None:
        """Keep a waiting job out of the queue because no node there is could run it; or no longer."""
        was_in_line = not track.barred
        track.stranded = why
        track.bar()
        self._line_up_or_park(track, was_in_line)

    def _line_up_or_park(self, track: Track, was_in_line: bool) -> None:
        """It waits, and the reasons to keep it out of the queue have changed."""
        if was_in_line == (not track.barred):
            return
        track.turn += 1
        if was_in_line:
            self.waiting_count -= 1
            self._park(track)
        else:
            self._line_up(track)

    def _wait_again(self, track: Track, phase: Phase) -> None:
        track.phase = phase
        track.idle_s = 0.0
        track.waiting_since = self.now
        self._tickets += 1
        track.ticket = self._tickets
        if phase is SUSPENDED:
            self._suspend(1)
        if self.room.gone:
            track.stranded = self._shape_of(track.job, track.left)[1]
            track.bar()
        if track.barred:
            self._park(track)
        else:
            self._line_up(track)

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
        if not track.barred:
            for index in self._on_wait:
                index.waits(track)

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
        del self._tracks[job_id]
        if self.unplaceable:
            self.unplaceable.pop(job_id, None)
        if phase is not FINISHED:
            self._unfinished[job_id] = phase
        for index in self._on_end:
            index.ends(track)
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
            raise IllegalEntry(
                f"cannot give job {job_id!r} other GPUs while it runs at t={self.now:g}; preempt it "
                "and start it there"
            )
        self.room.give(before, track.shape)
        try:
            self.room.check(placement, track.shape, before)
        except IllegalEntry as error:
            self.room.take(before, track.shape)
            raise IllegalEntry(f"cannot resize job {job_id!r} at t={self.now:g}: {error}") from None
        self.room.take(placement, track.shape)
        self._settle_so_far(track)
        track.placement = placement
        track.turn += 1
        for index in self._on_run:
            index.runs(track)


def _on_other_nodes(before: Placement, after: Placement) -> bool:
    if len(before.slices) == len(after.slices) == 1:
        return before.slices[0].node != after.slices[0].node
    return {piece.node for piece in before.slices} != {piece.node for piece in after.slices}
