"""The tables of the journal's file, how it is made, and how an older one is migrated."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4
from zlib import crc32

from dovetail.store.journal_errors import BadRow, JournalUnusable

NAME = "journal"  # of meta: which one this is, lest anything of another be taken for its own
PAGE = 4096
PAGES_LOGGED = 1000  # before SQLite moves its log into its file: its own choice
APPLICATION_ID = 0x444F5654  # "DOVT" in the header of the file
_OLDEST_SQLITE = (3, 37, 0)  # the first with STRICT tables

# One script per version, in order; a script that has been released is never changed.
MIGRATIONS = (
    """
    CREATE TABLE entries (seq INTEGER PRIMARY KEY, line TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;
    CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, state TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;
    CREATE TABLE specs (
        job_id TEXT PRIMARY KEY NOT NULL, spec TEXT NOT NULL, crc INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;
    CREATE TABLE ended (
        job_id TEXT PRIMARY KEY NOT NULL, seq INTEGER NOT NULL, ended_at REAL NOT NULL,
        user TEXT NOT NULL, name TEXT NOT NULL, row TEXT NOT NULL, crc INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX ended_by_time ON ended (ended_at, seq);
    CREATE INDEX ended_by_user ON ended (user, ended_at, seq);
    CREATE INDEX ended_by_name ON ended (name, ended_at, seq);
    """,
)
VERSION = len(MIGRATIONS)


def checksum(table: str, key: int | str, text: str) -> int:
    """SQLite does not notice a changed byte inside a text; this does. It also tells, of a row found
    in the ruins of a file, which table it was of."""
    return crc32(text.encode(), crc32(f"{table}:{key}".encode()))


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """Any thread may use it, one at a time. Nothing is begun or committed unless we say so."""
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )


def create(path: Path, epoch: float | None = None) -> None:
    """Made beside and moved into place: an empty file of that name is never ours."""
    beside = path.with_name(f"{path.name}.new")
    remove(beside)
    os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    db = connect(beside)
    try:
        db.execute(f"PRAGMA page_size={PAGE}")
        db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        migrate(db)
        if epoch is not None:
            put_meta(db, "epoch", repr(epoch))
            put_meta(db, NAME, uuid4().hex)  # here, where no log is needed to read it
        tune(db)
        db.close()
        move(beside, path)
    finally:
        db.close()
        remove(beside)


def write_copy(db: sqlite3.Connection, path: Path) -> None:
    """All that the connection sees, under a name that is free. What lies there of a log is of the file
    that was removed, and must not meet this one."""
    beside = path.with_name(f"{path.name}.new")
    remove(beside)
    os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(connect(beside)) as copy:
        db.backup(copy)
    remove(path)
    move(beside, path)


def tune(db: sqlite3.Connection) -> None:
    """Each commit is on disk in the tail before SQLite has it (see `tail`), so SQLite waits for the
    disk only when it moves its log into its file. A log left large by a snapshot is cut when it is
    next reused."""
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA secure_delete=OFF")
    db.execute(f"PRAGMA journal_size_limit={16 << 20}")


def move_log(db: sqlite3.Connection) -> bool:
    """Into SQLite's own file, and wait for the disk; nobody has to wait for that meanwhile. Did all of
    it go?"""
    _, logged, moved = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return bool(logged == moved)


def put_meta(db: sqlite3.Connection, key: str, value: str) -> None:
    row = (key, value, checksum("meta", key, value))
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", row)


def check_version(db: sqlite3.Connection, path: Path) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version < 1:
        raise BadRow(f"it says that its version is {version}")
    if version > VERSION:
        raise JournalUnusable(
            f"the journal {path} has version {version} and this Dovetail reads up to {VERSION}; "
            "use the newer Dovetail that wrote it"
        )


def migrate(db: sqlite3.Connection) -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise JournalUnusable(
            f"the journal needs SQLite 3.37 or newer, and this Python has {sqlite3.sqlite_version}; "
            "use a newer Python"
        )
    (version,) = db.execute("PRAGMA user_version").fetchone()
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        db.executescript(f"BEGIN; {script}; PRAGMA user_version={number}; COMMIT")


# -------------------------------------------------------------------------------------------- files


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-shm")


def remove(path: Path) -> None:
    """The file and the logs of SQLite beside it."""
    for each in (path, log_of(path), index_of(path), path.with_name(f"{path.name}-journal")):
        each.unlink(missing_ok=True)


def remove_own_log(path: Path) -> None:
    """The log that this process has open, of a file that somebody has replaced: it would spoil the new
    one. One that came with the new file stays."""
    own = {_inode(Path("/proc/self/fd", name)) for name in os.listdir("/proc/self/fd")}
    for each in (log_of(path), index_of(path)):
        if each.exists() and _inode(each) in own:
            each.unlink()


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def move(source: Path, target: Path) -> None:
    """Safely on disk under the new name when this returns. Not for a file that is open in SQLite:
    closing a second descriptor of it would give up its locks."""
    sync(source)
    os.replace(source, target)
    sync(target.parent)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
