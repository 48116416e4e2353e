"""Who asks, and what they may do: owners and administrators change jobs, everybody may look."""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass

from dovetail.app.daemon.errors import NotAllowed


@dataclass(frozen=True, slots=True)
class Caller:
    uid: int
    name: str
    admin: bool

    def check_owns(self, owner: str, job_id: str, verb: str) -> None:
        if not self.admin and owner != self.name:
            raise NotAllowed(
                f"job {job_id} is {owner}'s: only {owner} or an administrator may {verb} it"
            )


def caller_of(uid: int, daemon_uid: int) -> Caller:
    """Root and whoever runs the daemon administer it."""
    return Caller(uid, user_name(uid), uid in (0, daemon_uid))


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def groups_of(uid: int) -> tuple[int, tuple[int, ...]]:
    """The user's own group, and all that a job of theirs should be a member of."""
    try:
        person = pwd.getpwuid(uid)
    except KeyError:
        return uid, (uid,)
    return person.pw_gid, tuple(os.getgrouplist(person.pw_name, person.pw_gid))


def group_number(name: str) -> int:
    return grp.getgrnam(name).gr_gid
