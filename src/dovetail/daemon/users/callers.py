"""Callers and their rights: owners and administrators change jobs, everybody may look."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.daemon.refusals import NotAllowed
from dovetail.daemon.users import system_accounts as accounts


@dataclass(frozen=True, slots=True)
class Caller:
    uid: int
    name: str
    admin: bool
    groups: tuple[int, ...] = ()  # as the kernel says, their own first; none: not asked
    token: str = ""  # the id of the one by which they came; "" on the socket

    @property
    def gid(self) -> int | None:
        return self.groups[0] if self.groups else None

    def may_read(self, owner: str) -> bool:
        """May this user see commands, settings, output and reports of the owner's jobs?"""
        return self.admin or owner == self.name

    def check_owns(self, owner: str, job_id: str, verb: str) -> None:
        if not self.may_read(owner):
            raise NotAllowed(
                f"job {job_id} is {owner}'s: only {owner} or an administrator may {verb} it"
            )


def caller_of(uid: int, daemon_uid: int, groups: tuple[int, ...] = ()) -> Caller:
    """Root and the user who runs the daemon are administrators."""
    return Caller(uid, user_name(uid), uid in (0, daemon_uid), groups)


def user_name(uid: int) -> str:
    found = accounts.person(uid)
    return str(uid) if found is None else found.name
