"""One daemon for one journal."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from dovetail.backends.store.errors import JournalUnusable


def hold(path: Path) -> int:
    """Lock the journal for this process; the lock ends when the descriptor is closed. The lock file
    stays: removing it could give two processes a lock each."""
    try:
        descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise JournalUnusable(_why_no_lock(path, error)) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise JournalUnusable(
            f"the journal {path} is in use by process {holder or '(unknown)'}; "
            "stop it first (dovetail down), or use another --home"
        ) from None
    with suppress(OSError):  # on a full disk the lock holds without a name
        os.ftruncate(descriptor, os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0))
    return descriptor


def _why_no_lock(path: Path, error: OSError) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} to keep the journal in; create it first"
    return f"cannot write in {path.parent}, where the journal is kept: {error.strerror}"
