"""From what users submit to what the scheduler and the local world know of it."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds, Shape
from dovetail.core.room import Room
from dovetail.core.view import View
from dovetail.daemon.history.submission_records import OF, array_of, record_in
from dovetail.daemon.slurm_tools import lay_out_tools
from dovetail.daemon.users.callers import Caller, user_name
from dovetail.daemon.users.job_owners import patiently, rights_of
from dovetail.home import Home
from dovetail.jobfiles import jobs
from dovetail.jobfiles.job_model import JobSpec, dump, read
from dovetail.jobfiles.launch import (
    STEPS,
    TOOLS,
    argv,
    scripts,
    slurm_environment,
    slurm_variables,
)
from dovetail.store import Store
from dovetail.workloads.study.kind import studies_of
from dovetail.worlds.local import keeper
from dovetail.worlds.local.keeper import LAUNCH
from dovetail.worlds.local.lives import CHECKPOINTS, REPORTS, Order
from dovetail.worlds.local.runs import Launch, Owner

LOG = "log"
_UNSAID = "unsaid"  # in the folder of a job whose submission is not in the journal yet
OUT, ERR = "out", "err"  # of a job that keeps them apart; the log holds both


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


def check_it_could_run(job: Job, view: View) -> None:
    if why := why_never(job, view):
        raise BadInput(f"job {job.name!r} could never run here: {why}")


class Book:
    """Keeps what the world must know to run a job, beside the journal. The environment lies in a
    file of its own, readable by nobody else, and goes when the job has ended."""

    def __init__(self, home: Home, store: Store) -> None:
        self._home = home
        self._store = store
        self._orders: dict[JobId, Order] = {}
        self._over: list[Path] = []  # environments that nobody needs any more
        self._unsaid: list[Path] = []  # marks in folders whose jobs are about to be in the journal
        self._members: dict[str, set[str]] = {}  # by array: those that have not ended

    def keep(self, member: Member, submission: Submission, caller: Caller) -> None:
        """What the members of an array have in common is kept once, under the array's number."""
        job_id = member.job.id
        array = array_of(job_id)
        record = self._common(member, submission, caller)
        if array not in self._members:
            environment = self._environment_of(member, submission)
            self._write_private(self._home.environment(array), environment)
            self._store.put_spec(array, json.dumps(record))
        if member.index is not None:
            own = {OF: array, "index": member.index}
            self._store.put_spec(job_id, json.dumps(own))
            self._members.setdefault(array, set()).add(job_id)
            record = {**record, **own}
        self._orders[job_id] = self._order(job_id, record, member.spec)

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
            own = slurm_environment(own, str(self._home.folder(array_of(member.job.id))))
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
        while self._home.folder(str(number)).exists():
            number += 1
        return number

    def forget_environment(self, job_id: str) -> None:
        """It goes once the journal has the end of the job on disk, see `sweep`: if we died before,
        the job would still be there, and want it."""
        self._orders.pop(JobId(job_id), None)
        self._over += _parts_of(self._home.stdin(job_id))
        array = array_of(job_id)
        left = self._members.get(array, set())
        left.discard(job_id)
        if not left:
            self._members.pop(array, None)
            self._over.append(self._home.environment(array))
        if array != job_id:
            self._over.append(self._home.environment(job_id))  # an earlier version kept one each

    def settle(self) -> None:
        """The journal is on disk: the jobs that were just taken on are known."""
        unsaid, self._unsaid = self._unsaid, []
        for mark in unsaid:
            mark.unlink(missing_ok=True)

    def drop_unsaid(self) -> None:
        """They are not taken on after all."""
        unsaid, self._unsaid = self._unsaid, []
        for mark in unsaid:
            job_id = mark.parent.name
            self._orders.pop(JobId(job_id), None)
            self._members.pop(array_of(job_id), None)
            self._store.forget("specs", job_id)
            shutil.rmtree(mark.parent, ignore_errors=True)

    def forget_what_was_never_said(self, folders: set[str], view: View) -> set[str]:
        """After a restart: folders of jobs that nobody was told of go. Returns which they were."""
        marked = [job_id for job_id in folders if (self._home.folder(job_id) / _UNSAID).exists()]
        never = {
            job_id for job_id in marked if job_id not in view.tracks and not self.knows(job_id)
        }
        for job_id in marked:
            if job_id in never:
                shutil.rmtree(self._home.folder(job_id), ignore_errors=True)
            else:
                (self._home.folder(job_id) / _UNSAID).unlink(missing_ok=True)
        return never

    def sweep(self) -> None:
        """Not on the caller's time: a busy disk may take milliseconds for each. A daemon that stops
        waits for it to be done."""
        if self._over:
            over, self._over = self._over, []
            try:
                threading.Thread(target=_remove, args=(over,), name="sweep").start()
            except RuntimeError:  # no thread is to be had: then on the caller's time
                _remove(over)

    def sweep_strays(self, view: View) -> None:
        """After a restart: environments whose job has ended, or was never taken on."""
        found = self._home.environments.glob("*.json")
        for job_id in view.tracks:
            if array_of(job_id) != job_id:
                self._members.setdefault(array_of(job_id), set()).add(job_id)
        known = {*view.tracks, *studies_of(view).open, *self._members}
        self._over += [path for path in found if path.stem not in known]
        for path in self._home.environments.glob("*.stdin"):
            self._over += _parts_of(path) if path.stem not in known else []
        self.sweep()

    def environment(self, job_id: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._home.environment(job_id).read_text("utf-8"))
        except FileNotFoundError:
            return None
        return found

    def record(self, job_id: str) -> dict[str, Any] | None:
        return record_in(self._store.spec, job_id)

    def log(self, job_id: str) -> Path:
        return self._home.folder(job_id) / LOG

    def order_for(self, job_id: JobId) -> Order:
        """Asked for when a job starts, gives way or ends."""
        order = self._orders.get(job_id)
        if order is None:
            record = self.record(job_id)
            found = self._as_launched(job_id) if record is None else self._order(job_id, record)
            if found is None:
                raise LookupError(f"job {job_id} was never submitted")
            order = self._orders[job_id] = found
        return order

    def knows(self, job_id: str) -> bool:
        """Was it ever submitted, as far as the journal and the run folders go?"""
        try:
            self.order_for(JobId(job_id))
        except LookupError:
            return False
        return True

    def _as_launched(self, job_id: str) -> Order | None:
        """What the journal has lost the run folder may know: as it was last launched."""
        folder = self._home.folder(job_id)
        launched = sorted(folder.glob(f"[0-9]*/{LAUNCH}"), key=lambda path: int(path.parent.name))
        if not launched:
            return None
        launch = Launch.from_json(launched[-1].read_text("utf-8"))
        if self._home.system and launch.uid is None:
            return None  # nobody knows any more whose it is
        return Order(launch, folder / CHECKPOINTS, launch.grace_s, True, False, False)

    def _order(self, job_id: str, record: Mapping[str, Any], spec: JobSpec | None = None) -> Order:
        spec = spec or read(record["spec"])
        folder, common = self._home.folder(job_id), record.get(OF, job_id)
        launch = Launch(
            argv=argv(spec, str(self._home.folder(common))),
            cwd=record["workdir"],
            env_file=self._home.environment(common),
            log=folder / LOG,
            env=self._variables(job_id, spec, record),
            grace_s=spec.checkpoint.grace,
            umask=record["umask"],
            out=folder / OUT if record.get("apart") else None,
            err=folder / ERR if record.get("apart") else None,
            stdin=self._home.stdin(job_id) if record.get("stdin") else None,
            look_up=lambda: patiently(lambda: self._owner(job_id, record)),
        )
        return Order(
            launch=launch,
            grace_s=spec.checkpoint.grace,
            preemptible=spec.preemptible is not False,
            restartable=spec.preemptible == "restart",
            saves_itself="checkpoint" in record["spec"],
            reads_output=bool(spec.group or spec.metric_pattern),
            metric_pattern=spec.metric_pattern or "",
            checkpoints=Path(record["workdir"], spec.checkpoint.dir)
            if spec.checkpoint.dir
            else folder / CHECKPOINTS,
            begins_from=self._checkpoints_of(record.get("begins_from")),
        )

    def _owner(self, job_id: str, record: Mapping[str, Any]) -> Owner | None:
        name = record.get("user") or user_name(record["uid"])  # earlier versions did not keep it
        me, shared = os.geteuid(), self._home.system
        return rights_of(record, job_id, name, daemon_uid=me, shared=shared)

    def _checkpoints_of(self, job_id: str | None) -> Path | None:
        return None if job_id is None else self.order_for(JobId(job_id)).checkpoints

    def _variables(self, job_id: str, spec: JobSpec, record: Mapping[str, Any]) -> dict[str, str]:
        found = {
            "DOVETAIL_JOB_NAME": record["name"],
            "DOVETAIL_SOCKET": str(self._home.socket),
            **slurm_variables(
                *(spec, job_id, record["name"]),
                *(record.get("submitted_in", record["workdir"]), record["index"]),
                record.get("array"),
            ),
        }
        if spec.slurm:
            found["SLURM_STEPS_FILE"] = str(self._home.folder(job_id) / STEPS)
        if record["index"] is not None:
            found["DOVETAIL_ARRAY_INDEX"] = str(record["index"])
        return found

    def prepare_folder(self, member: Member, caller: Caller) -> None:
        """The scripts of the job, in a folder that its owner can use."""
        folder = self._home.folder(member.job.id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        array = array_of(member.job.id)
        self._mark(folder)
        if array not in self._members:
            self._write_scripts(self._home.folder(array), member.spec, caller.uid)
            self._mark(self._home.folder(array))
        self._fill(folder, member.spec, caller.uid)

    def _mark(self, folder: Path) -> None:
        """Until the journal knows of it."""
        (folder / _UNSAID).touch(mode=0o600)
        self._unsaid.append(folder / _UNSAID)

    def prepare_again(self, job_id: str) -> None:
        """Its folder was lost before it ever ran."""
        record, folder = self.record(job_id), self._home.folder(job_id)
        if record is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            spec = read(record["spec"])
            self._write_scripts(self._home.folder(array_of(job_id)), spec, record["uid"])
            self._fill(folder, spec, record["uid"])

    def _fill(self, folder: Path, spec: JobSpec, uid: int) -> None:
        if spec.slurm:
            (folder / STEPS).touch(mode=0o600)
        (folder / REPORTS).touch(mode=0o600)
        (folder / CHECKPOINTS).mkdir(mode=0o700, exist_ok=True)
        if self._home.system:
            _give_to(uid, folder)

    def _write_scripts(self, folder: Path, spec: JobSpec, uid: int) -> None:
        """Once for an array, whose folder also keeps its number from being given again."""
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, text in scripts(spec).items():
            (folder / name).write_text(text, encoding="utf-8")
        if spec.slurm:
            lay_out_tools(folder / TOOLS)
        if self._home.system:
            _give_to(uid, folder)


def _parts_of(stdin: Path) -> list[Path]:
    return [stdin, *(Path(beside) for beside in keeper.beside_stdin(str(stdin)))]


def _joined(folder: str, inside: str) -> str:
    return os.path.join(folder, inside) if inside else folder


def _give_to(uid: int, folder: Path) -> None:
    """A job of another user reads its scripts and writes its reports and checkpoints. The folder
    itself stays ours: nobody else can put a link where we write."""
    folder.chmod(0o711)
    for path in _inside(folder):
        os.chown(path, uid, -1, follow_symlinks=False)


def _inside(folder: Path) -> Iterator[Path]:
    """But its runs, and the tools that we may write anew: those stay ours."""
    own = (path for path in folder.iterdir() if path.name != TOOLS)
    yield from (path for path in own if not path.name.isdigit())


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        with suppress(OSError):  # looked for again at the next start
            path.unlink(missing_ok=True)
