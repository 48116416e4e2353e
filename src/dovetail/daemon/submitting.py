"""How jobs come in: checked, expanded, taken on; and ended ones that are submitted once more."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dovetail.api.job_row import JobRow
from dovetail.api.wire import read
from dovetail.core.entries import Event, Held, Submitted
from dovetail.core.errors import BadInput
from dovetail.core.model import Job, Seconds
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.again import submission_again
from dovetail.daemon.arrays import Arrays
from dovetail.daemon.asking import Asking, Once, Parts
from dovetail.daemon.begins import Begins
from dovetail.daemon.dependencies import with_known_others
from dovetail.daemon.history.submission_records import (
    SubmissionRecord,
    array_of,
    is_of,
    record_in,
)
from dovetail.daemon.holds import HELD_BACK
from dovetail.daemon.refusals import Conflict, NotAllowed, NotFound
from dovetail.daemon.submissions import (
    Member,
    Submission,
    as_here,
    check_it_could_run,
    members,
)
from dovetail.daemon.terminals import Terminals
from dovetail.daemon.users.admission import Admission
from dovetail.daemon.users.callers import Caller
from dovetail.daemon.users.limits import PER_CHANGE, Allowed, Intake, size_of
from dovetail.daemon.users.workdir import check_folder, commit_there
from dovetail.jobfiles import jobs as spec_jobs
from dovetail.jobfiles.job_model import JobSpec
from dovetail.store import EndedJob, Filter


class Submitting(Asking):
    """Called from any thread."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.admission: Final = Admission(parts.limits, parts.desk, parts.reader, parts.clock.epoch)
        self.intake: Final = Intake(parts.limits)
        self.arrays: Final = Arrays(parts, self.admission)
        self.begins: Final = Begins(parts, self.admission)
        self.terminals: Final = Terminals(parts)

    def charge_change(self, caller: Caller) -> None:
        """Of something that is kept beside the jobs."""
        self.look(lambda view, now: self.intake.charge(caller.name, PER_CHANGE, view, now))

    # ---------------------------------------------------------------------------------- submitting

    def submit(
        self, submissions: Sequence[Submission], caller: Caller, once: Once | None = None
    ) -> list[str]:
        """All of them or none; the ids of their jobs, in order."""
        self._check_streams_and_folders(submissions, caller)

        def change(view: View, now: Seconds) -> tuple[list[Event], list[str]]:
            number = self.next_number()
            events: list[Event] = []
            parted = self._members(submissions, number, caller, view, now)
            self._charge(submissions, parted, caller, view, now)
            for submission, found in zip(submissions, parted, strict=True):
                events += self.take_on(found, submission, caller, view, now)
            number += len(parted)
            self._parts.store.set_meta("next_job", str(number))
            return events, [event.job.id for event in events if isinstance(event, Submitted)]

        return self.change(self.once(change, once))

    def checked(self, submissions: Sequence[Submission], caller: Caller) -> list[Job]:
        """The jobs that would be taken on; nothing is."""
        self._check_streams_and_folders(submissions, caller)

        def look(view: View, now: Seconds) -> list[Job]:
            parted = self._members(submissions, 0, caller, view, now)
            return [member.job for found in parted for member in found]

        return self.look(look)

    def again(self, job_id: str, changes: Mapping[str, Any], caller: Caller) -> Submission:
        """The submission of an ended job, or of an array, as it was but for the changes."""
        record, environment = self.record(job_id), self._parts.book.kept_environment(job_id)
        if record is None:
            raise NotFound(f"there is no job {job_id}")
        if record.user != caller.name:
            raise NotAllowed(
                f"job {job_id} is {record.user}'s: only {record.user} may run it again"
            )
        live = self.look(lambda view, now: [own for own in view.tracks if is_of(own, job_id)])
        if live:
            raise Conflict(f"job {live[0]} has not ended; dovetail requeue lets it start over")
        if environment is None:
            raise Conflict(f"the environment of job {job_id} is not kept any more; submit it anew")
        here = self._parts.world.shelf.is_of_this_machine
        found = submission_again(record, environment, changes, here)
        folder = (found.workdir, found.spec.workdir or "")
        return replace(found, commit=commit_there(*folder, caller) if here else None)

    def _check_streams_and_folders(self, submissions: Sequence[Submission], caller: Caller) -> None:
        for submission in submissions:
            if submission.stdin and submission.spec.array is not None:
                raise BadInput("stdin: the members of an array have none; pass files instead")
            if submission.terminal is not None:
                self._check_terminal(submission)
        for folder in {(s.workdir, s.spec.workdir) for s in submissions if not s.spec.after}:
            self.check_folder(*folder, caller)  # jobs that come after others may find it made

    def _check_terminal(self, submission: Submission) -> None:
        if submission.spec.array is not None:
            raise BadInput("terminal: the members of an array have none; submit one job")
        if self._parts.world.consoles is None:
            raise BadInput(
                "terminal: jobs of this cluster have none; submit one that sleeps, and use kubectl "
                "exec -it with its pod"
            )

    def check_folder(self, folder: str, inside: str, caller: Caller) -> None:
        """Check the working folder; one on another machine is looked for when the job starts there."""
        if self._parts.world.shelf.is_of_this_machine:
            check_folder(folder, inside, caller)

    def _members(
        self,
        submissions: Sequence[Submission],
        number: int,
        caller: Caller,
        view: View,
        now: Seconds,
    ) -> list[list[Member]]:
        """The jobs of each submission, if all of them may be taken on; nothing is written yet."""
        limits, epoch = self._parts.limits, self._parts.clock.epoch
        parted = []
        for own, submission in enumerate(submissions, number):
            found = members(submission, own, caller.name, now, epoch)
            jobs = limits.checked([member.job for member in found], caller, view)
            found = [replace(member, job=job) for member, job in zip(found, jobs, strict=True)]
            found = [self._with_known_others(member, view) for member in found]
            check_it_could_run(found[0].job, view, self.why_not(caller, found[0]))
            parted.append(found)
        limits.check_number(sum(map(len, parted)), caller.name, view)
        return parted

    def _charge(
        self,
        submissions: Sequence[Submission],
        parted: Sequence[Sequence[Member]],
        caller: Caller,
        view: View,
        now: Seconds,
    ) -> None:
        if self._parts.limits.shared:
            sizes = [size_of(*own) for own in zip(submissions, map(len, parted), strict=True)]
            self.intake.charge(caller.name, sum(sizes), view, now)

    def proposed(self, spec: JobSpec, caller: Caller) -> Job:
        """The job that would be taken on, under a number that none has."""
        if spec.array is not None:
            raise BadInput("array: what-if looks at one job; leave the array out")

        def look(view: View, now: Seconds) -> Job:
            asked = Submission(spec, {}, "/")
            (member,) = members(asked, 0, caller.name, now, self.clock.epoch)
            job = self._with_known_others(member, view).job
            (job,) = self._parts.limits.checked([job], caller, view)
            check_it_could_run(job, view, self.why_not(caller, member))
            return job

        return self.look(look)

    def why_not(self, caller: Caller, member: Member) -> str:
        """Why the world could never run it, as far as its order goes; "" if it could."""
        asked = Submission(member.spec, {}, "/")
        return self._parts.world.why_not(self._parts.book.proposed(member, asked, caller))

    def allowed(self, caller: Caller) -> Allowed:
        """The changes that `why` and `whatif` may suggest to the caller."""
        return self.look(lambda view, now: self._parts.limits.allowed(caller, view))

    def next_number(self) -> int:
        return self._parts.book.free_number(int(self._parts.store.meta("next_job") or "1"))

    def _with_known_others(self, member: Member, view: View) -> Member:
        """Jobs it comes after that have ended no longer matter. Of its options those count that this
        machine has."""
        job = with_known_others(member.job, lambda other: self._phase_of(other, view))
        return replace(member, job=as_here(job, view.room))

    def _phase_of(self, job_id: str, view: View) -> str | None:
        if job_id in view.tracks:
            return "waiting"
        row = self._ended_row(job_id)
        return None if row is None else row.phase

    def take_on(
        self,
        found: Sequence[Member],
        submission: Submission,
        caller: Caller,
        view: View,
        now: Seconds,
    ) -> Iterable[Event]:
        limit = spec_jobs.at_once(submission.spec) or len(found)
        for member in found:
            self._parts.book.keep(member, submission, caller)
            if submission.terminal is not None:
                self.terminals.open(member.job.id, submission.terminal.linger_s)
            yield Submitted(now, member.job)
        yield from self.arrays.held([member.job.id for member in found[limit:]], limit, now)
        first = [member.job.id for member in found[:limit]]
        begin = spec_jobs.due(submission.spec.begin, self.clock.unix(now))
        if submission.spec.hold:
            yield from (Held(now, job_id, HELD_BACK) for job_id in first)
        elif begin is not None and begin > self.clock.unix(now):
            yield from self.begins.held(first, begin, now)
        else:
            yield from self.admission.held(first, caller.name, view, now)

    def ended(self, track: Track, view: View) -> None:
        """Its environment is removed; its array and other jobs of its user may go on."""
        self.admission.ended(track, view, self.clock.unix(track.ended_at))
        self.terminals.close(track.job.id)
        is_trial = track.job.member is not None
        self._parts.book.forget_environment(track.job.id, keeps=not is_trial)
        self.arrays.fill(array_of(track.job.id))

    @staticmethod
    def row_of_ended(ended: EndedJob) -> JobRow:
        return read(JobRow, json.loads(ended.row))

    def _ended_row(self, job_id: str) -> JobRow | None:
        found = self._parts.reader.history(Filter(job_id=job_id), 1)
        return self.row_of_ended(found[0]) if found else None

    def record(self, job_id: str) -> SubmissionRecord | None:
        """As it was submitted, without the environment."""
        return record_in(self._parts.reader.spec, job_id)
