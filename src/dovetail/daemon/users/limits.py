"""How much each user of a shared box may have, which tenants they may name, and whom to ask for more.

On a box of one user there are no limits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from dovetail.core.errors import BadInput
from dovetail.core.model import EVERYBODY, WHOLE_GPU, Job, Limit, Seconds, Tenant
from dovetail.core.view import View
from dovetail.daemon.refusals import NotAllowed
from dovetail.daemon.submissions import Submission
from dovetail.daemon.users import system_accounts as accounts
from dovetail.daemon.users.callers import Caller
from dovetail.jobfiles.job_model import dump

# Where nobody has said anything: enough for people, too little to fill a disk or to jump the queue.
USUAL: Final = Limit(
    EVERYBODY, queued=10_000.0, running=inf, gpus=inf, gpu_hours=inf, priority=0.0, megabytes=1000.0
)
HOURS_WITHIN_S: Final = 30 * 86400.0
NAMES: Final = ("queued", "running", "gpus", "gpu_hours", "priority", "megabytes")
DAY_S: Final = 86400.0
PER_JOB: Final = 2000  # bytes of entries, and of files that are there for every job
PER_CHANGE: Final = 500


@dataclass(frozen=True, slots=True)
class Bounds:
    """A user's limits with every number filled in."""

    queued: float
    running: float
    gpus: float
    gpu_hours: float
    priority: float
    megabytes: float

    @property
    def at_work(self) -> bool:
        """Is there a limit on what may be in line or at work at once?"""
        return min(self.running, self.gpus, self.gpu_hours) < inf


@dataclass(frozen=True, slots=True)
class Allowed:
    """The limits of the caller: no change is suggested that would be refused."""

    priority: float = inf
    gpus: float = inf
    user: str | None = None  # whose jobs they may pause; None: everybody's

    def pauses(self, job: Job) -> bool:
        return self.user is None or job.user == self.user

    def passing(self, view: View, own: float) -> list[float]:
        """The priorities above `own` that pass somebody, and the highest there may be."""
        steps = {min(t.job.priority + 1, self.priority) for t in view.tracks.values()}
        return sorted([step for step in steps if step > own])


ALL: Final = Allowed()


class Limits:
    """`admins` is the name of the group that administers, "" if root does alone."""

    def __init__(self, shared: bool, admins: str = "") -> None:
        self.shared: Final = shared
        self.ask: Final = (
            f"ask an administrator (root, or a member of group {admins})"
            if admins
            else "ask an administrator (root)"
        )

    def of(self, user: str, view: View) -> Bounds:
        own, common = view.limits.get(user), view.limits.get(EVERYBODY)

        def bound(name: str) -> float:
            for limit in (own, common, USUAL):
                value = None if limit is None else getattr(limit, name)
                if value is not None:
                    return float(value)
            return inf

        if not self.shared:
            return Bounds(inf, inf, inf, inf, inf, inf)
        return Bounds(*map(bound, NAMES))

    def allowed(self, caller: Caller, view: View) -> Allowed:
        """The limits for suggestions to the caller."""
        if caller.admin:
            return ALL
        bounds = self.of(caller.name, view)
        return Allowed(bounds.priority, bounds.gpus, caller.name)

    # ------------------------------------------------------------------------------------ new jobs

    def checked(self, jobs: Sequence[Job], caller: Caller, view: View) -> list[Job]:
        """The jobs with the tenant they count for, unless the caller may not have them."""
        if not self.shared:
            return list(jobs)
        bounds = self.of(caller.name, view)
        self.check_number(len(jobs), caller.name, view)
        for job in jobs:
            self.check_priority(job.priority, caller, view)
            self._check_size(job, bounds, caller.name)
        return [
            replace(narrowed(job, bounds.gpus), tenant=self.tenant_for(caller, job.tenant, view))
            for job in jobs
        ]

    def check_number(self, more: int, user: str, view: View) -> None:
        most = self.of(user, view).queued
        if most == inf:
            return
        there = sum(track.job.user == user for track in view.tracks.values())
        if there + more > most:
            raise NotAllowed(
                f"{user} may have {most:,.0f} jobs that have not ended; {there:,} are there and "
                f"{more:,} more are asked for: wait, cancel some, or {self.ask}"
            )

    def check_priority(
        self, priority: float, caller: Caller, view: View, as_is: float = -inf
    ) -> None:
        """`as_is`: what the job has, perhaps by an administrator: less is always allowed."""
        most = max(self.of(caller.name, view).priority, as_is)
        if priority > most and not caller.admin:
            raise NotAllowed(
                f"{caller.name} may give jobs a priority of {most:g} at most, not {priority:g}; "
                f"for more {self.ask}"
            )

    def _check_size(self, job: Job, bounds: Bounds, user: str) -> None:
        least = min([option.gpus for option in job.options], default=job.min_gpus or job.gpus)
        if least * job.share / WHOLE_GPU > bounds.gpus:
            raise NotAllowed(
                f"job {job.name!r} asks for {least} GPUs, and {user} may have {bounds.gpus:g} at "
                f"once: ask for fewer, or {self.ask}"
            )

    # ------------------------------------------------------------------------------------- tenants

    def tenant_for(self, caller: Caller, named: str, view: View) -> str:
        """The one that is named, if it exists and is theirs; else the one that they are a member of."""
        if not self.shared:
            return named
        tenants = list(view.room.tenants.values())
        if not named:
            return self._tenant_of(caller, tenants)
        found = view.room.tenants.get(named)
        usable = [own.name for own in tenants if caller.admin or may_use(caller, own)]
        if found is None or named not in usable:
            wrong = "there is no tenant" if found is None else f"{caller.name} may not use tenant"
            told = f"choose one of: {', '.join(sorted(usable))}" if usable else "leave it out"
            raise NotAllowed(f"{wrong} {named!r}; {told}, or {self.ask}")
        return named

    def _tenant_of(self, caller: Caller, tenants: Iterable[Tenant]) -> str:
        """A user who names no tenant does not escape the quota of their own."""
        own = sorted([tenant.name for tenant in tenants if is_member(caller, tenant)])
        if len(own) > 1:
            raise BadInput(
                f"say which tenant it is for: {caller.name} is a member of {', '.join(own)}"
            )
        return own[0] if own else ""


def is_member(caller: Caller, tenant: Tenant) -> bool:
    groups = {number_of_group(name) for name in tenant.groups}
    return caller.name in tenant.users or not groups.isdisjoint(caller.groups)


def may_use(caller: Caller, tenant: Tenant) -> bool:
    return is_member(caller, tenant) or not (tenant.users or tenant.groups)


def number_of_group(name: str) -> int:
    """-1, which no process has, for a group that is not there."""
    found = accounts.group_number(name)
    return -1 if found is None else found


def narrowed(job: Job, gpus: float) -> Job:
    """Without the ways to run that take more GPUs than its user may have."""
    if job.options and max([option.gpus for option in job.options]) > gpus:
        kept = tuple([option for option in job.options if option.gpus <= gpus])
        job = replace(job, options=kept, gpus=min([job.gpus, *(o.gpus for o in kept)]))
    if job.max_gpus is not None and job.max_gpus > gpus:
        job = replace(job, max_gpus=int(gpus), gpus=min(job.gpus, int(gpus)))
    return job


def most_gpus(job: Job) -> float:
    """That it may come to hold."""
    widest = max([job.gpus, job.max_gpus or 0, *(option.gpus for option in job.options)])
    return widest * job.share / WHOLE_GPU


class Intake:
    """Forgets evenly, all of what is allowed within a day. Kept in memory: a restart forgives."""

    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._used: Final[dict[str, tuple[float, Seconds]]] = {}  # bytes, as of when

    def charge(self, user: str, size: float, view: View, now: Seconds) -> None:
        """Before anything is written; refused whole if it is too much."""
        allowed = self._limits.of(user, view).megabytes * 1e6
        if allowed == inf:
            return
        used = self.used(user, view, now)
        if used + size > allowed:
            raise NotAllowed(
                f"{user} may hand in {allowed / 1e6:,.0f} MB a day; {used / 1e6:,.1f} MB are used and "
                f"this takes {size / 1e6:,.1f} MB: send less, wait, or {self._limits.ask}"
            )
        self._used[user] = (used + size, now)

    def used(self, user: str, view: View, now: Seconds) -> float:
        bytes_then, then = self._used.get(user, (0.0, now))
        allowed = self._limits.of(user, view).megabytes * 1e6
        return max(bytes_then - (now - then) / DAY_S * allowed, 0.0) if allowed < inf else 0.0


def size_of(submission: Submission, members: int) -> float:
    """Bytes that are written for it: the common part of an array once, its command for every member."""
    common = len(json.dumps(dump(submission.spec)))
    common += sum(len(name) + len(value) for name, value in submission.environment.items())
    command = sum(map(len, submission.spec.command or ()))
    return common + members * (PER_JOB + command)
