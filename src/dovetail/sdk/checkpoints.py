"""The folder of a job's checkpoints, and whether the job is being resumed."""

from __future__ import annotations

import os

from dovetail.sdk.reports import announce_cooperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def checkpoint_dir() -> Path:
    """The folder for this job's checkpoints, made if absent. It stays while the job exists.

    Outside Dovetail it is `checkpoints` in the current folder. The first call tells Dovetail that
    the job saves itself.
    """
    from pathlib import Path

    folder = Path(os.environ.get("DOVETAIL_CHECKPOINT_DIR") or "checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    announce_cooperation()
    return folder


def resumed() -> bool:
    """True if this job ran before, had to make room, and is now started again."""
    return os.environ.get("DOVETAIL_RESUMED") == "1"
