"""From a submission to the job that the scheduler knows and the order that its world gets."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from dovetail.api.wire import read as read_row
from dovetail.api.wire import text_of
from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.view import View
from dovetail.daemon.history.submission_records import (
    SubmissionRecord,
    array_of,
    member_text,
    record_in,
)
from dovetail.daemon.users.callers import Caller, user_name
from dovetail.daemon.users.job_owners import patiently, rights_of
from dovetail.home import Home
from dovetail.jobfiles import jobs
from dovetail.jobfiles.job_model import JobSpec, dump, read
from dovetail.jobfiles.launch import argv, scripts, slurm_variables, without_slurm
from dovetail.store import Store
from dovetail.workloads.service.kind import services_of
from dovetail.workloads.study.kind import studies_of
from dovetail.worlds.images import READ_ONLY
from dovetail.worlds.world import Order, Shelf, UserAccount, Volume


class Terminal(NamedTuple):
    """It runs in a terminal, and is ended once nobody has looked at that for so long."""

    rows: int
    columns: int
    linger_s: Seconds


@dataclass(frozen=True, slots=True)
class Submission:
    """The description of a job, with the environment and the folder in which it was submitted."""

    spec: JobSpec
    environment: Mapping[str, str]
    workdir: str
    umask: int = 0o022
    apart: bool = False  # output and errors are wanted each alone, too
    stdin: bool = False  # its standard input will be sent
    commit: str | None = None  # of its folder, if Git keeps that
    terminal: Terminal | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """A study or a service as its user submits it."""

    spec: object
    environment: dict[str, str]
    workdir: str
    umask: int = 0o022

    def shell(self, envs: Mapping[str, str], caller: Caller) -> OpeningShell:
        """For later jobs of it; `envs` are those of its description."""
        return OpeningShell(
            environment=dict(self.environment),
            envs=dict(envs),
            workdir=self.workdir,
            umask=self.umask,
            uid=caller.uid,
            gid=caller.gid,
            groups=list(caller.groups),
        )


@dataclass(frozen=True, kw_only=True)
class OpeningShell:
    """The shell that a study or a service was opened in, for later jobs of it. It may hold secrets."""

    environment: dict[str, str]
    envs: dict[str, str]
    workdir: str
    umask: int
    uid: int
    gid: int | None
    groups: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Member:
    """One job of a submission: itself, or one index of its array."""

    job: Job
    spec: JobSpec
    index: int | None
    begins_from: JobId | None = None  # its checkpoints are a copy of that job's


def members(
    submission: Submission, number: int, user: str, now: Seconds, epoch: float
) -> list[Member]:
    """The jobs that a submission stands for, numbered from its number."""
    if submission.spec.profile is not None:
        raise BadInput("profile: its file is read where the job is submitted; send options")
    jobs.still_due(submission.spec.deadline, epoch + now)
    found = []
    for index, spec in jobs.expand(submission.spec):
        job_id = str(number) if index is None else f"{number}.{index}"
        job = jobs.to_job(spec, job_id, user, epoch + now)
        if job.deadline is not None:
            job = replace(job, deadline=job.deadline - epoch)
        found.append(Member(job, spec, index))
    return found


def as_here(job: Job, room: Room) -> Job:
    """The job, asking for the fewest GPUs of those options that this machine can give it; as it is if
    there is none, and then it is refused."""
    widest: dict[str, int] = {}
    for n, node in enumerate(room.nodes):
        if n not in room.gone:
            widest[node.kind] = max(node.gpus, widest.get(node.kind, 0))
    usable = [option for option in job.options if option.gpus <= widest.get(option.kind, 0)]
    if not usable:
        return job
    gpus = min([option.gpus for option in usable])
    kinds = tuple([option.kind for option in usable if option.gpus == gpus])
    ranked = sorted(job.options, key=lambda o: (o.gpus != gpus or o.kind not in kinds, o))
    return replace(job, gpus=gpus, kinds=kinds, options=tuple(ranked))


def why_never(job: Job, view: View) -> str:
    """Why it could not run on this machine even if nobody else were there; "" if it could."""
    return _shaped(job, view)[1]


def shape_of(job: Job, view: View) -> Shape:
    """The shape of a job that is not in the state."""
    return _shaped(job, view)[0]


def _shaped(job: Job, view: View) -> tuple[Shape, str]:
    return view.room.shaped(0, job, job.tenant if view.room.tenants_matter else "")


def check_it_could_run(job: Job, view: View, why: str = "") -> None:
    """`why` not, as its world has it: known before its GPUs are looked at."""
    if why := why or why_never(job, view):
        raise BadInput(f"job {job.name!r} could never run here: {why}")


class Book:
    """Keeps what a world must know to run a job, beside the journal. The environment lies in a
    file of its own, readable by nobody else; that of an ended job goes with the job's folder."""

    def __init__(
        self, home: Home, store: Store, shelf: Shelf, keeps_environments: bool = True
    ) -> None:
        self._home = home
        self._store = store
        self._shelf = shelf
        self._keeps_environments = keeps_environments
        self._orders: dict[JobId, Order] = {}
        self._over: list[str] = []  # whose environment and standard input no run needs any more
        self._to_keep: set[str] = set()  # of these, whose environment another run may need
        self._members: dict[str, set[str]] = {}  # by array: those that have not ended

    def keep(self, member: Member, submission: Submission, caller: Caller) -> None:
        """The common part of an array is kept once, under the array's number."""
        job_id = member.job.id
        array = array_of(job_id)
        record = self._record_of(member, submission, caller)
        order = order_of(job_id, record.member(array, member.index), member.spec)
        self._shelf.take_on(order, UserAccount(caller.uid, -1, caller.groups))
        self._orders[job_id] = order
        if array not in self._members:
            environment = self._environment_of(member, submission)
            self._write_private(self._home.environment(array), environment)
            self._store.put_spec(array, record.to_text())
        if member.index is not None:
            self._store.put_spec(job_id, member_text(array, member.index))
            self._members.setdefault(array, set()).add(job_id)

    def proposed(self, member: Member, submission: Submission, caller: Caller) -> Order:
        """As it would be kept; of its own variables the names."""
        record = self._record_of(member, submission, caller)
        own = record.member(array_of(member.job.id), member.index)
        order = order_of(member.job.id, own, member.spec)
        env = {**dict.fromkeys(member.spec.envs, ""), **order.env}
        return replace(order, env=env, tenant=member.job.tenant)

    @staticmethod
    def _record_of(member: Member, submission: Submission, caller: Caller) -> SubmissionRecord:
        is_slurm = member.spec.slurm
        return SubmissionRecord(
            spec=dump(member.spec.model_copy(update={"envs": {}})),  # those may be secrets
            workdir=_joined(submission.workdir, member.spec.workdir),
            umask=submission.umask,
            uid=caller.uid,
            gid=caller.gid,
            user=caller.name,
            name=member.job.name,
            at_once=jobs.at_once(submission.spec),
            begins_from=member.begins_from,
            apart=submission.apart,
            stdin=submission.stdin,
            submitted_in=submission.workdir if is_slurm else None,
            array=submission.spec.array,
            commit=submission.commit,
            terminal=list(submission.terminal) if submission.terminal is not None else None,
        )

    def _environment_of(self, member: Member, submission: Submission) -> dict[str, str]:
        # What a trial prints is heard: it must not wait in Python's buffer until the trial ends.
        heard = {"PYTHONUNBUFFERED": "1"} if member.job.member is not None else {}
        own = submission.environment
        if member.spec.image or not self._shelf.is_of_this_machine:
            own = {}  # programs and paths of here are not those of there
        elif member.spec.slurm:
            own = without_slurm(own)
        return {**heard, **own, **member.spec.envs}

    @staticmethod
    def _write_private(path: Path, content: object) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text_of(content))  # ten times as fast as json.dump

    def keep_shell(self, group_id: str, shell: OpeningShell) -> None:
        """It is removed when the study or service is closed."""
        self._write_private(self._home.environment(group_id), shell)

    def shell(self, group_id: str) -> OpeningShell | None:
        found = self._private(group_id)
        return None if found is None else read_row(OpeningShell, found)

    def free_number(self, number: int) -> int:
        """The next one of which nothing is left; a journal that was cut may have forgotten some."""
        while self._shelf.holds(str(number)):
            number += 1
        return number

    def forget_environment(self, job_id: str, keeps: bool = False) -> None:
        """It goes once the journal has the end of the job on disk, see `sweep`: if we died before,
        the job would still be there, and want it. `keeps`: for another run, it goes into the job's
        folder, and goes for good with that."""
        self._orders.pop(JobId(job_id), None)
        self._over.append(job_id)
        if keeps and self._keeps_environments:
            self._to_keep.add(array_of(job_id))
        array = array_of(job_id)
        left = self._members.get(array, set())
        left.discard(job_id)
        if not left:
            self._members.pop(array, None)
            self._over.append(array)

    def settle(self) -> None:
        """The journal is on disk: the jobs that were just taken on are known."""
        self._shelf.settle()

    def drop_unsettled(self) -> None:
        """Remove the files of jobs that are not accepted after all."""
        for job_id in self._shelf.drop():
            self._orders.pop(job_id, None)
            self._members.pop(array_of(job_id), None)
            self._store.forget("specs", job_id)

    def sweep(self) -> None:
        """Not on the caller's time: a busy disk may take milliseconds for each. A daemon that stops
        waits for it to be done."""
        if self._over:
            over, self._over = self._over, []
            try:
                threading.Thread(target=self._remove, args=(over,), name="sweep").start()
            except RuntimeError:  # no thread is to be had: then on the caller's time
                self._remove(over)

    def _remove(self, over: Sequence[str]) -> None:
        """An earlier version kept an environment for each member of an array."""
        for job_id in over:
            self._shelf.ended(job_id)
            with suppress(OSError):  # looked for again at the next start
                if job_id in self._to_keep:
                    self._to_keep.discard(job_id)
                    self._keep_for_later(job_id)
                self._home.environment(job_id).unlink(missing_ok=True)

    def _keep_for_later(self, job_id: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):  # its folder is gone: so is this
            self._home.environment(job_id).rename(self._home.environment_of_ended(job_id))

    def kept_environment(self, job_id: str) -> Mapping[str, str] | None:
        """Of a job that has ended; None: it is not kept any more."""
        try:
            text = self._home.environment_of_ended(array_of(job_id)).read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        found: Mapping[str, str] = json.loads(text)
        return found

    def sweep_strays(self, view: View) -> None:
        """After a restart: environments whose job has ended, or was never taken on."""
        found = self._home.environments.glob("*.json")
        for job_id in view.tracks:
            if array_of(job_id) != job_id:
                self._members.setdefault(array_of(job_id), set()).add(job_id)
        known = {*view.tracks, *studies_of(view).open, *services_of(view).open, *self._members}
        # At once: a number of which nothing is left in the journal may be given again.
        self._remove([path.stem for path in found if path.stem not in known])
        self._shelf.all_ended_but(known)

    def _private(self, kept_under: str) -> Any:
        try:
            return json.loads(self._home.environment(kept_under).read_text("utf-8"))
        except FileNotFoundError:
            return None

    def environment_of(self, kept_under: str) -> Mapping[str, str]:
        return self._private(kept_under) or {}

    def record(self, job_id: str) -> SubmissionRecord | None:
        return record_in(self._store.spec, job_id)

    def order_for(self, job_id: JobId) -> Order:
        """What the world needs in order to run the job; asked for when it starts, gives way or
        ends."""
        order = self._orders.get(job_id)
        if order is None:
            record = self.record(job_id)
            if record is not None:
                order = order_of(job_id, record)
            elif (launched := self._shelf.as_launched(job_id)) is not None:
                order = launched[0]
            else:
                raise LookupError(f"job {job_id} was never submitted")
            self._orders[job_id] = order
        return order

    def account_of(self, job_id: JobId) -> UserAccount | None:
        """The account that it runs as; asked when it is about to start. It may take a while."""
        record = self.record(job_id)
        if record is None:
            launched = self._shelf.as_launched(job_id)
            return None if launched is None else launched[1]
        found = record
        return patiently(lambda: self._account(job_id, found))

    def _account(self, job_id: str, record: SubmissionRecord) -> UserAccount | None:
        name = record.user or user_name(record.uid or 0)
        me, shared = os.geteuid(), self._home.system
        return rights_of(record, job_id, name, daemon_uid=me, shared=shared)

    def prepare_again(self, job_id: str) -> None:
        """Its folder was lost before it ever ran."""
        record = self.record(job_id)
        if record is not None:
            self._shelf.repair(order_of(job_id, record), UserAccount(record.uid or 0, -1, ()))

    def knows(self, job_id: str) -> bool:
        """Was it ever submitted, as far as journal and run folders tell?"""
        try:
            self.order_for(JobId(job_id))
        except LookupError:
            return False
        return True


def order_of(job_id: str, record: SubmissionRecord, spec: JobSpec | None = None) -> Order:
    """A submission as the world is told of it."""
    spec = spec or read(record.spec)
    return Order(
        job_id=JobId(job_id),
        argv=argv(spec),
        env=_variables(job_id, spec, record),
        workdir=record.workdir,
        owner=record.user,
        tenant=spec.tenant,
        scripts=scripts(spec),
        shared_by=None if record.of is None else JobId(record.of),
        umask=record.umask,
        streams_apart=record.apart,
        output=_file_name(spec.output, job_id, record),
        error=_file_name(spec.error, job_id, record),
        has_stdin=record.stdin,
        terminal=_size(record),
        is_slurm=spec.slurm,
        grace_s=spec.checkpoint.grace,
        preemptible=spec.preemptible is not False,
        restartable=spec.preemptible == "restart",
        saves_itself="checkpoint" in record.spec or spec.elastic is not None,
        image=spec.image,
        volumes=tuple(
            Volume(claim.removesuffix(READ_ONLY), path, claim.endswith(READ_ONLY))
            for path, claim in spec.volumes.items()
        ),
        service_account=spec.service_account,
        nodes=spec.nodes,
        gpus=spec.gpus,
        checkpoint_dir=spec.checkpoint.dir or "",
        begins_from=record.begins_from,
        reads_output=bool(spec.group or spec.metric_pattern),
        metric_pattern=spec.metric_pattern or "",
    )


def _size(record: SubmissionRecord) -> tuple[int, int] | None:
    return None if record.terminal is None else (int(record.terminal[0]), int(record.terminal[1]))


def _variables(job_id: str, spec: JobSpec, record: SubmissionRecord) -> dict[str, str]:
    folder = record.submitted_in or record.workdir
    slurm = slurm_variables(spec, job_id, record.name, folder, record.index, record.array)
    found = {"DOVETAIL_JOB_NAME": record.name, **slurm}
    if record.index is not None:
        found["DOVETAIL_ARRAY_INDEX"] = str(record.index)
    return found


def _file_name(pattern: str, job_id: str, record: SubmissionRecord) -> str:
    """With the job's own words in place of %j, %A, %a, %x and %u; no slash comes in by a name."""
    signs = {
        "%": "%",
        "j": job_id,
        "J": job_id,
        "A": array_of(job_id),
        "a": "0" if record.index is None else str(record.index),
        "x": record.name.replace("/", "_"),
        "u": record.user,
    }
    return re.sub("%(.)", lambda found: signs.get(found[1], found[0]), pattern)


def _joined(folder: str, inside: str) -> str:
    return os.path.join(folder, inside) if inside else folder
