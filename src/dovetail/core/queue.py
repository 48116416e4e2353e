"""Who waits in the queue, and who is kept out of it: by other jobs, its group, its user, the nodes."""

from __future__ import annotations

from typing import Final

from dovetail.core.errors import IllegalEntry
from dovetail.core.groups import Group
from dovetail.core.model import Job, JobId, Placement, Seconds
from dovetail.core.shape import Home, Shape, home_at
from dovetail.core.track import FINISHED, SUSPENDED, Phase, Track
from dovetail.core.view import View

NOT_PREEMPTIBLE: Final = "its user does not want it to give way"
NOT_NEEDED: Final = "not needed: it comes after the failure of job"


class Queue(View):
    """The view, and the steps by which a job enters and leaves the queue."""

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
        track = self._tracks.get(job_id)
        if track is None:
            track = self._track(job_id)  # says why there is none
        if track.placement is None:
            raise IllegalEntry(f"job {job_id!r} holds no GPUs at t={self.now:g}")
        return track

    def _may_end(self, job_id: JobId) -> Track:
        """A waiting job can end only if it has run: while it gave way, or while it was parked."""
        track = self._track(job_id)
        if track.phase is not SUSPENDED:
            raise IllegalEntry(f"job {job_id!r} holds no GPUs at t={self.now:g}")
        return track

    def _shape_for(self, track: Track) -> tuple[Shape, str]:
        """As `_shape_of`, with all that has become of the job since."""
        began_on = track.placement or track.left
        return self._shape_of(track.job, began_on, is_kept(track, track.job), self._tied_to(track))

    def _shape_of(
        self,
        job: Job,
        began_on: Placement | None = None,
        is_kept: bool = False,
        home: Home = (),
    ) -> tuple[Shape, str]:
        """What must be free for it, and why that can never be. Some jobs keep to the option they began
        with; some keep their CPUs and memory, and need GPUs alone; some can go on only at home."""
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
            ways, settled is not None, job.nodes, job.least_gpus, is_kept, home,
        )  # fmt: skip
        found = self._shapes.get(key)
        if found is None:
            full = self._shape_of(job, began_on)[0] if is_kept else None
            found = self.room.shaped(self._next_lane(), job, tenant, settled, full, home)
            self._shapes[key] = found
            shape = found[0]
            if job.simple and not (is_kept or home or found[1]) and not self.room.tenants_matter:
                self._simple_shapes[job.gpus] = shape
        return found

    def _tied_to(self, track: Track) -> Home:
        """Of jobs that are alike, who goes on where is for their group to say."""
        group = self._group_of(track) if track.tied else None
        is_tied = track.tied and not (group is not None and group.alike)
        return home_at(track.parked_at) if is_tied else ()

    def _shape_members(self) -> None:
        """Once their groups are known."""
        for track in self._tracks.values():
            if track.tied and track.job.member is not None:
                track.shape, _ = self._shape_for(track)

    def _next_lane(self) -> int:
        self._lanes += 1
        return self._lanes - 1

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
        tell = self._tell_wait
        if tell is not None:
            tell(track)

    def _line_up_if_allowed(self, track: Track) -> None:
        self._pin_as_usual(track)
        job = track.job
        if job.after or job.after_any or job.after_failed:
            self._await(track)
        group = self._group_of(track)
        if group is not None:
            self.kind(group.kind).joins(track)
        if not track.barred:
            self._line_up(track)

    def _pin_as_usual(self, track: Track) -> None:
        """As long as its world says nothing else of it."""
        group = self._group_of(track)
        if not track.job.preemptible:
            track.pinned = NOT_PREEMPTIBLE
        else:
            track.pinned = "" if group is None else self.kind(group.kind).pins

    def _line_up(self, track: Track) -> None:
        if track.job.member is not None and not self._has_place(track):
            return
        self.waiting_count += 1
        self._say_it_waits(track)

    def _say_it_waits(self, track: Track) -> None:
        tell = self._tell_wait
        if tell is not None:
            tell(track)

    def _say_it_runs(self, track: Track) -> None:
        tell = self._tell_run
        if tell is not None:
            tell(track)

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

    def _set_stranded(self, track: Track, why: str) -> None:
        """Keep a waiting job out of the queue because no node there is could run it; or no longer."""
        was_in_line = not track.barred
        track.stranded = why
        track.bar()
        self._line_up_or_park(track, was_in_line)

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

    def _step_out(self, track: Track) -> None:
        """Leave the queue, for good or to line up elsewhere in it."""
        if track.phase is SUSPENDED:
            self._suspend(-1)
        if not track.barred:
            self.waiting_count -= 1
        track.turn += 1

    def _park(self, track: Track) -> None:
        for index in self._on_park:
            index.parks(track)
        if track.job.member is not None and not track.benched:
            self._leave_line(track)

    # --------------------------------------------------------------------------------- dependencies

    def _await(self, track: Track) -> None:
        """Keep the job out of the queue until those it comes after have ended as it needs."""
        job = track.job
        for other in dict.fromkeys((*job.after, *job.after_any, *job.after_failed)):
            if other in self._tracks:
                track.awaits = (*track.awaits, other)
                self._dependants.setdefault(other, []).append(track)
                continue
            if other in self._seen:
                never = why_never_after(job, other, self._unfinished.get(other, FINISHED))
            else:
                never = f"it comes after job {other!r}, which is not known"
            if never:
                self.unplaceable[job.id] = never
                track.awaits = (*track.awaits, other)
        track.bar()

    def _tell_dependants(self, ended: Track) -> None:
        group = self._group_of(ended) if ended.job.last_step is not None else None
        spoilt = "" if group is None else self.kind(group.kind).why_not_after(ended)
        for track in self._dependants.pop(ended.job.id, ()):
            if track.ended_at >= 0:
                continue
            never = why_never_after(track.job, ended.job.id, ended.phase)
            if spoilt and track.job.group == ended.job.group:
                never = spoilt
            if never:
                self.unplaceable[track.job.id] = never
                continue
            track.awaits = tuple([other for other in track.awaits if other != ended.job.id])
            track.bar()
            if not track.barred:
                self._line_up(track)

    # ------------------------------------------------ groups, of which so many jobs may run at once

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

    def _swap(self, group: Group, out: Track, to_line: Track) -> None:
        self._bench(group, out)
        self.waiting_count -= 1
        out.turn += 1
        self._park(out)
        self._leave_bench(group, to_line)
        self._line_up(to_line)


def why_never_after(job: Job, other: JobId, phase: Phase) -> str:
    """Why the job can never start, now that the other one has ended so; "" if it can."""
    if phase is not FINISHED and other in job.after:
        return f"it comes after job {other!r}, which has ended ({phase.value})"
    if phase is FINISHED and other in job.after_failed:
        return f"{NOT_NEEDED} {other!r}, which has finished"
    return ""


def is_kept(track: Track, job: Job) -> bool:
    """Does it need fewer CPUs and less memory than it asks for, since they are its own already?"""
    return track.keeps is not None and (job.cpus > 0 or job.memory_gb > 0)
