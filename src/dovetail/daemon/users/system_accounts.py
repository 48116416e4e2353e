"""Users and groups as the system knows them. A look-up that fails is not an answer.

Python's `pwd` says the same of a user that does not exist and of a list of users that could not be
opened. A job would then run without its groups, or a user be known by a number. So the C library is
asked itself; who was found once is still known when it cannot say.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from errno import EBADF, ENOENT, EPERM, ERANGE, ESRCH
from functools import cache
from pathlib import Path
from typing import Any, Final

from dovetail.core.errors import BadInput
from dovetail.worlds.shortage import Short

_ABSENT: Final = (0, ENOENT, ESRCH, EBADF, EPERM)  # as some libraries say it, see getpwnam(3)
_MOST_BYTES = 1 << 24
SUBORDINATE = Path("/etc/subuid")


@dataclass(frozen=True, slots=True)
class Person:
    uid: int
    name: str
    gid: int


class _Passwd(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("uid", ctypes.c_uint),
        ("gid", ctypes.c_uint),
        ("rest", ctypes.c_char_p * 3),
    )


class _Group(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("gid", ctypes.c_uint),
        ("members", ctypes.c_void_p),
    )


_people: Final[dict[int, Person]] = {}  # who was found
_groups: Final[dict[int, tuple[int, ...]]] = {}


def person(uid: int) -> Person | None:
    """None: the system says that there is no such user."""
    try:
        row = _ask("getpwuid_r", ctypes.c_uint(uid), _Passwd(), f"user {uid}")
    except Short:
        if uid in _people:
            return _people[uid]
        raise
    if row is None:
        _people.pop(uid, None)
        return None
    found = _people[uid] = Person(uid, os.fsdecode(row.name), row.gid)
    return found


def groups_of(who: Person) -> tuple[int, ...]:
    """All groups of a user. The library leaves out those it cannot read, so it is asked before and
    after whether it can."""
    try:
        _ask("getgrgid_r", ctypes.c_uint(who.gid), _Group(), f"group {who.gid}")
        found = tuple(os.getgrouplist(who.name, who.gid))
        _ask("getgrgid_r", ctypes.c_uint(who.gid), _Group(), f"group {who.gid}")
    except (Short, OSError):
        if who.uid in _groups:
            return _groups[who.uid]
        raise
    _groups[who.uid] = found
    return found


def group_number(name: str) -> int | None:
    """None: there is no such group."""
    row = _ask("getgrnam_r", os.fsencode(name), _Group(), f"group {name!r}")
    return None if row is None else int(row.gid)


def group_called(name: str, option: str) -> int:
    """The number of a group that an option of `up` names."""
    found = group_number(name)
    if found is None:
        purpose = "to open the socket to" if option == "--group" else "of administrators"
        raise BadInput(
            f"there is no group {name!r} {purpose}; make it (groupadd {name}), or name "
            f"another with {option}"
        )
    return found


def is_lent(uid: int) -> bool:
    """A number without a name that some user may give to their own processes (`newuidmap`): one person
    with thousands of them is still one person."""
    try:
        lines = SUBORDINATE.read_text(errors="replace").split("\n")
    except OSError:
        return False
    parts = [line.split(":") for line in lines if line.count(":") == 2]
    ranges = [(int(first), int(count)) for _, first, count in parts if (first + count).isdecimal()]
    return any(first <= uid < first + count for first, count in ranges) and person(uid) is None


def _ask(function: str, key: Any, row: Any, whom: str) -> Any:
    """The row, filled in; None if there is none."""
    size = 1 << 12
    while True:
        buffer, found = ctypes.create_string_buffer(size), ctypes.c_void_p()
        error = getattr(_library(), function)(
            key, ctypes.byref(row), buffer, ctypes.c_size_t(size), ctypes.byref(found)
        )
        if error == ERANGE and size < _MOST_BYTES:
            size *= 4
            continue
        if found:
            row.kept = buffer  # its texts lie there
            return row
        error = error or _shortage()
        if error in _ABSENT:
            return None
        raise Short(f"the system cannot look up {whom} now ({os.strerror(error)}); try again")


def _shortage() -> int:
    """Where several services are asked, the last one's `no` hides that the first had no descriptor."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or 0
    return 0


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
