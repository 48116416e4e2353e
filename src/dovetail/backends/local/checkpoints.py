"""Checkpoints that one job has left and another begins from."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_PART = ".part"  # behind the name of a folder that is being copied


def begin_from(source: Path, target: Path) -> None:
    """Copy what there is, once: a job that has saved something of its own goes on from that. Whoever
    is interrupted begins anew; the folder is there as a whole or not at all."""
    if not source.is_dir() or (target.is_dir() and any(target.iterdir())):
        return
    part = target.with_name(target.name + _PART)
    copy(source, part)
    move(part, target)


def move(folder: Path, target: Path) -> None:
    """In place of an empty folder, whose owner it gets."""
    if target.is_dir():
        _give_to_owner_of(target, folder)
    os.replace(folder, target)


def copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)


def _give_to_owner_of(model: Path, folder: Path) -> None:
    """The same owner and mode as the (empty) folder that it replaces."""
    found = model.stat()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, found.st_uid, found.st_gid, follow_symlinks=False)
    folder.chmod(found.st_mode)
