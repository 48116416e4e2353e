"""From a path to a journal that can be written: locked, ours, whole, of our version."""

from __future__ import annotations

import os
import pwd
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dovetail.store.checking import find_damage
from dovetail.store.joining import join
from dovetail.store.journal_errors import (
    JournalUnusable,
    is_damage,
    journal_full,
    may_be_full,
    suspect,
)
from dovetail.store.lock import hold
from dovetail.store.reserve import Reserve
from dovetail.store.salvage import salvage, swap
from dovetail.store.sqlite_tables import (
    APPLICATION_ID,
    check_version,
    connect,
    create,
    index_of,
    log_of,
    migrate,
    tune,
)
from dovetail.store.tail import Tail, has_entries

_Found: TypeAlias = tuple[sqlite3.Connection, Tail, str]


@dataclass(frozen=True, slots=True)
class Opened:
    path: Path
    db: sqlite3.Connection
    lock: int
    reserve: Reserve
    tail: Tail
    notice: str


def open_journal(path: Path, reserve: Reserve) -> Opened:
    lock = hold(path)
    is_gone = reserve.is_there() and not path.exists()
    try:
        db, tail, notice = _with_room(path, reserve, lambda: _open(path))
    except BaseException:
        os.close(lock)
        raise
    if is_gone and not notice:
        notice = f"there was a journal at {path} before and it is gone; a new one was begun"
    return Opened(path, db, lock, reserve, tail, notice)


def _with_room(path: Path, reserve: Reserve, attempt: Callable[[], _Found]) -> _Found:
    """Even to open a journal takes some space. On a full disk the reserve is given free for it."""
    try:
        return attempt()
    except (sqlite3.Error, OSError) as error:
        if not may_be_full(error):
            raise JournalUnusable(f"cannot open the journal {path}: {error}") from error
        if not reserve.spend():
            raise journal_full(path, error, 1 << 20, "nothing is lost") from error
    return _with_room(path, reserve, attempt)


def _open(path: Path) -> _Found:
    notice = ""
    if aside := swap(path):  # the start that salvaged it was interrupted before it could tell
        notice = f"the journal {path} was damaged and salvaged; the damaged file is kept as {aside}"
    if not path.exists() and not _size(log_of(path)):
        if has_entries(path):
            notice = salvage(path, "its file is gone")
        else:
            create(path, epoch=time.time())
    _make_private(path)
    try:
        db = _connect_if_whole(path)
    except _Damaged as found:
        notice = salvage(path, str(found))
        db = _connect_if_whole(path)
    try:
        tail, joined = join(db, path)
    except BaseException:
        db.close()
        raise
    return db, tail, "; ".join(told for told in (notice, joined) if told)


class _Damaged(Exception):
    pass


def _connect_if_whole(path: Path) -> sqlite3.Connection:
    """Looks at it first through a connection that cannot write: even closing another one would
    change a damaged file."""
    if not _size(path):
        raise _Damaged("the file is empty")  # SQLite would delete the log and start anew
    with closing(connect(path, "ro")) as db:
        _raise_if_damaged(db, path)
    suspect(path).unlink(missing_ok=True)
    db = connect(path)
    try:
        migrate(db)
        tune(db)
    except BaseException:
        db.close()
        raise
    return db


def _raise_if_damaged(db: sqlite3.Connection, path: Path) -> None:
    try:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION_ID:
            raise _Damaged("its header is not that of a journal")
        check_version(db, path)
    except Exception as error:
        if not is_damage(error):
            raise
        raise _Damaged(str(error)) from error
    if damage := find_damage(db, path):
        raise _Damaged(damage)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _make_private(path: Path) -> None:
    """The journal tells what people run: nobody else may read it, and nobody else may have made it."""
    for each in (path, log_of(path), index_of(path)):
        if not each.exists():
            continue
        if not each.is_file():
            raise JournalUnusable(f"{each} is not a file; move it away, or use another --home")
        owner = each.stat().st_uid
        if owner != os.geteuid():
            raise JournalUnusable(
                f"{each} belongs to {_name(owner)} and you are {_name(os.geteuid())}; "
                "start Dovetail as its owner, or use another --home"
            )
        each.chmod(0o600)


def _name(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name!r}"
    except KeyError:
        return f"user {uid}"
