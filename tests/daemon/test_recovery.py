"""What a daemon finds when it starts: a cut journal, a full disk, a snapshot, a journal of old."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from dovetail.core.entries import Cancelled, Displaced, Finished, Released, Start, Started
from dovetail.core.journal import decode, encode
from dovetail.core.model import JobId
from dovetail.core.state import State
from dovetail.daemon import main
from dovetail.daemon.history.running_costs import PAST
from dovetail.daemon.main import recover
from dovetail.daemon.refusals import DiskFull
from dovetail.daemon.submissions import Book, Member, Submission
from dovetail.jobfiles.job_model import read
from dovetail.store import JournalReader, Store
from dovetail.testing import fingerprint
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.runs.launching import launch_of
from dovetail.worlds.local.runs.run import ProcessRun
from live_box import ME, Box, box
from waiting import until

GOLDEN = Path(__file__).parents[1] / "golden" / "dovetail.db"


def some_history(here: Box) -> None:
    jobs = [here.submit("exit 0"), here.submit("exit 3"), here.submit("sleep 30", estimate="1h")]
    here.wait(*jobs[:2])
    here.wait_until(jobs[2], "running")
    here.service.pause([jobs[2]], ME)
    here.wait_until(jobs[2], "suspended")
    here.service.set_policy("las", ME)
    here.service.cancel([jobs[2]], ME)


def test_a_journal_cut_anywhere_in_its_tail_is_started_from(tmp_path: Path) -> None:
    """Whatever is lost is lost from the end: the state is that of some earlier moment."""
    with box(tmp_path / "box") as here:
        some_history(here)
        kept = tmp_path / "kept"
        kept.mkdir()
        for name in ("dovetail.db", "dovetail.db-wal"):
            shutil.copy(here.home.state / name, kept / name)
        lines = [line for _, line in here.daemon.reader.lines_after(0)]
    states = list(prefixes(lines))
    log = (kept / "dovetail.db-wal").read_bytes()
    seen = set()
    for size in cuts(len(log)):
        folder = tmp_path / "cut"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
        os.truncate(folder / "dovetail.db-wal", size)
        with closing(Store.open(folder / "dovetail.db", reserve_bytes=1 << 16)) as store:
            found = recover(store)
        assert remembered(found) == states[store.last_seq]
        seen.add(store.last_seq)
    assert len(seen) > 3  # many different moments were gone back to


def cuts(size: int) -> list[int]:
    """Places in the last frames, and some before them. (The store's own tests try every byte.)"""
    return [*range(0, size, 4099), *range(max(size - 4200, 0), size + 1, 61)]


def prefixes(lines: list[str]) -> Iterator[dict[str, object]]:
    state = State(PAST)
    yield remembered(state)
    for line in lines:
        state.record(decode(line))
        yield remembered(state)


def remembered(state: State) -> dict[str, object]:
    forgotten = ("ended", "shapes", "capacity")
    return {name: value for name, value in fingerprint(state).items() if name not in forgotten}


def test_a_daemon_goes_on_from_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "SNAPSHOT_EVERY", 3)
    with box(tmp_path / "box") as here:
        some_history(here)
        waiting = here.submit("echo later", after=[here.submit("sleep 1.5")])
        here.leave()
    with closing(JournalReader(tmp_path / "box" / "dovetail.db")) as reader:
        assert list(reader.snapshots())
        lines = [line for _, line in reader.lines_after(0)]
    with box(tmp_path / "box") as again:
        assert again.service.policy().policy == "las"
        (row,) = again.wait(waiting)
        assert row["phase"] == "finished"
        assert again.submit("true") == str(int(waiting) + 1)
    states = list(prefixes(lines))
    with closing(Store.open(tmp_path / "box" / "dovetail.db")) as store:
        state = recover(store)
    assert not state.tracks
    assert states


def test_a_job_is_not_charged_for_the_absence_of_a_daemon(tmp_path: Path) -> None:
    """It ended while nobody looked: at the time its keeper noted, whatever the next daemon is asked
    to do first. One whose keeper was killed ended at its last sign of life."""
    with box(tmp_path / "box") as here:
        began = monotonic()
        ends, lost = here.submit("sleep 0.5; echo over"), here.submit("sleep 100")
        for job in (ends, lost):
            here.wait_until(job, "running")
        here.leave()
    runs = {job: ProcessRun(here.home.folder(job) / "1") for job in (ends, lost)}
    os.kill(runs[lost].keeper_pid() or 0, signal.SIGKILL)
    until(lambda: not any(run.is_alive() for run in runs.values()))
    ended_at, alive_s = runs[ends].over_since(), monotonic() - began
    sleep(1.0)
    with box(tmp_path / "box", policy="las") as again:
        rows = again.wait(ends, lost)
        assert [row["phase"] for row in rows] == ["finished", "failed"]
        assert rows[0]["ended_at"] == pytest.approx(ended_at, abs=0.05)
        assert all(row["run_s"] < alive_s for row in rows)


def test_who_was_about_to_go_on_is_not_charged_for_the_absence_either(tmp_path: Path) -> None:
    """The daemon died between deciding that a frozen job goes on and letting it."""
    with box(tmp_path / "box", slots=1) as here:
        began = monotonic()
        job = JobId(here.submit("sleep 1000"))
        here.wait_until(job, "running")
        here.service.pause([job], ME)
        here.wait_until(job, "suspended")
        placement = next(own.placement for own in here.journal() if isinstance(own, Start))
        here.leave()
        present_s = monotonic() - began
    with closing(Store.open(tmp_path / "box" / "dovetail.db")) as store:
        now = recover(store).now
        for entry in (Released(now, job), Start(job, placement)):
            store.add(encode(entry, now).rstrip("\n"))
    sleep(1.0)
    began = monotonic()
    with box(tmp_path / "box", slots=1) as again:
        row = again.wait_until(job, "running")
        assert row["run_s"] < present_s + monotonic() - began
        assert [own.at for own in again.journal() if isinstance(own, Displaced)] == [now]


def test_a_journal_of_an_earlier_version_loads_for_ever(tmp_path: Path) -> None:
    shutil.copy(GOLDEN, tmp_path / "dovetail.db")
    with closing(Store.open(tmp_path / "dovetail.db")) as store:
        state = recover(store)
        lines = [line for _, line in store.lines_after(0)]
    assert len(lines) == 40
    assert remembered(state) == list(prefixes(lines))[-1]
    assert {track.job.name: track.phase.value for track in state.past}["fails"] == "failed"


FILL = """
import sys
with open(sys.argv[1], "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(65536))
    except OSError:
        pass
    try:
        while True:
            file.write(b"0")
    except OSError:
        pass
"""


def refusal(here: Box) -> str:
    """Submit until it is refused."""
    for _ in range(2000):
        try:
            here.submit("true")
        except DiskFull as error:
            return str(error)
    raise AssertionError("never refused")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.getuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=40m", "dovetail-test", str(folder)]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_stops_nothing_that_runs_and_is_told(small_disk: Path) -> None:
    with box(small_disk / "box") as here:
        running = here.submit("sleep 2; exit 5")
        here.wait_until(running, "running")
        subprocess.run([sys.executable, "-c", FILL, str(small_disk / "ballast")], check=True)
        assert "room" in refusal(here)
        (row,) = here.wait(running)  # its end is written down all the same
        assert (row["phase"], row["exit_code"]) == ("failed", 5)
        (small_disk / "ballast").unlink()
        here.wait_for(lambda: not here.daemon.store.is_full, 10)
        (row,) = here.wait(here.submit("exit 0"))
        assert row["phase"] == "finished"


def test_the_journal_is_nobody_elses_to_read(tmp_path: Path) -> None:
    with box(tmp_path / "box") as here:
        here.wait(here.submit("true"))
        for path in (here.home.state, here.home.environments, here.home.runs):
            assert path.stat().st_mode & 0o077 == 0
        assert here.home.journal.stat().st_mode & 0o077 == 0
    assert sqlite3.connect(here.home.journal).execute("SELECT count(*) FROM entries").fetchone()[0]


def test_an_array_goes_on_if_the_daemon_died_before_the_turn_of_its_next_member(
    tmp_path: Path,
) -> None:
    with box(tmp_path / "box") as here:
        ids = here.service.submit([Submission(read(ARRAY), {}, str(tmp_path))], ME)
        here.wait_until(ids[0], "running")
        here.leave()
    with closing(Store.open(tmp_path / "box" / "dovetail.db")) as store:
        now = recover(store).now
        store.add(encode(Cancelled(now, JobId(ids[0]), "as if killed right after"), now).strip())
    with box(tmp_path / "box") as again:
        again.wait_until(ids[2], "running")
        assert again.phase(ids[3]) == "queued"


ARRAY = {"run": "sleep 60", "array": "0-3%2"}


def test_a_submission_that_fails_half_way_leaves_nothing_to_be_taken_for_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Book.keep

    def fails(book: Book, member: Member, *rest: Any) -> None:
        if member.index == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        keep(book, member, *rest)

    with box(tmp_path / "box") as here:
        monkeypatch.setattr(Book, "keep", fails)
        with pytest.raises(DiskFull):
            here.service.submit([Submission(read(ARRAY), {}, str(tmp_path))], ME)
        monkeypatch.setattr(Book, "keep", keep)
        assert not [path for path in here.home.runs.iterdir() if path.name[0].isdigit()]
        here.leave()
    with box(tmp_path / "box") as again:
        assert again.daemon.notices.all == ()
        (row,) = again.wait(again.submit("exit 0"))
        assert row["phase"] == "finished"


def test_a_job_that_began_and_ended_unseen_has_begun_in_the_journal(tmp_path: Path) -> None:
    job, run = launched_by_a_daemon_since_killed(tmp_path / "box")
    until(lambda: run.ending() is not None)  # its keeper may live a moment longer
    assert_begun_and_finished(tmp_path / "box", job)


def test_a_job_whose_keeper_comes_while_it_is_taken_up_is_not_waited_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, run = launched_by_a_daemon_since_killed(tmp_path / "box")
    until(lambda: run.ending() is not None)
    begun, looks = ProcessRun.begun, count()
    monkeypatch.setattr(ProcessRun, "begun", lambda run: next(looks) > 0 and begun(run))
    assert_begun_and_finished(tmp_path / "box", job)


def launched_by_a_daemon_since_killed(home: Path) -> tuple[JobId, ProcessRun]:
    """The daemon was killed between launching it and saying so."""
    with box(home, slots=1) as here:
        blocker = here.submit("sleep 1000")
        here.wait_until(blocker, "running")
        job = JobId(here.submit("exit 0"))
        here.service.pause([job], ME)
        here.service.cancel([blocker], ME)
        here.wait_for(lambda: not list((here.home.runs / "live").iterdir()))
        placement = next(own.placement for own in here.journal() if isinstance(own, Start))
        book, shelf = here.daemon.book, here.daemon.world.shelf
        assert isinstance(shelf, Folders)
        order = book.order_for(job)
        launch = launch_of(order, shelf, book.environment_of, placement, (), 1, 0)
        here.leave()
    with closing(Store.open(home / "dovetail.db")) as store:
        now = recover(store).now
        for entry in (Released(now, job), Start(job, placement)):
            store.add(encode(entry, now).rstrip("\n"))
    run = ProcessRun(home / "runs" / job / "1")
    run.launch(launch)
    return job, run


def assert_begun_and_finished(home: Path, job: JobId) -> None:
    with box(home, slots=1) as again:
        (row,) = again.wait(job)
        assert row["phase"] == "finished"
        told = [type(own) for own in again.journal() if getattr(own, "job_id", "") == job]
        assert told[-3:] == [Start, Started, Finished]
