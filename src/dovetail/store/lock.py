"""One daemon for one journal."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from dovetail.store.journal_errors import JournalUnusable

_WITHIN_S: Final = 0.5
_LOOK_AGAIN_S: Final = 0.01


def hold(path: Path) -> int:
    """Lock the journal for this process; the lock ends when the descriptor is closed. The lock file
    stays: removing it could give two processes a lock each."""
    try:
        descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise JournalUnusable(_why_no_lock(path, error)) from None
    if not _locked(descriptor):
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise JournalUnusable(
            f"the journal {path} is in use by process {holder or '(unknown)'}; "
            "stop it first (dovetail down), or use another --home"
        )
    with suppress(OSError):  # on a full disk the lock holds without a name
        os.ftruncate(descriptor, os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0))
    return descriptor


def _locked(descriptor: int) -> bool:
    """A process that the daemon before was just starting has its lock, too, until it is started."""
    until = monotonic() + _WITHIN_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if monotonic() > until:
                return False
        sleep(_LOOK_AGAIN_S)


def _why_no_lock(path: Path, error: OSError) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} to keep the journal in; create it first"
    return f"cannot write in {path.parent}, where the journal is kept: {error.strerror}"
