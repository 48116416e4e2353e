"""What is old goes, by age and by size; a row of every job stays, and nothing that is needed goes."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from dovetail.core.errors import BadInput
from dovetail.daemon import main
from dovetail.daemon.history import account_process as account
from dovetail.daemon.history import retention
from dovetail.daemon.history.retention import Keep, Retention, keep_of
from dovetail.daemon.submissions import Submission
from dovetail.jobfiles.job_model import read
from live_box import ME, Box, box
from study_box import open_study, page


def tending(here: Box, keep: Keep) -> Retention:
    return Retention(here.home, here.service._parts, here.service, keep)


def archived(here: Box, kind: str) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    for path in sorted(here.home.archive.glob(f"{kind}-*.jsonl.gz")):
        lines += [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    return lines


@pytest.mark.parametrize(
    ("words", "keep"),
    [
        ([], Keep()),
        (["runs=7d"], Keep(runs_days=7)),
        (["runs=20GB", "journal=1y"], Keep(runs_gb=20, journal_days=365)),
        (["runs=forever"], Keep(runs_days=float("inf"), runs_gb=float("inf"))),
        (["environments=no"], Keep(environments=False)),
        (["environments=no", "environments=yes"], Keep()),
        (["runs=forever", "runs=30d"], Keep(runs_days=30, runs_gb=float("inf"))),
        (["runs=forever", "runs=5GB"], Keep(runs_days=float("inf"), runs_gb=5)),
    ],
)
def test_how_long_things_are_kept_is_said_in_words(words: list[str], keep: Keep) -> None:
    assert keep_of(words) == keep
    assert keep_of(keep.to_words()) == keep


def test_what_cannot_be_understood_is_refused_with_an_example() -> None:
    for word in ("runs=soon", "runs=30", "runs=30h", "runs=30MB", "runs"):
        told = rf"--keep {word}: of runs say days \(runs=30d\), years .*, gigabytes .* or forever"
        with pytest.raises(BadInput, match=told):
            keep_of([word])
    with pytest.raises(BadInput, match=r"--keep journal=9GB: of the journal say how long: days"):
        keep_of(["journal=9GB"])
    with pytest.raises(BadInput, match=r"--keep logs=9d: say what and how long: runs=30d"):
        keep_of(["logs=9d"])


def test_run_folders_of_old_jobs_go_and_their_rows_stay(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("of somebody else")
    with box(tmp_path / "box") as here:
        done = here.submit(f"ln -s {precious} $DOVETAIL_CHECKPOINT_DIR/link; echo over")
        array = here.service.submit([_array(here)], ME)
        runs, waits = here.submit("sleep 60"), here.submit("exit 0", after=[])
        here.service.pause([waits], ME)
        here.wait(done, *array)
        assert tending(here, Keep()).remove_old_runs() == 0
        assert tending(here, Keep(runs_days=0)).remove_old_runs() == 3
        left = {path.name for path in here.home.runs.iterdir() if path.name[0].isdigit()}
        assert left == {runs, waits}
        assert (precious / "data").exists()
        assert here.job(done)["exit_code"] == 0
        assert {line["id"] for line in archived(here, "jobs")} == {done, *array, array[0][:-2]}
    with box(tmp_path / "box") as again:
        assert again.daemon.notices.all == ()  # that they are gone is no loss
        assert again.submit("true") == str(int(waits) + 1)


DEEP = """
import os
os.chdir(os.environ["DOVETAIL_CHECKPOINT_DIR"])
for _ in range(1500):
    os.mkdir("d"), os.chdir("d")
"""


def test_folders_of_any_depth_are_counted_and_go(tmp_path: Path) -> None:
    """One that cannot be walked through would keep all the others on the disk, too."""
    with box(tmp_path / "box") as here:
        deep, other = here.submit(f"python3 -c '{DEEP}'"), here.submit("exit 0")
        here.wait(deep, other)
        assert here.job(deep)["exit_code"] == 0
        assert tending(here, Keep(runs_gb=0)).remove_large_runs() == 2
        assert not [path for path in here.home.runs.iterdir() if path.name != "live"]


def _array(here: Box) -> Submission:
    spec = read({"run": "exit 0", "array": "0-1"})
    return Submission(spec, {"PATH": os.environ["PATH"]}, str(here.home.state))


def test_trials_of_an_open_study_keep_their_folders(tmp_path: Path) -> None:
    """Another trial may go on from what they saved."""
    with box(tmp_path / "box", slots=1, policy="fifo-skip") as here:
        open_study(here, trials=2, steps=2, pace=0.05, policy="fifo")
        here.wait_for(lambda: page(here)["done"] >= 1)
        here.daemon.studies.stop("digits", ME)
        if page(here)["state"] == "stopped":  # else both were done already
            assert tending(here, Keep(runs_days=0)).remove_old_runs() == 0
            here.daemon.studies.cancel("digits", ME)
        assert tending(here, Keep(runs_days=0)).remove_old_runs() >= 1


def test_a_job_whose_processes_are_still_ending_keeps_its_folder(tmp_path: Path) -> None:
    with box(tmp_path / "box") as here:
        done = here.submit("exit 0")
        here.wait(done)
        note = here.home.runs / "live" / done
        here.wait_for(lambda: not note.exists())
        note.write_text("1")
        assert tending(here, Keep(runs_days=0)).remove_old_runs() == 0
        note.unlink()
        assert tending(here, Keep(runs_days=0)).remove_old_runs() == 1


def test_the_largest_folders_go_by_age_until_they_fit(tmp_path: Path) -> None:
    with box(tmp_path / "box") as here:
        ids = [
            here.submit("head -c 3000000 /dev/urandom > $DOVETAIL_CHECKPOINT_DIR/x") for _ in "123"
        ]
        here.wait(*ids)
        order = [own.job_id for own in reversed(here.daemon.reader.history())]
        assert tending(here, Keep(runs_gb=0.0070)).remove_large_runs() == 1
        assert [here.home.folder(job_id).exists() for job_id in order] == [False, True, True]


def test_much_that_is_written_is_looked_at_before_the_hour_is_over(tmp_path: Path) -> None:
    with box(tmp_path) as here:
        job = here.submit("head -c 40000000 /dev/zero")
        tended = tending(here, Keep(runs_gb=0.02))
        here.wait(job)
        here.wait_for(lambda: not (here.home.runs / "live" / job).exists())
        tended._next = 0.0
        tended.tend()
        assert not here.home.folder(job).exists()


def test_old_entries_go_into_archives_and_a_start_needs_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "SNAPSHOT_EVERY", 10)
    monkeypatch.setattr(retention, "_AT_ONCE", 7)
    with box(tmp_path / "box") as here:
        for _ in range(6):
            here.wait(here.submit("exit 0"))
        runs = here.submit("sleep 60")
        here.wait_until(runs, "running")
        before = [line for _, line in here.daemon.reader.lines_after(0)]
        assert tending(here, Keep()).prune_journal() == 0
        gone = tending(here, Keep(journal_days=0)).prune_journal()
        assert 10 <= gone <= here.daemon.reader.oldest_snapshot()
        kept = [line for _, line in here.daemon.reader.lines_after(0)]
        assert kept == before[gone:][: len(kept)]
        lines = archived(here, "journal")
        assert [line.pop("seq") for line in lines] == list(range(1, gone + 1))
        assert lines == [json.loads(line) for line in before[:gone]]
        here.leave()
    with box(tmp_path / "box") as again:
        assert again.phase(runs) == "running"
        assert len(again.daemon.reader.history()) == 6


def test_an_archive_that_a_kill_left_half_written_holds_every_line_once(tmp_path: Path) -> None:
    path = tmp_path / "archive" / "journal-2026-11.jsonl.gz"
    size = retention.append(path, 0, ["one", "two"])
    retention.append(path, size, ["three, and nobody was told"])
    os.truncate(path, path.stat().st_size - 5)
    retention.append(path, size, ["three", "four"])
    assert gzip.decompress(path.read_bytes()).split() == [b"one", b"two", b"three", b"four"]


def test_what_jobs_have_cost_is_the_same_without_the_old_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the books kept beside the journal, over restarts, as by reading all of it."""
    monkeypatch.setattr(main, "SNAPSHOT_EVERY", 12)
    prices = tmp_path / "costs.toml"
    prices.write_text("price = 0.5\n[watts]\ncpu = [1000, 1500]\n")
    with box(tmp_path / "box", costs=str(prices)) as here:
        for _ in range(4):
            here.wait(here.submit("sleep 0.2"))
        here.leave()
    with box(tmp_path / "box") as here:
        here.wait(*[here.submit("sleep 0.3") for _ in range(3)])
        now = here.daemon.clock()
        whole = here.daemon.account.since(0.0, now)
        assert whole["energy_kwh"] > 0
        tending(here, Keep(journal_days=0)).prune_journal()
        assert here.daemon.reader.first_seq() > 1
        assert here.daemon.account.since(0.0, now) == pytest.approx(whole)
    monkeypatch.setattr(account, "EXACT", 0)
    with box(tmp_path / "box") as again:
        assert again.daemon.account.since(0.0, now) == pytest.approx(whole)
        mark = again.daemon.account.mark(again.daemon.clock())
        assert mark is not None
        again.service.keep_meta(*mark)
        assert again.daemon.account.mark(again.daemon.clock()) is None
        later = again.daemon.account.since(again.daemon.clock(), again.daemon.clock())
        assert later["energy_kwh"] == pytest.approx(0.0, abs=1e-9)
