"""When the system is short of descriptors, processes or room: not now is not never.

What fails for that reason is tried again; nothing that was promised fails by it, and nothing is taken
for absent because it could not be looked up.
"""

from __future__ import annotations

import logging
import os
import re
import resource
import stat
from collections.abc import Callable
from errno import EAGAIN, EDQUOT, EINVAL, EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC
from time import sleep
from typing import Final, TypeVar

from dovetail.core.errors import DovetailError

_SHORT: Final = frozenset((EMFILE, ENFILE, EAGAIN, ENOMEM, ENOBUFS, ENOSPC, EDQUOT))
_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_NO_THREAD: Final = "can't start new thread"
_TRY_AGAIN_S = 0.5
_NICENESS = 15
_ENOUGH_FILES = 1 << 20  # where there is no limit

GIVEN_FILES: Final = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # what jobs get, as we did

log = logging.getLogger("dovetail.local")

Found = TypeVar("Found")


class Short(DovetailError):
    """The system could not say or do it now. Ask again later."""


def is_short(error: BaseException) -> bool:
    """Does it say `not now` rather than `no`?"""
    if isinstance(error, OSError):
        return error.errno in _SHORT
    if isinstance(error, RuntimeError):
        return _NO_THREAD in str(error)
    return isinstance(error, Short | MemoryError)


def says_short(text: str) -> bool:
    """The same of an error that another process has told."""
    found = _ERRNO.search(text)
    return found is not None and int(found[1]) in _SHORT


def patiently(work: Callable[[], Found], what: str) -> Found:
    """Until the system has what it takes."""
    while True:
        try:
            return work()
        except Exception as error:
            if not is_short(error):
                raise
            log.warning("%s has to wait: %s", what, error)
        sleep(_TRY_AGAIN_S)


def raise_limit() -> int:
    """Have as many descriptors as we may; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # some systems allow less than they say
            return soft
    return wanted


def bound_this_process(cpu_s: float, most_bytes: int) -> None:
    """It runs what a user has named, after all others, and ends before it takes what they need."""
    os.nice(_NICENESS)
    for kind, most in ((resource.RLIMIT_CPU, int(cpu_s)), (resource.RLIMIT_AS, most_bytes)):
        resource.setrlimit(kind, (most, most))


def at_once(path: str, flags: int) -> int:
    """An opener for files of a job's user, who may hold a lease on them (fcntl(2)): whoever opens one
    would wait for that, 45 seconds. BlockingIOError: they do. Or who may have put something else there:
    to open a device is to use it (a watchdog restarts the machine), so it is looked at before."""
    mark = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(mark).st_mode):
            raise OSError(EINVAL, "not a plain file", path)
        return os.open(f"/proc/self/fd/{mark}", flags | os.O_NONBLOCK)
    finally:
        os.close(mark)
