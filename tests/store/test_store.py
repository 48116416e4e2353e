"""The journal on disk: what was committed is there, whatever happens to the process, file or disk."""

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from dovetail.store import (
    EndedJob,
    Filter,
    JournalDamaged,
    JournalFull,
    JournalLost,
    JournalReader,
    JournalUnusable,
    Store,
    prepared_tail,
    tail,
)

PAGE = 4096
SMALL_RESERVE = 64 << 10
LONG_FORM = "DOVETAIL_STORM_CUTS" in os.environ


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a place: thousands of starts take thousands of syncs."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name)


def opened(folder: Path) -> Store:
    return Store.open(folder / "dovetail.db", reserve_bytes=SMALL_RESERVE)


def without_tail(folder: Path) -> None:
    """What the database alone is good for: its second copy is lost as well."""
    for path in folder.glob("dovetail.db.tail*"):
        path.unlink()


def line(seq: int) -> str:
    return f'{{"at":{float(seq)!r},"started":"{seq}","filling":"{"x" * (seq * 7 % 120)}"}}\n'


def state_after(seq: int) -> str:
    return json.dumps({"after": seq, "filling": "s" * 9000})


def add_entries(store: Store, count: int) -> None:
    for _ in range(count):
        store.add(line(store.last_seq + 1))


def commit_for_ever(store: Store, at_once: int) -> None:
    while True:
        add_entries(store, at_once)
        store.commit()


def ended(number: int, user: str = "ada", name: str = "train") -> EndedJob:
    return EndedJob(str(number), number, 1000.0 + number, user, name, f'{{"id":"{number}"}}')


def check_and_count(store: Store | JournalReader, after: int | None = None) -> int:
    """The last entry that can be rebuilt; nothing before it is missing or altered."""
    if after is None:
        after, text = next(store.snapshots(), (0, None))
        assert text is None or text == state_after(after)
    for seq, text in store.lines_after(after):
        assert (seq, text) == (after + 1, line(seq))
        after = seq
    return after


def assert_goes_on(folder: Path, last: int) -> None:
    """It can be written again, and the next start finds nothing to complain about."""
    with closing(opened(folder)) as store:
        assert (store.notice, check_and_count(store)) == ("", last)
        add_entries(store, 3)
    with closing(opened(folder)) as store:
        assert (store.notice, check_and_count(store)) == ("", last + 3)


# ------------------------------------------------------------------------------------ everyday life


def test_a_new_journal_is_empty_and_knows_when_it_began(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        assert (store.last_seq, store.pending, store.notice) == (0, 0, "")
        assert list(store.snapshots()) == []
        assert abs(store.epoch - time.time()) < 60
        epoch = store.epoch
    with closing(opened(tmp_path)) as store:
        assert store.epoch == epoch


def test_what_is_added_waits_until_it_is_committed(folder: Path) -> None:
    with closing(opened(folder)) as store, closing(JournalReader(store.path)) as reader:
        assert [store.add(line(1)), store.add(line(2))] == [1, 2]
        store.put_spec("7", '{"command":["true"]}')
        store.set_meta("next job", "8")
        store.add_ended(ended(2))
        assert store.pending == 5
        assert (reader.last_seq(), reader.spec("7"), reader.history()) == (0, None, [])
        store.commit()
        assert store.pending == 0
        assert list(reader.lines_after(0)) == [(1, line(1)), (2, line(2))]
        assert reader.spec("7") == '{"command":["true"]}'
        assert reader.meta("next job") == "8"
        assert reader.history() == [ended(2)]


def test_text_that_cannot_be_stored_is_refused_when_added_and_blocks_nothing(folder: Path) -> None:
    with closing(opened(folder)) as store:
        with pytest.raises(UnicodeEncodeError):
            store.add("\udcff")
        with pytest.raises(ValueError, match="ended at nan"):
            store.add_ended(EndedJob("1", 1, float("nan"), "ada", "train", "{}"))
        assert store.pending == 0
        add_entries(store, 1)
    with closing(opened(folder)) as store:
        assert check_and_count(store) == 1


def test_any_text_comes_back_as_it_was(folder: Path) -> None:
    texts = ["", "\n", "nul \0 inside", "Ωμέγα 🐙", "x" * 3_000_000]
    with closing(opened(folder)) as store:
        for text in texts:
            store.add(text)
    with closing(opened(folder)) as store:
        assert [text for _, text in store.lines_after(0)] == texts


def test_the_last_two_snapshots_are_kept_newest_first(folder: Path) -> None:
    with closing(opened(folder)) as store:
        for _ in range(4):
            add_entries(store, 10)
            assert store.save_snapshot(store.last_seq, state_after(store.last_seq))
        assert [seq for seq, _ in store.snapshots()] == [40, 30]
        assert next(store.snapshots()) == (40, state_after(40))
        with pytest.raises(ValueError, match="the last entry is 40"):
            store.save_snapshot(41, "{}")


def test_pruning_leaves_what_the_older_snapshot_needs(folder: Path) -> None:
    with closing(opened(folder)) as store:
        add_entries(store, 100)
        store.save_snapshot(50, state_after(50))
        assert store.prune(100) == 0  # one snapshot alone could turn out not to be understood
        store.save_snapshot(80, state_after(80))
        assert [store.prune(100, at_most=30), store.prune(100), store.prune(100)] == [30, 20, 0]
        assert next(store.lines_after(0))[0] == 51
    assert_goes_on(folder, 100)


def test_history_is_filtered_and_paged_newest_first(folder: Path) -> None:
    rows = [ended(n, "ada" if n % 2 else "bob", f"train-{n % 3}") for n in range(1, 31)]
    with closing(opened(folder)) as store:
        for row in rows:
            store.add_ended(row)
        store.commit()
        newest = rows[::-1]
        assert store.history(limit=10) == newest[:10]
        assert store.history(limit=10, before=newest[9]) == newest[10:20]
        assert store.history(Filter(user="bob")) == [row for row in newest if row.user == "bob"]
        assert store.history(Filter(name="train-1")) == [r for r in newest if r.name == "train-1"]
        assert store.history(Filter(name="*-1")) == [r for r in newest if r.name == "train-1"]
        assert store.history(Filter(since=1010.0, until=1012.0)) == newest[19:21]
        assert store.history(Filter(job_id="4")) == [rows[3]]
        assert store.history(Filter(user="' OR 1=1 --")) == []


def test_other_threads_read_while_the_owner_writes(folder: Path) -> None:
    seen: list[int] = []

    def follow(reader: JournalReader) -> None:
        while len(seen) < 2000:
            seen.extend(seq for seq, _ in reader.some_lines_after(len(seen)))

    with closing(opened(folder)) as store, closing(JournalReader(store.path)) as reader:
        thread = Thread(target=follow, args=(reader,))
        thread.start()
        for _ in range(200):
            add_entries(store, 10)
            store.commit()
        thread.join(120)
    assert seen == list(range(1, 2001))


def test_asking_when_it_is_closed_is_a_mistake_of_the_program_and_no_damage(folder: Path) -> None:
    store = opened(folder)
    reader = JournalReader(store.path)
    reader.close()
    store.close()
    add_entries(store, 1)
    for ask in (reader.last_seq, store.commit):
        with pytest.raises(sqlite3.ProgrammingError):
            ask()
    assert not (folder / "dovetail.db.suspect").exists()


def test_a_reader_that_pauses_does_not_let_the_log_grow(folder: Path) -> None:
    with closing(opened(folder)) as store, closing(JournalReader(store.path)) as reader:
        add_entries(store, 2000)
        store.commit()
        half_read = reader.lines_after(0)
        next(half_read)
        for _ in range(4000):
            add_entries(store, 1)
            store.commit()
        assert (folder / "dovetail.db-wal").stat().st_size < 8 << 20


def test_ten_thousand_entries_are_committed_in_a_moment(folder: Path) -> None:
    with closing(opened(folder)) as store:
        began = time.process_time()
        add_entries(store, 10_000)
        store.commit()
        assert time.process_time() - began < 1.0  # 0.05 s as a rule


def test_starting_reads_only_what_follows_the_last_snapshot(folder: Path) -> None:
    """Counted in bytes read by the process, which unlike seconds are the same on a busy machine."""
    read = [_bytes_read_by_a_start(folder / str(count), count) for count in (50_000, 200_000)]
    assert read[1] < 1.1 * read[0]


def _bytes_read_by_a_start(folder: Path, count: int) -> int:
    folder.mkdir()
    with closing(opened(folder)) as store:
        add_entries(store, count)
        store.save_snapshot(count, state_after(count))
        add_entries(store, 100)
    before = _bytes_read()
    with closing(opened(folder)) as store:
        assert check_and_count(store) == count + 100
        return _bytes_read() - before


def _bytes_read() -> int:
    counters = Path("/proc/self/io").read_text().split()
    return int(counters[counters.index("rchar:") + 1])


# ----------------------------------------------------------------------------------- who may open it


def test_nobody_else_can_read_any_of_its_files(folder: Path) -> None:
    before = os.umask(0)
    try:
        with closing(opened(folder)) as store:
            add_entries(store, 1)
            store.commit()
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    finally:
        os.umask(before)
    ends = ("", "-wal", "-shm", ".lock", ".reserve", ".tail")
    assert modes == {f"dovetail.db{end}": 0o600 for end in ends}


def test_a_journal_that_others_could_read_is_made_private(folder: Path) -> None:
    opened(folder).close()
    (folder / "dovetail.db").chmod(0o664)
    with closing(opened(folder)):
        assert stat.S_IMODE((folder / "dovetail.db").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_journal_of_another_user_is_refused(folder: Path) -> None:
    opened(folder).close()
    os.chown(folder / "dovetail.db", 54321, -1)
    with pytest.raises(JournalUnusable, match=r"dovetail\.db belongs to user 54321 and you are"):
        opened(folder)


def test_a_process_that_was_just_being_started_does_not_keep_the_next_daemon_out(
    folder: Path,
) -> None:
    """Between fork and exec it has the lock as well."""
    with closing(opened(folder)):
        locks = [fd for fd in os.listdir("/proc/self/fd") if is_lock(folder, fd)]
        child = subprocess.Popen(["sleep", "0.2"], pass_fds=[int(fd) for fd in locks])
    opened(folder).close()
    assert (len(locks), child.wait()) == (1, 0)


def is_lock(folder: Path, fd: str) -> bool:
    return os.path.realpath(f"/proc/self/fd/{fd}") == str(folder.resolve() / "dovetail.db.lock")


def test_a_second_daemon_is_refused_by_the_number_of_the_first(folder: Path) -> None:
    with closing(opened(folder)) as store:
        with pytest.raises(JournalUnusable, match=f"is in use by process {os.getpid()};"):
            opened(folder)
        add_entries(store, 1)
    assert_goes_on(folder, 1)


def test_the_version_of_a_newer_dovetail_is_refused_and_left_as_it_is(folder: Path) -> None:
    opened(folder).close()
    path = folder / "dovetail.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version=99")
    before = path.read_bytes()
    with pytest.raises(
        JournalUnusable, match="has version 99 and this Dovetail reads up to 1; use"
    ):
        opened(folder)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"just a note", b"\0" * 8192, b"SQLite format 3\0" * 999])
def test_what_is_not_a_journal_is_refused_and_left_as_it_is(folder: Path, content: bytes) -> None:
    path = folder / "dovetail.db"
    path.write_bytes(content)
    with pytest.raises(
        JournalUnusable, match="no entry could be salvaged; put a backup in its place"
    ):
        opened(folder)
    assert path.read_bytes() == content
    assert {each.name for each in folder.iterdir()} <= {
        *("dovetail.db", "dovetail.db-wal", "dovetail.db-shm", "dovetail.db.lock")
    }


def test_the_database_of_another_program_is_refused_and_left_as_it_is(folder: Path) -> None:
    path = folder / "dovetail.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE entries (seq INTEGER PRIMARY KEY, line TEXT, crc INTEGER)")
        db.executescript("INSERT INTO entries VALUES (1, 'an entry, but not ours', 12345)")
    before = path.read_bytes()
    with pytest.raises(JournalUnusable, match="its header is not that of a journal"):
        opened(folder)
    assert path.read_bytes() == before


def test_a_folder_in_the_place_of_the_journal_is_refused(folder: Path) -> None:
    (folder / "dovetail.db").mkdir()
    with pytest.raises(JournalUnusable, match="is not a file"):
        opened(folder)


def test_a_folder_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(JournalUnusable, match=f"there is no folder {folder}/absent"):
        opened(folder / "absent")


def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    folder.chmod(0o555)
    with _as_somebody(), pytest.raises(JournalUnusable, match=f"cannot write in {folder}, where"):
        opened(folder)
    folder.chmod(0o700)


@contextmanager
def _as_somebody() -> Iterator[None]:
    """Root may write anywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(54321)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_journal_that_was_removed_under_the_daemon_is_written_anew(folder: Path) -> None:
    store = opened(folder)
    add_entries(store, 3)
    store.commit()
    (folder / "dovetail.db").unlink()
    add_entries(store, 1)
    with pytest.raises(JournalLost, match="was removed while in use; it was written anew and noth"):
        store.commit()
    store.close()
    with closing(opened(folder)) as store:
        assert (store.notice, check_and_count(store)) == ("", 4)


def test_a_journal_that_was_replaced_under_the_daemon_is_left_and_told(folder: Path) -> None:
    """Somebody has put a backup in its place: what was written since is added to it."""
    path = folder / "dovetail.db"
    with closing(opened(folder)) as store:
        add_entries(store, 3)
    backup = path.read_bytes()
    store = opened(folder)
    add_entries(store, 2)
    store.commit()
    path.unlink()
    path.write_bytes(backup)
    add_entries(store, 1)
    with pytest.raises(JournalLost, match="was replaced by another file while in use"):
        store.commit()
    assert path.read_bytes() == backup
    assert not (folder / "dovetail.db-wal").exists()  # it was not of this file
    store.close()
    with closing(opened(folder)) as again:
        assert check_and_count(again) == 6


# ------------------------------------------------------------------------------------------- killed


def test_no_acknowledged_entry_is_lost_in_a_hundred_kills(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, __file__, folder], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 500


def kill_again_and_again(folder: Path) -> None:
    """Run as a program of its own, so that it may fork."""
    chance, last = random.Random(7), 0
    for number in range(120):
        acknowledged = _kill_a_writer(folder, chance.uniform(0.0, 0.04))
        if number % 4:
            # It leaves the log as the killed one did.
            with closing(JournalReader(folder / "dovetail.db")) as reader:
                found = check_and_count(reader, last)
        else:
            with closing(opened(folder)) as store:
                assert not store.notice, store.notice
                found = check_and_count(store, last)
                check_and_count(store)
        assert found >= max(acknowledged, last), (number, found, acknowledged, last)
        last = found
    print(last)


def _kill_a_writer(folder: Path, after_s: float) -> int:
    """The number of the last entry that it had said was on disk."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        _write_for_ever(folder, theirs)
    os.close(theirs)
    with open(ours) as told:
        told.readline()  # it is up
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return max((int(each) for each in told.read().splitlines()), default=0)


def _write_for_ever(folder: Path, acknowledge: int) -> None:
    chance = random.Random(os.getpid())
    if (folder / "dovetail.db").exists():
        os.write(acknowledge, b"up\n")
    store = opened(folder)
    if store.last_seq == 0:
        os.write(acknowledge, b"up\n")
    while True:
        add_entries(store, chance.choice((1, 1, 1, 5, 200)))
        store.commit()
        os.write(acknowledge, f"{store.last_seq}\n".encode())
        what = chance.random()
        if what < 0.1:
            store.save_snapshot(store.last_seq, state_after(store.last_seq))
        elif what < 0.15:
            store.shorten_tail()
        elif what < 0.2:
            _shorten_by_prepared(store, chance)


def _shorten_by_prepared(store: Store, chance: random.Random) -> None:
    """As the daemon does, where others prepare it and commits come meanwhile."""
    prepared = prepared_tail(store.path)
    add_entries(store, chance.choice((1, 5)))
    store.commit()
    with closing(JournalReader(store.path)) as reader:
        if prepared is not None and reader.move_log():
            store.go_on_in(prepared)


# -------------------------------------------------------------------------------- cut and overwritten


def test_a_log_cut_at_any_byte_leaves_whole_commits(folder: Path) -> None:
    """About every border in the last commit, and at many other bytes of it and of the ten before;
    `make storm` is the long form: every byte of the last."""
    ends = _commit_one_by_one(folder, 20)
    path, log = folder / "dovetail.db", folder / "dovetail.db-wal"
    whole, whole_log = (folder / "copy").read_bytes(), (folder / "copy-wal").read_bytes()
    for size in _sizes(ends, len(whole_log)):
        without_tail(folder)
        path.write_bytes(whole)
        log.write_bytes(whole_log[:size])
        with closing(opened(folder)) as store:
            assert store.notice == ""
            assert check_and_count(store) == sum(end <= size for end in ends)
    assert_goes_on(folder, 20)


def _sizes(ends: list[int], whole: int) -> list[int]:
    last = range(ends[-2], whole + 1)
    if not LONG_FORM:  # a page follows a header of 24 bytes; the log's own header has 32
        borders = (size for size in last if (size - 32) % (24 + 4096) < 40 or whole - size < 40)
        return [*range(ends[-11], ends[-2], 211), *sorted({*borders, *last[::31]})]
    return [*range(ends[-11], ends[-2], 211), *last]


def test_a_log_with_a_wrong_byte_leaves_the_commits_before_it(folder: Path) -> None:
    ends = _commit_one_by_one(folder, 20)
    path, log = folder / "dovetail.db", folder / "dovetail.db-wal"
    for at in range(ends[-6], ends[-1], 257):
        damaged = bytearray((folder / "copy-wal").read_bytes())
        damaged[at] ^= 0x55
        without_tail(folder)
        shutil.copy(folder / "copy", path)
        log.write_bytes(damaged)
        with closing(opened(folder)) as store:
            assert store.notice == ""
            assert check_and_count(store) == sum(end <= at for end in ends)


@pytest.mark.parametrize("harm", ["removed", "cut", "emptied", "altered", "of before"])
def test_a_log_that_is_lost_takes_nothing_with_it(folder: Path, harm: str) -> None:
    """All 20 commits are in the tail as well. Even an older log in its place does no harm."""
    log = folder / "dovetail.db-wal"
    with closing(opened(folder)) as store:
        add_entries(store, 5)
        store.commit()
        shutil.copy(log, folder / "of before")
        for number in range(6, 21):
            add_entries(store, 1)
            store.put_spec(str(number), "spec")
            store.add_ended(ended(number))
            store.commit()
        copy = {path.name: path.read_bytes() for path in folder.glob("dovetail.db*")}
    for name, content in copy.items():
        (folder / name).write_bytes(content)
    if harm == "removed":
        log.unlink()
    elif harm in ("cut", "emptied"):
        os.truncate(log, log.stat().st_size // 2 if harm == "cut" else 0)
    elif harm == "of before":
        shutil.copy(folder / "of before", log)
    else:
        altered = bytearray(log.read_bytes())
        altered[len(altered) // 3] ^= 0x55
        log.write_bytes(altered)
    with closing(opened(folder)) as store:
        assert "had lost its last" in store.notice
        assert check_and_count(store) == 20
        assert len(store.history()) == 15
        assert store.spec("20") == "spec"
    assert_goes_on(folder, 20)


def test_a_journal_that_was_removed_comes_back_from_its_tail(folder: Path) -> None:
    with closing(opened(folder)) as store:
        add_entries(store, 30)
        store.save_snapshot(store.last_seq, state_after(store.last_seq))
        add_entries(store, 5)
    (folder / "dovetail.db").unlink()
    with closing(opened(folder)) as store:
        assert "its file is gone" in store.notice
        assert check_and_count(store) == 35
    assert_goes_on(folder, 35)


def test_the_tail_of_another_journal_is_kept_and_not_mixed_in(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    for place, count in ((folder, 3), (other, 50)):
        with closing(opened(place)) as store:
            add_entries(store, count)
    shutil.copy(other / "dovetail.db.tail", folder / "dovetail.db.tail")
    with closing(opened(folder)) as store:
        assert "was of another journal and is kept as" in store.notice
        assert check_and_count(store) == 3
    assert list(folder.glob("dovetail.db.tail.kept-*"))


def test_a_prepared_tail_takes_over_with_the_commits_made_meanwhile(folder: Path) -> None:
    log = folder / "dovetail.db-wal"
    with closing(opened(folder)) as store:
        add_entries(store, 50)
        store.save_snapshot(store.last_seq, state_after(store.last_seq))
        prepared = prepared_tail(store.path)
        for _ in range(3):
            add_entries(store, 2)
            store.commit()
        assert prepared is not None
        store.go_on_in(prepared)
        add_entries(store, 4)
        store.commit()
        assert [commit.is_first for commit in tail.commits(store.path)][-5:] == [True, *[False] * 4]
        copy = {path.name: path.read_bytes() for path in folder.glob("dovetail.db*")}
    for name, content in copy.items():
        (folder / name).write_bytes(content)
    log.unlink()
    with closing(opened(folder)) as store:
        assert check_and_count(store) == 60


def test_a_prepared_tail_is_forgotten_where_another_was_begun_meanwhile(folder: Path) -> None:
    with closing(opened(folder)) as store:
        add_entries(store, 5)
        store.commit()
        prepared = prepared_tail(store.path)
        assert prepared is not None
        tail.tail_of(store.path).unlink()
        add_entries(store, 5)
        store.commit()  # begins one
        store.go_on_in(prepared)
        assert not prepared.path.exists()
        add_entries(store, 5)
        store.commit()
        assert tail.last_commit(store.path) is not None
        assert prepared_tail(store.path) is not None  # of a daemon that was killed then
    with closing(opened(folder)) as store:
        assert check_and_count(store) == 15
        assert not list(folder.glob("*.next-*"))


def test_a_long_tail_is_begun_anew_and_still_enough_without_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "ROOM", 20_000)
    log = folder / "dovetail.db-wal"
    with closing(opened(folder)) as store:
        for _ in range(60):
            add_entries(store, 20)
            store.commit()
            store.save_snapshot(store.last_seq, state_after(store.last_seq))
            store.shorten_tail()
        add_entries(store, 7)
        store.commit()
        assert (folder / "dovetail.db.tail").stat().st_size < 60_000
        copy = {path.name: path.read_bytes() for path in folder.glob("dovetail.db*")}
    for without in ("dovetail.db-wal", "dovetail.db"):
        for name, content in copy.items():
            (folder / name).write_bytes(content)
        (folder / without).unlink()
        log.unlink(missing_ok=True)
        with closing(opened(folder)) as store:
            assert check_and_count(store) == 1207


def _commit_one_by_one(folder: Path, count: int) -> list[int]:
    """Leaves copies as a killed process would; returns how long the log was after each commit."""
    ends = []
    with closing(opened(folder)) as store:
        for _ in range(count):
            add_entries(store, 1)
            store.commit()
            ends.append((folder / "dovetail.db-wal").stat().st_size)
        for end in ("", "-wal"):
            shutil.copy(folder / f"dovetail.db{end}", folder / f"copy{end}")
    return ends


def _journal_of_many_pages(folder: Path) -> bytes:
    with closing(opened(folder)) as store:
        for _ in range(2):
            add_entries(store, 150)
            store.put_spec(str(store.last_seq), '{"command":["true"]}')
            store.add_ended(ended(store.last_seq))
            store.save_snapshot(store.last_seq, state_after(store.last_seq))
        add_entries(store, 150)
    return (folder / "dovetail.db").read_bytes()


def _start_anew_from(folder: Path, content: bytes) -> None:
    for each in folder.iterdir():
        each.unlink()
    (folder / "dovetail.db").write_bytes(content)


def test_a_file_cut_anywhere_is_salvaged_or_refused_never_begun_anew(folder: Path) -> None:
    whole = _journal_of_many_pages(folder)
    ends = range(PAGE, len(whole), PAGE)
    near_ends = {end + by for end in ends for by in (-1, 0, 1)}
    outcomes = set()
    for size in sorted({*near_ends, *range(0, PAGE, 509), *range(0, len(whole), 997)}):
        _start_anew_from(folder, whole[:size])
        outcomes.add(_start_damaged(folder, whole[:size]))
    assert min(outcomes) == 0  # refused
    assert max(outcomes) > 400
    assert len(outcomes) > 5


def _start_damaged(folder: Path, content: bytes) -> int:
    """Salvaged or refused, the damaged file is kept, and nothing is told that was not written."""
    store = _opened_if_salvageable(folder)
    if store is None:
        assert (folder / "dovetail.db").read_bytes() == content
        return 0
    with closing(store):
        assert f"entries up to {store.last_seq} were salvaged" in store.notice
        assert (folder / "dovetail.db.damaged-1").read_bytes() == content
        last = check_and_count(store)
        assert last == store.last_seq
        assert all(row == ended(row.seq) and row.seq <= last for row in store.history())
    assert_goes_on(folder, last)
    return last


def _opened_if_salvageable(folder: Path) -> Store | None:
    try:
        return opened(folder)
    except JournalUnusable as refusal:
        if "no entry could be salvaged" not in str(refusal):
            raise
    return None


def test_a_file_overwritten_anywhere_tells_nothing_that_was_not_written(folder: Path) -> None:
    whole = _journal_of_many_pages(folder)
    noticed = 0
    for number, at in enumerate(range(100, len(whole), 499)):
        damaged = bytearray(whole)
        wound = (b"\xa5" * 8, b"\0" * 700, b"7", os.urandom(64))[number % 4]
        damaged[at : at + len(wound)] = wound
        _start_anew_from(folder, bytes(damaged[: len(whole)]))
        with closing(opened(folder)) as store:  # so small a wound always leaves something
            last = check_and_count(store)
            assert last == 450 or store.notice
            assert abs(store.epoch - time.time()) < 1000
            assert all(row == ended(row.seq) for row in store.history())
            noticed += bool(store.notice)
    assert noticed > 80


def test_a_wrong_byte_in_the_header_loses_nothing(folder: Path) -> None:
    whole = _journal_of_many_pages(folder)
    for at in range(100):
        damaged = bytearray(whole)
        damaged[at] ^= 0x81
        _start_anew_from(folder, bytes(damaged))
        if 61 <= at < 64:  # its version, now a very large one
            with pytest.raises(JournalUnusable, match="use the newer Dovetail"):
                opened(folder)
        else:
            assert _last_after_a_start(folder) == 450


def _last_after_a_start(folder: Path) -> int:
    with closing(opened(folder)) as store:
        return check_and_count(store)


def test_a_wrong_digit_in_the_last_entries_is_noticed_in_a_large_file_too(folder: Path) -> None:
    with closing(opened(folder)) as store:
        add_entries(store, 60_000)
        store.save_snapshot(store.last_seq, state_after(store.last_seq))
        add_entries(store, 100)
    path = folder / "dovetail.db"
    content = path.read_bytes()
    assert len(content) > 4 << 20
    path.write_bytes(content.replace(b'"started":"60077"', b'"started":"60078"'))
    without_tail(folder)
    with closing(opened(folder)) as store:
        assert "entry 60077 was altered" in store.notice
        assert "up to 60076 were salvaged and 60077 to 60100 were not" in store.notice
    assert_goes_on(folder, 60_076)


def test_damage_in_old_history_is_told_when_read_and_mended_at_the_next_start(folder: Path) -> None:
    with closing(opened(folder)) as store:
        add_entries(store, 60_000)
        store.save_snapshot(store.last_seq, state_after(store.last_seq))
    path = folder / "dovetail.db"
    path.write_bytes(path.read_bytes().replace(b'"started":"77"', b'"started":"78"'))
    with closing(opened(folder)) as store:
        assert store.notice == ""
        with pytest.raises(
            JournalDamaged, match=r"is damaged \(entry 77 was altered\); stop and st"
        ):
            list(store.lines_after(0))
    without_tail(folder)
    with closing(opened(folder)) as store:
        assert "entries up to 60000 were salvaged, and 1 before the last snapshot" in store.notice
        assert len(list(store.lines_after(0))) == 59_999
    assert_goes_on(folder, 60_000)


def test_entries_that_are_only_in_the_log_are_salvaged_without_the_file(folder: Path) -> None:
    with closing(opened(folder)) as store:
        add_entries(store, 300)
        store.put_spec("7", "{}")
        store.commit()
        log = (folder / "dovetail.db-wal").read_bytes()
    (folder / "dovetail.db").unlink()
    (folder / "dovetail.db-wal").write_bytes(log)
    with closing(opened(folder)) as store:
        assert "entries up to 300 were salvaged" in store.notice
        assert store.spec("7") == "{}"
    assert_goes_on(folder, 300)


@pytest.mark.parametrize("step", range(1, 6))
def test_a_salvage_interrupted_anywhere_is_done_again(
    folder: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = _lose_the_end_of_the_file_but_not_the_log(folder)
    moves, move = iter(range(1, 99)), os.replace

    class Killed(BaseException):
        pass

    def move_or_die(source: Path, target: Path) -> None:
        if next(moves) == step:
            raise Killed
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", move_or_die)
        with pytest.raises(Killed):
            opened(folder)
    with closing(opened(folder)) as store:
        assert "was damaged" in store.notice
        assert check_and_count(store) == last
    assert (folder / "dovetail.db.damaged-1").exists()
    assert (folder / "dovetail.db.damaged-1-wal").exists()
    assert_goes_on(folder, last)


def _lose_the_end_of_the_file_but_not_the_log(folder: Path) -> int:
    """Where the entries in the file still reach those in the log. Returns the last of these."""
    _journal_of_many_pages(folder)
    with closing(opened(folder)) as store:
        store.save_snapshot(450, state_after(450))
        add_entries(store, 50)
        store.commit()
        content = {
            name: (folder / name).read_bytes() for name in ("dovetail.db", "dovetail.db-wal")
        }
    for name, before in content.items():
        (folder / name).write_bytes(before)
    os.truncate(folder / "dovetail.db", 14 * PAGE)
    return 500


# --------------------------------------------------------------------------------------- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "tmpfs", str(tmp_path)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield tmp_path
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


def fill(disk: Path) -> Path:
    filling = disk / "filling"
    with filling.open("ab", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return filling


def test_a_full_disk_takes_first_the_reserve_and_then_loses_nothing(small_disk: Path) -> None:
    with closing(Store.open(small_disk / "dovetail.db", reserve_bytes=1 << 20)) as store:
        add_entries(store, 10)
        store.commit()
        filling = fill(small_disk)
        while not store.is_full:
            add_entries(store, 100)
            store.commit()
        on_the_reserve = store.last_seq
        assert not (small_disk / "dovetail.db.reserve").exists()
        assert not store.save_snapshot(store.last_seq, state_after(store.last_seq))
        with pytest.raises(JournalFull, match=r"database or disk is full.* free some space there"):
            commit_for_ever(store, 100)
        assert store.last_seq > on_the_reserve + 1000
        with pytest.raises(JournalFull, match="100 records wait in memory, none is lost"):
            store.commit()
        with closing(JournalReader(store.path)) as reader:
            assert check_and_count(reader) == store.last_seq - 100
        filling.unlink()
        store.commit()
        time.sleep(1.01)  # it looks for space once a second
        has_space = not store.is_full
        assert has_space
        assert (small_disk / "dovetail.db.reserve").stat().st_size == 1 << 20
        assert store.save_snapshot(store.last_seq, state_after(store.last_seq))
        last = store.last_seq
    with closing(Store.open(small_disk / "dovetail.db", reserve_bytes=1 << 20)) as store:
        assert (store.notice, check_and_count(store, 0)) == ("", last)


def test_a_start_on_a_full_disk_uses_the_reserve(small_disk: Path) -> None:
    path = small_disk / "dovetail.db"
    with closing(Store.open(path, reserve_bytes=1 << 20)) as store:
        add_entries(store, 10)
    filling = fill(small_disk)
    with closing(Store.open(path, reserve_bytes=1 << 20)) as store:
        assert store.is_full
        add_entries(store, 10)
    path.with_name("dovetail.db.reserve").unlink(missing_ok=True)
    fill(small_disk)
    with pytest.raises(JournalFull, match=r"are needed and 0\.0 MiB are free"):
        Store.open(path, reserve_bytes=1 << 20)
    filling.unlink()
    with closing(Store.open(path, reserve_bytes=1 << 20)) as store:
        assert (store.notice, check_and_count(store), store.is_full) == ("", 20, False)


def test_a_new_journal_on_a_full_disk_is_refused_and_leaves_nothing_half_made(
    small_disk: Path,
) -> None:
    filling = fill(small_disk)
    with pytest.raises((JournalFull, JournalUnusable), match=r"full|No space"):
        Store.open(small_disk / "dovetail.db")
    assert {each.name for each in small_disk.iterdir()} == {"filling", "dovetail.db.lock"}
    filling.unlink()
    assert_goes_on(small_disk, 0)


def test_a_damaged_journal_is_left_as_it_is_until_there_is_room_to_salvage(
    small_disk: Path,
) -> None:
    with closing(opened(small_disk)) as store:
        add_entries(store, 5000)
    without_tail(small_disk)
    filling, path = fill(small_disk), small_disk / "dovetail.db"
    os.truncate(path, path.stat().st_size - 10 * PAGE)
    before = path.read_bytes()
    with pytest.raises(JournalFull, match=r"takes a copy.*it is left as it is"):
        opened(small_disk)
    assert path.read_bytes() == before
    filling.unlink()
    with closing(opened(small_disk)) as store:
        last = check_and_count(store)
        assert 4000 < last < 5000
    assert_goes_on(small_disk, last)


def test_a_limit_on_the_size_of_files_is_met_like_a_full_disk(folder: Path) -> None:
    with closing(opened(folder)) as store:
        with _files_no_larger_than(1 << 20), pytest.raises(JournalFull, match="File too large"):
            commit_for_ever(store, 1000)
        assert store.pending == 1000
        store.commit()
        last = store.last_seq
    assert_goes_on(folder, last)


@contextmanager
def _files_no_larger_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


if __name__ == "__main__":
    kill_again_and_again(Path(sys.argv[1]))
