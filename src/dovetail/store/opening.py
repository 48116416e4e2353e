"""From a path to a journal that can be written: locked, ours, whole, of our version.

One daemon has one journal. Whether it is whole is asked at each start, so the answer must not cost
more as history grows.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from dovetail.store.ended_jobs import Filter, history
from dovetail.store.joining import join
from dovetail.store.journal_errors import (
    JournalUnusable,
    is_damage,
    journal_full,
    may_be_full,
    suspect,
)
from dovetail.store.pages import pages_in_log
from dovetail.store.reader import (
    LINES_AT_ONCE,
    keyed_text,
    last_seq,
    snapshot,
    some_lines_after,
)
from dovetail.store.reserve import Reserve
from dovetail.store.salvage import salvage, swap
from dovetail.store.sqlite_tables import (
    APPLICATION_ID,
    PAGE,
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
_WITHIN_S: Final = 0.5
_LOOK_AGAIN_S: Final = 0.01
_SMALL = 4 << 20  # a file this small is checked wholly, in some hundredths of a second


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
    until = time.monotonic() + _WITHIN_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() > until:
                return False
        time.sleep(_LOOK_AGAIN_S)


def _why_no_lock(path: Path, error: OSError) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} to keep the journal in; create it first"
    return f"cannot write in {path.parent}, where the journal is kept: {error.strerror}"


def find_damage(db: sqlite3.Connection, path: Path) -> str:
    """What is wrong, or nothing. A large file is checked where the next start depends on it: that no
    page is missing, that the last snapshot and all entries after it are as they were written. The
    rest is checked when it is read, and wholly at the start after damage was noticed."""
    thorough = suspect(path).exists() or path.stat().st_size <= _SMALL
    try:
        return (
            _missing_pages(db, path)
            or (_unsound(db) if thorough else "")
            or _unreadable(db, from_the_first=thorough)
        )
    except Exception as error:
        if not is_damage(error):
            raise
        return str(error)


def _missing_pages(db: sqlite3.Connection, path: Path) -> str:
    (count,) = db.execute("PRAGMA page_count").fetchone()
    there = path.stat().st_size // PAGE
    if there >= count:
        return ""
    missing = set(range(there + 1, count + 1)).difference(pages_in_log(log_of(path)))
    return f"{len(missing)} of {count} pages are missing" if missing else ""


def _unsound(db: sqlite3.Connection) -> str:
    (answer,) = db.execute("PRAGMA quick_check(1)").fetchone()
    return "" if answer == "ok" else " ".join(str(answer).split())


def _unreadable(db: sqlite3.Connection, *, from_the_first: bool) -> str:
    snapshots = [seq for (seq,) in db.execute("SELECT seq FROM snapshots ORDER BY seq DESC")]
    for seq in snapshots if from_the_first else snapshots[:1]:
        snapshot(db, seq)
    if keyed_text(db, "meta", "epoch") is None:
        return "it does not say when it began"
    if from_the_first:
        _read_records(db)
    return _gap(db, snapshots[0] if snapshots else 0, from_the_first)


def _read_records(db: sqlite3.Connection) -> None:
    for table, key in (("specs", "job_id"), ("meta", "key")):
        for (value,) in db.execute(f"SELECT {key} FROM {table}").fetchall():
            keyed_text(db, table, value)
    history(db, Filter(), -1, None)


def _gap(db: sqlite3.Connection, start: int, from_the_first: bool) -> str:
    """Entries before the last snapshot may have been pruned; after it each follows the one before."""
    expected, seq = start + 1, 0 if from_the_first else start
    while lines := some_lines_after(db, seq, LINES_AT_ONCE):
        for seq, _ in lines:
            if seq > start:
                if seq != expected:
                    return f"entry {expected} is missing"
                expected += 1
    return "" if last_seq(db) == expected - 1 else f"entry {expected} is missing"
