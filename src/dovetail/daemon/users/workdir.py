"""The working folder of a job: is it there, and at which commit? With the rights of the caller alone."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import Any

from dovetail.client.git_state import commit_of, is_commit
from dovetail.core.errors import BadInput
from dovetail.daemon.users.callers import Caller

_WITHIN_S = 5.0  # a file system that does not answer is no reason to refuse


def check_folder(folder: str, inside: str, caller: Caller) -> None:
    path = os.path.join(folder, inside) if inside else folder
    if not (_is_folder(path) if caller.uid == os.geteuid() else _is_folder_to(caller, path)):
        raise BadInput(f"workdir: there is no folder {path!r:.200}; make it first, or name another")


def _is_folder(path: str) -> bool:
    """Or nobody can tell: it may be open to its owner alone."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except PermissionError:
        return True
    except OSError:
        return False


def _is_folder_to(caller: Caller, path: str) -> bool:
    """As root we would tell everybody what there is in everybody's folders. Where nobody can be asked
    it is seen when the job starts."""
    done = _by_them(caller, ["test", "-d", path])
    return done is None or done.returncode == 0


def commit_there(folder: str, inside: str, caller: Caller) -> str | None:
    """That the working folder is at, if Git keeps it and the caller may see that."""
    path = os.path.join(folder, inside)
    if os.geteuid() != 0:  # as root we would open what others have put there: a pipe, say
        return commit_of(path) if caller.uid == os.geteuid() else None
    done = _by_them(caller, ["git", "-C", path, "rev-parse", "--verify", "--quiet", "HEAD"])
    found = (
        "" if done is None or done.returncode else done.stdout.decode("ascii", "replace").strip()
    )
    return found if is_commit(found) else None


def _by_them(caller: Caller, words: list[str]) -> subprocess.CompletedProcess[bytes] | None:
    """By a process of the caller's; None: there can be none, or it does not answer."""
    who: dict[str, Any] = {}
    if caller.uid != os.geteuid():
        if os.geteuid() != 0 or caller.gid is None:
            return None
        who = {"user": caller.uid, "group": caller.gid, "extra_groups": list(caller.groups)}
    try:
        return subprocess.run(
            words,
            check=False,
            cwd="/",
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_WITHIN_S,
            **who,
        )
    except (OSError, subprocess.SubprocessError):
        return None
