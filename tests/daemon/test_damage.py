"""Parts of the journal or of the run folders are lost: nothing acknowledged is, or it is named."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
from click.testing import CliRunner

from daemon_process import DaemonProcess, in_memory, killable_daemon
from dovetail.cli.main import cli
from waiting import LONG_S, until


@pytest.fixture
def here() -> Iterator[DaemonProcess]:
    with in_memory() as folder, killable_daemon(folder / "home") as made:
        made.start()
        yield made


def without_tail(here: DaemonProcess) -> None:
    for path in here.folder.glob("dovetail.db.tail*"):
        path.unlink()


def some_jobs(here: DaemonProcess, count: int = 20) -> list[str]:
    """The first two run for long, the others wait."""
    ids = [here.submit("sleep 1000", name=f"job-{i}") for i in range(count)]
    for job_id in ids[:2]:
        here.wait_for(job_id, "running")
    return ids


def known(here: DaemonProcess) -> set[str]:
    return {row["id"] for row in here.ask("GET", "/v1/jobs")["jobs"]}


def test_a_lost_log_loses_no_job_that_was_acknowledged(here: DaemonProcess) -> None:
    ids = some_jobs(here)
    here.kill()
    (here.folder / "dovetail.db-wal").unlink()
    here.start()
    assert known(here) == {*ids}
    assert "they were taken from its copy beside it" in here.notices()
    assert {here.phase(job_id) for job_id in ids[:2]} == {"running"}


def test_jobs_that_only_their_run_folders_know_are_named_and_left_alone(
    here: DaemonProcess,
) -> None:
    """The log and its copy are lost, and with them all that was submitted."""
    ids = some_jobs(here, 5)
    running = here.run(ids[0]).keeper_pid()
    here.kill()
    (here.folder / "dovetail.db-wal").unlink()
    without_tail(here)
    for _ in range(2):  # it is said until somebody has acknowledged it
        here.start()
        told = here.notices()
        assert f"the journal has lost 5 jobs ({', '.join(ids)})" in told
        assert f"still running: {ids[0]} (process {running})" in told
        assert known(here) == set()
        assert here.run(ids[0]).keeper_pid() == running
        here.kill()
    here.start()
    assert here.submit("true") == str(int(ids[-1]) + 1)  # no number is given twice
    here.ask("POST", "/v1/notices/acknowledge")
    here.kill()
    here.start()
    assert here.notices() == ""
    assert here.run(ids[0]).keeper_pid() == running


@pytest.mark.parametrize(("copy", "left"), [("kept", 0.5), ("lost", 0.7), ("lost", 0.35)])
def test_a_journal_that_was_cut_is_salvaged_into_one_that_starts(
    here: DaemonProcess, copy: str, left: float
) -> None:
    ids = some_jobs(here, 40)
    here.stop()
    path = here.folder / "dovetail.db"
    os.truncate(path, int(path.stat().st_size * left))
    if copy == "lost":
        without_tail(here)
    for _ in range(2):
        here.start()
        told, jobs = here.notices(), known(here)
        assert "was damaged" in told
        missing = {job_id for job_id in ids if job_id not in jobs}
        assert all(job_id in told or len(missing) > 20 for job_id in missing)
        assert copy == "lost" or not missing
        assert here.run(ids[0]).is_alive()
        here.stop()


def test_a_journal_that_is_removed_ends_the_daemon_loudly_and_loses_nothing(
    here: DaemonProcess,
) -> None:
    ids = some_jobs(here, 5)
    (here.folder / "dovetail.db").unlink()
    assert here.process.wait(LONG_S) == 1  # though nothing happens and nobody asks
    assert "was removed while in use; it was written anew" in here.said()
    assert here.run(ids[0]).is_alive()
    here.start()
    assert known(here) == {*ids}


def test_a_job_that_ran_is_not_run_again_when_its_folder_is_lost(here: DaemonProcess) -> None:
    ids = some_jobs(here, 3)
    pids = [pid for job_id in ids[:1] if (pid := here.run(job_id).main_pid()) is not None]
    here.kill()
    for job_id in (ids[0], ids[2]):
        (here.folder / "runs" / job_id).rename(here.folder / f"away-{job_id}")
    try:
        here.start()
        here.wait_for(ids[0], "failed")
        assert f"the run folder of 2 jobs ({ids[0]}, {ids[2]}) is gone" in here.notices()
        here.wait_for(ids[2], "running")  # it never ran: its folder is made again
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_notices_are_shown_until_they_are_acknowledged(here: DaemonProcess) -> None:
    some_jobs(here, 4)
    here.kill()
    (here.folder / "dovetail.db-wal").unlink()
    here.start()
    assert "1 notice that nobody has acknowledged: dovetail doctor" in typed(here, "queue")
    assert "had lost its last" in typed(here, "doctor")
    assert "Acknowledged 1 notice." in typed(here, "doctor", "--acknowledge")
    assert "notice" not in typed(here, "queue")


def typed(here: DaemonProcess, *words: str) -> str:
    return CliRunner().invoke(cli, ["--home", str(here.folder), *words]).output


def test_what_was_never_acknowledged_leaves_no_trace(here: DaemonProcess) -> None:
    """The daemon died between making a job's folder and writing the job down."""
    folder = here.folder / "runs" / "7"
    folder.mkdir()
    (folder / "unsaid").touch()
    here.kill()
    here.start()
    assert here.notices() == ""
    assert not folder.exists()
    until(lambda: here.submit("true") != "")
