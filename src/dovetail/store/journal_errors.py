"""Errors of the journal's file, and how SQLite reports them."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dovetail.core.errors import CannotGoOn, DovetailError


class JournalUnusable(DovetailError):
    """The journal cannot be opened as it is: in use, not ours, too new, or not a journal."""


class JournalLost(JournalUnusable, CannotGoOn):
    """The journal's file was taken from under its owner, which cannot go on with it."""


class JournalFull(DovetailError):
    """The journal cannot be written now. Pending rows are kept for the next try."""


class JournalDamaged(DovetailError):
    """A part of the journal cannot be read back. The next start checks all of it and salvages."""


class BadRow(Exception):
    """A row that SQLite gave us is not what we once wrote."""


_MAY_BE_FULL = frozenset((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN))
_SOUND_BUT_REFUSED = _MAY_BE_FULL | {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_PROTOCOL,
}
_UNREADABLE = frozenset((sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ))


def is_damage(error: Exception) -> bool:
    """Whether it says that the file's content is wrong, not that it cannot be reached now."""
    if isinstance(error, BadRow | UnicodeDecodeError):
        return True
    if not isinstance(error, sqlite3.DatabaseError) or isinstance(error, sqlite3.ProgrammingError):
        return False  # the latter: our own mistake, as of asking when it is closed
    code = _code(error)
    return code in _UNREADABLE or code & 0xFF not in _SOUND_BUT_REFUSED


def may_be_full(error: Exception) -> bool:
    """SQLite tells a quota, a limit on the size of files and a bad disk all as I/O errors."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
    return isinstance(error, sqlite3.Error) and _code(error) & 0xFF in _MAY_BE_FULL


def _code(error: sqlite3.Error) -> int:
    """Python's own complaints, as of text that is not UTF-8, carry none: the file is wrong."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)


def journal_full(path: Path, error: Exception, needed: int, comfort: str) -> JournalFull:
    free = shutil.disk_usage(path.parent).free
    needed = 2 * needed + (1 << 20)
    way_out = "free some space there" if free < 16 * needed else "see to its limits and its health"
    return JournalFull(
        f"the journal {path} cannot be written ({error}): about {_mib(needed)} are needed and "
        f"{_mib(free)} are free on that disk; {way_out}; {comfort}"
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


# ----------------------------------------------------------------------------------------- suspects


@contextmanager
def noticing_damage(path: Path) -> Iterator[None]:
    """What cannot be read is told in one line, and the next start looks at all of the file."""
    try:
        yield
    except Exception as error:
        if not is_damage(error):
            raise
        with suppress(OSError):
            suspect(path).touch(mode=0o600)
        raise JournalDamaged(
            f"the journal {path} is damaged ({error}); stop and start Dovetail: it salvages "
            "what can be read and keeps the damaged file"
        ) from error


def suspect(path: Path) -> Path:
    """Its presence says that damage was noticed while the journal was in use."""
    return path.with_name(f"{path.name}.suspect")
