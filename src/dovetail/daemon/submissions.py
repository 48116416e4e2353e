"""From what users submit to what the scheduler and its world know of it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds, Shape
from dovetail.core.room import Room
from dovetail.core.view import View
from dovetail.daemon.history.submission_records import OF, array_of, record_in
from dovetail.daemon.users.callers import Caller, user_name
from dovetail.daemon.users.job_owners import patiently, rights_of
from dovetail.home import Home
from dovetail.jobfiles import jobs
from dovetail.jobfiles.job_model import JobSpec, dump, read
from dovetail.jobfiles.launch import argv, scripts, slurm_variables, without_slurm
from dovetail.store import Store
from dovetail.workloads.study.kind import studies_of
from dovetail.worlds.world import Order, Shelf, UserAccount


@dataclass(frozen=True, slots=True)
class Submission:
    """What a user hands in: a description, and the environment and folder it was made in."""

    spec: JobSpec
    environment: Mapping[str, str]
    workdir: str
    umask: int = 0o022
    apart: bool = False  # output and errors are wanted each alone, too
    stdin: bool = False  # its standard input will be sent


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
    """What it needs, of a job that is not on record."""
    return _shaped(job, view)[0]


def _shaped(job: Job, view: View) -> tuple[Shape, str]:
    return view.room.shaped(0, job, job.tenant if view.room.tenants_matter else "")


def check_it_could_run(job: Job, view: View, why: str = "") -> None:
    """`why` not, as its world has it: known before its GPUs are looked at."""
    if why := why or why_never(job, view):
        raise BadInput(f"job {job.name!r} could never run here: {why}")


class Book:
    """Keeps what a world must know to run a job, beside the journal. The environment lies in a
    file of its own, readable by nobody else, and goes when the job has ended."""

    def __init__(self, home: Home, store: Store, shelf: Shelf) -> None:
        self._home = home
        self._store = store
        self._shelf = shelf
        self._orders: dict[JobId, Order] = {}
        self._over: list[str] = []  # whose environment and standard input nobody needs any more
        self._members: dict[str, set[str]] = {}  # by array: those that have not ended

    def keep(self, member: Member, submission: Submission, caller: Caller) -> None:
        """What the members of an array have in common is kept once, under the array's number."""
        job_id = member.job.id
        array = array_of(job_id)
        record = self._common(member, submission, caller)
        own = {} if member.index is None else {OF: array, "index": member.index}
        order = order_of(job_id, {**record, **own}, member.spec)
        self._shelf.take_on(order, UserAccount(caller.uid, -1, caller.groups))
        self._orders[job_id] = order
        if array not in self._members:
            environment = self._environment_of(member, submission)
            self._write_private(self._home.environment(array), environment)
            self._store.put_spec(array, json.dumps(record))
        if own:
            self._store.put_spec(job_id, json.dumps(own))
            self._members.setdefault(array, set()).add(job_id)

    def proposed(self, member: Member, submission: Submission, caller: Caller) -> Order:
        """As it would be kept."""
        own = {} if member.index is None else {OF: array_of(member.job.id), "index": member.index}
        record = {**self._common(member, submission, caller), **own}
        return order_of(member.job.id, record, member.spec)

    @staticmethod
    def _common(member: Member, submission: Submission, caller: Caller) -> dict[str, Any]:
        without_secrets = member.spec.model_copy(update={"envs": {}})
        record = {
            "spec": dump(without_secrets),
            "workdir": _joined(submission.workdir, member.spec.workdir),
            "umask": submission.umask,
            "index": None,
            "uid": caller.uid,
            "gid": caller.gid,
            "user": caller.name,
            "name": member.job.name,
        }
        if (at_once := jobs.at_once(submission.spec)) is not None:
            record["at_once"] = at_once
        if member.begins_from is not None:
            record["begins_from"] = member.begins_from
        record.update({name: True for name in ("apart", "stdin") if getattr(submission, name)})
        if member.spec.slurm:
            record.update(submitted_in=submission.workdir, array=submission.spec.array)
        return record

    def _environment_of(self, member: Member, submission: Submission) -> dict[str, str]:
        # What a trial prints is heard: it must not wait in Python's buffer until the trial ends.
        heard = {"PYTHONUNBUFFERED": "1"} if member.job.member is not None else {}
        own = submission.environment
        if member.spec.slurm:
            own = without_slurm(own)
        return {**heard, **own, **member.spec.envs}

    @staticmethod
    def _write_private(path: Path, content: Mapping[str, Any]) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(dict(content)))  # ten times as fast as json.dump

    def keep_study(self, study_id: str, kept: Mapping[str, Any]) -> None:
        """What its later trials will need: the environment and folder that it was opened in. It may
        hold secrets, and goes when the study is over."""
        self._write_private(self._home.environment(study_id), kept)

    def study(self, study_id: str) -> dict[str, Any] | None:
        return self.environment(study_id)

    def free_number(self, number: int) -> int:
        """The next one of which nothing is left; a journal that was cut may have forgotten some."""
        while self._shelf.holds(str(number)):
            number += 1
        return number

    def forget_environment(self, job_id: str) -> None:
        """It goes once the journal has the end of the job on disk, see `sweep`: if we died before,
        the job would still be there, and want it."""
        self._orders.pop(JobId(job_id), None)
        self._over.append(job_id)
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
        """They are not taken on after all."""
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
                self._home.environment(job_id).unlink(missing_ok=True)

    def sweep_strays(self, view: View) -> None:
        """After a restart: environments whose job has ended, or was never taken on."""
        found = self._home.environments.glob("*.json")
        for job_id in view.tracks:
            if array_of(job_id) != job_id:
                self._members.setdefault(array_of(job_id), set()).add(job_id)
        known = {*view.tracks, *studies_of(view).open, *self._members}
        # At once: a number of which nothing is left in the journal may be given again.
        self._remove([path.stem for path in found if path.stem not in known])
        self._shelf.all_ended_but(known)

    def environment(self, job_id: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._home.environment(job_id).read_text("utf-8"))
        except FileNotFoundError:
            return None
        return found

    def record(self, job_id: str) -> dict[str, Any] | None:
        return record_in(self._store.spec, job_id)

    def order_for(self, job_id: JobId) -> Order:
        """Asked for when a job starts, gives way or ends."""
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
        """Whose rights it has; asked for when it is about to run. It may take a while."""
        record = self.record(job_id)
        if record is None:
            launched = self._shelf.as_launched(job_id)
            return None if launched is None else launched[1]
        found = record
        return patiently(lambda: self._account(job_id, found))

    def _account(self, job_id: str, record: Mapping[str, Any]) -> UserAccount | None:
        name = record.get("user") or user_name(record["uid"])  # earlier versions did not keep it
        me, shared = os.geteuid(), self._home.system
        return rights_of(record, job_id, name, daemon_uid=me, shared=shared)

    def environment_of(self, kept_under: str) -> Mapping[str, str]:
        return self.environment(kept_under) or {}

    def prepare_again(self, job_id: str) -> None:
        """Its folder was lost before it ever ran."""
        record = self.record(job_id)
        if record is not None:
            self._shelf.repair(order_of(job_id, record), UserAccount(record["uid"], -1, ()))

    def knows(self, job_id: str) -> bool:
        """Was it ever submitted, as far as the journal and the run folders go?"""
        try:
            self.order_for(JobId(job_id))
        except LookupError:
            return False
        return True


def order_of(job_id: str, record: Mapping[str, Any], spec: JobSpec | None = None) -> Order:
    """What was submitted as what a world is told."""
    spec = spec or read(record["spec"])
    begins_from = record.get("begins_from")
    return Order(
        job_id=JobId(job_id),
        argv=argv(spec),
        env=_variables(job_id, spec, record),
        workdir=record["workdir"],
        owner=record.get("user", ""),
        scripts=scripts(spec),
        shared_by=JobId(record[OF]) if OF in record else None,
        umask=record["umask"],
        streams_apart=bool(record.get("apart")),
        has_stdin=bool(record.get("stdin")),
        is_slurm=spec.slurm,
        grace_s=spec.checkpoint.grace,
        preemptible=spec.preemptible is not False,
        restartable=spec.preemptible == "restart",
        saves_itself="checkpoint" in record["spec"],
        nodes=spec.nodes,
        checkpoint_dir=spec.checkpoint.dir or "",
        begins_from=None if begins_from is None else JobId(begins_from),
        reads_output=bool(spec.group or spec.metric_pattern),
        metric_pattern=spec.metric_pattern or "",
    )


def _variables(job_id: str, spec: JobSpec, record: Mapping[str, Any]) -> dict[str, str]:
    found = {
        "DOVETAIL_JOB_NAME": record["name"],
        **slurm_variables(
            *(spec, job_id, record["name"]),
            *(record.get("submitted_in", record["workdir"]), record["index"]),
            record.get("array"),
        ),
    }
    if record["index"] is not None:
        found["DOVETAIL_ARRAY_INDEX"] = str(record["index"])
    return found


def _joined(folder: str, inside: str) -> str:
    return os.path.join(folder, inside) if inside else folder
