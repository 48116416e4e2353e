"""Checkpoints that one job has left and another begins from."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from dovetail.core.errors import DovetailError
from dovetail.worlds.world import UserAccount

_PART = ".part"  # behind the name of a folder that is being copied
COPIED_WITHIN_S = 600.0  # the owner can stop the process that copies, and others wait for it
_LAST_WORDS = 4096  # bytes


def begin_from(source: Path, target: Path, owner: UserAccount | None) -> None:
    """Copy what there is, once: a job that has saved something of its own goes on from that. Whoever
    is interrupted begins anew; the folder is there as a whole or not at all."""
    _check_ours(target.parent)
    if not has_something(source) or has_something(target):
        return
    part = target.with_name(target.name + _PART)
    copy(source, part, owner)
    os.replace(part, target)


def _check_ours(folder: Path) -> None:
    """We rename and remove files there, perhaps as root: the folder must be ours."""
    if folder.stat().st_uid != os.geteuid():
        raise DovetailError(f"{folder} is another user's: no checkpoint is copied there")


def has_something(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def copy(source: Path, target: Path, owner: UserAccount | None) -> None:
    """Copy a checkpoint over whatever was there; links stay links. A process of the owner does it, which
    can read no more than they."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(mode=0o700)
    as_owner: dict[str, Any] = {}
    if owner is not None:
        os.chown(target, owner.uid, owner.gid)
        as_owner = {"user": owner.uid, "group": owner.gid, "extra_groups": owner.groups}
    words = ["cp", "-a", "--reflink=auto", "--", f"{source}/.", str(target)]
    with TemporaryFile() as errors:
        told: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": errors, **as_owner}
        try:
            done = subprocess.run(words, check=False, timeout=COPIED_WITHIN_S, **told)
        except subprocess.TimeoutExpired:
            raise DovetailError(
                f"the checkpoint in {source} could not be copied within {COPIED_WITHIN_S:,.0f} s"
            ) from None
        if done.returncode:
            errors.seek(max(errors.seek(0, os.SEEK_END) - _LAST_WORDS, 0))
            said = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise DovetailError(f"the checkpoint in {source} could not be copied: {said}")
