"""Files of the job's user that what it prints is also written to."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class CopyFile:
    """What cannot be written (the disk is full) is dropped: the job shall go on."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        with suppress(OSError):
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._fd)


class Copies:
    """Opened with the rights of the job's user, whatever ours are. Without a file for errors these
    go where output goes; `trouble` says which file cannot be written."""

    def __init__(self, launch: dict[str, Any]) -> None:
        self.trouble = ""
        self.output = self._open(launch, "output")
        self.error = self._open(launch, "error") if launch.get("error") else self.output

    def _open(self, launch: dict[str, Any], name: str) -> CopyFile | None:
        path = launch.get(name)
        if not path:
            return None
        begins = os.O_TRUNC if launch.get("is_first", True) else 0
        try:
            with _as_its_user(launch):
                place = os.path.join(launch["cwd"], path)
                os.makedirs(os.path.dirname(place), exist_ok=True)
                fd = os.open(place, _FLAGS | begins, 0o666)
        except OSError as error:
            self.trouble = f"its {name} cannot be written to {path!r}: {error.strerror}"
            return None
        if stat.S_ISREG(os.fstat(fd).st_mode) or path == os.devnull:
            return CopyFile(fd)
        os.close(fd)
        self.trouble = f"its {name} cannot be written to {path!r}: it is no plain file"
        return None


@contextmanager
def _as_its_user(launch: dict[str, Any]) -> Iterator[None]:
    """For a moment. Who we are stays as it is (the real user), so that nobody else can stop us."""
    uid, gid, groups = launch["uid"], launch["gid"], launch["groups"]
    umask = os.umask(launch.get("umask", 0o022))
    before = os.geteuid(), os.getegid(), os.getgroups()
    try:
        if uid is not None:
            os.setgroups(groups if groups is not None else [gid] if gid is not None else [])
            os.setegid(gid if gid is not None else before[1])
            os.seteuid(uid)
        yield
    finally:
        if uid is not None:
            os.seteuid(before[0])
            os.setegid(before[1])
            os.setgroups(before[2])
        os.umask(umask)
