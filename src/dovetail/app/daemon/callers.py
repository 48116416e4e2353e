"""Who asks, and what they may do: owners and administrators change jobs, everybody may look."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.app.daemon import accounts
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
    found = accounts.person(uid)
    return str(uid) if found is None else found.name


def groups_of(uid: int) -> tuple[int, tuple[int, ...]]:
    """The user's own group, and all that a job of theirs should be a member of."""
    found = accounts.person(uid)
    return (uid, (uid,)) if found is None else (found.gid, accounts.groups_of(found))
