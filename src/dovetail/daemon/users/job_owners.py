"""The rights of a job: its submitter's, and never more, however the daemon was started."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Protocol

from dovetail.core.errors import DovetailError
from dovetail.daemon.users import system_accounts as accounts
from dovetail.worlds.world import UserAccount

_PATIENCE_S = 10.0  # with a directory of users that does not answer
_TRY_AGAIN_S = 0.5


class OwnerUnknown(DovetailError):
    """The job is not run: it might get rights that its submitter has not."""


class NotLookedUp(OwnerUnknown):
    """The system does not know the user now; it did when the job was submitted."""


class Submitter(Protocol):
    """The user who handed in a job or a study, as it was kept."""

    @property
    def uid(self) -> int | None: ...

    @property
    def gid(self) -> int | None: ...


def rights_of(
    submitter: Submitter, job_id: str, name: str, *, daemon_uid: int, shared: bool
) -> UserAccount | None:
    """The account that the job is to run as; None: the daemon's own user, whose job it is."""
    uid = submitter.uid
    if uid is None:
        raise OwnerUnknown(f"nobody wrote down whose job {job_id} is; submit it again")
    if uid == daemon_uid and not shared:
        return None
    if daemon_uid != 0:
        if uid != daemon_uid:
            raise OwnerUnknown(
                f"job {job_id} is user {uid}'s, and this daemon runs as {daemon_uid}, who cannot "
                "become somebody else; start it as root"
            )
        return None
    return _looked_up(uid, name, submitter.gid)


def _looked_up(uid: int, name: str, gid: int | None) -> UserAccount:
    """A directory of users that is away says that nobody is there: who had a name has it still."""
    person = accounts.person(uid)
    if person is None:
        if name != str(uid) or gid is None:
            raise NotLookedUp(
                f"user {uid} ({name!r} when the job was submitted) cannot be looked up now"
            )
        return UserAccount(uid, gid, (gid,))
    if name not in (person.name, str(uid)):
        raise OwnerUnknown(
            f"user {uid} was {name!r} when the job was submitted and is {person.name!r} now; "
            "let its owner submit it again"
        )
    return UserAccount(uid, person.gid, accounts.groups_of(person))


def patiently(look_up: Callable[[], UserAccount | None]) -> UserAccount | None:
    """Tries for a while: the directory of users may be restarting."""
    until = monotonic() + _PATIENCE_S
    while True:
        try:
            return look_up()
        except NotLookedUp:
            if monotonic() > until:
                raise
        sleep(_TRY_AGAIN_S)
