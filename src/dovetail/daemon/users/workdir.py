"""Does the working folder of a job exist? Checked with the rights of the caller, and no more."""

from __future__ import annotations

import os
import stat
import subprocess

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
    """By a process of theirs: as root we would tell everybody what there is in everybody's folders."""
    if os.geteuid() != 0 or caller.gid is None:
        return True  # it is seen when the job starts
    try:
        done = subprocess.run(
            ["test", "-d", path],
            check=False,
            cwd="/",
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            timeout=_WITHIN_S,
            user=caller.uid,
            group=caller.gid,
            extra_groups=list(caller.groups),
        )
    except (OSError, subprocess.SubprocessError):
        return True
    return done.returncode == 0
