"""Checkpoints of PyTorch: a whole new file, or the old one as it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def read(path: Path) -> dict[str, Any]:
    # Not weights_only: the states of schedulers may hold any object, and the file is our own.
    saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=False)
    return saved


def write_whole(path: Path, saved: dict[str, Any], agree: Callable[[], None]) -> None:
    """`agree` is called when the new file is whole and the old one is still there."""
    draft = path.with_suffix(".tmp")
    try:
        with draft.open("wb") as file:
            torch.save(saved, file)
            file.flush()
            os.fsync(file.fileno())
        agree()
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
