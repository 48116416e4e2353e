"""May the user of a job still use this daemon? Accounts go, and people leave groups."""

from __future__ import annotations

from time import monotonic
from typing import Final

from dovetail.daemon.history.submission_records import SubmissionRecord
from dovetail.daemon.users import system_accounts as accounts
from dovetail.worlds.shortage import Short

GONE_FOR_S = 300.0  # a directory of users that is away says that nobody is there
_EVERY_S = 30.0


class StillAllowed:
    """Of a box that several people share; `group` is the one that its socket is open to."""

    def __init__(self, group: str, daemon_uid: int, every_s: float = _EVERY_S) -> None:
        self._group: Final = group
        self._daemon_uid: Final = daemon_uid
        self._every_s: Final = every_s
        self._asked_at: Final[dict[int, float]] = {}
        self._gone_since: Final[dict[int, float]] = {}
        self._members: Final[set[int]] = set()  # by the list of users: others got in in another way

    def why_not(self, record: SubmissionRecord) -> str:
        """Why not any more; "" as a rule, and where it was asked a moment ago."""
        uid, now = record.uid, monotonic()
        if uid is None or uid in (0, self._daemon_uid):
            return ""
        if now - self._asked_at.get(uid, -self._every_s) < self._every_s:
            return ""
        self._asked_at[uid] = now
        try:
            return self._why_not(uid, record.user, now)
        except (Short, OSError):
            return ""  # the system cannot say: later

    def _why_not(self, uid: int, name: str, now: float) -> str:
        person = accounts.person(uid)
        if person is None:
            since = self._gone_since.setdefault(uid, now)
            gone = now - since >= GONE_FOR_S
            return f"user {name} is not known to the system any more" if gone else ""
        self._gone_since.pop(uid, None)
        if name not in (person.name, str(uid)):
            return f"user {uid}, who was {name}, is {person.name} now"
        if accounts.group_number(self._group) in accounts.groups_of(person):
            self._members.add(uid)
        elif uid in self._members:
            return f"{name} is not in the group {self._group} any more"
        return ""
