"""Submitting as people of other queues know it: again, after, later, held, into files, not at all."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from typed_box import Box
from typed_box import box as box
from waiting import until


def test_an_ended_job_runs_again_with_its_environment_and_folder(box: Box, tmp_path: Path) -> None:
    words = ("--env", "COLOUR=blue", "--", "sh", "-c", 'echo "$COLOUR $SEEN $PWD"; exit 3')
    first = box.submit(*words, cwd=tmp_path, SEEN="then")
    box.in_phase(first, "failed")
    again = box.well("again", "-q", first, "--name", "second", SEEN="now").strip()
    row = box.in_phase(again, "failed")
    assert row["name"] == "second"
    assert row["exit_code"] == 3
    assert box.well("logs", again) == box.well("logs", first) == f"blue then {tmp_path}\n"


def test_an_ended_job_runs_again_with_other_gpus_and_variables(box: Box) -> None:
    script = 'echo "$DOVETAIL_GPUS $COLOUR"'
    first = box.sh(script, "--env", "COLOUR=blue")
    box.in_phase(first, "finished")
    again = box.well("again", "-q", first, "--gpus", 2, "--env", "COLOUR=red").strip()
    box.in_phase(again, "finished")
    assert box.well("logs", again) == "2 red\n"


def test_an_array_and_one_of_its_members_run_again(box: Box) -> None:
    array = box.sh("echo $DOVETAIL_ARRAY_INDEX", "--array", "3,5")
    for member in (f"{array}.3", f"{array}.5"):
        box.in_phase(member, "finished")
    whole = box.json("again", array)
    assert whole["ids"] == [f"{whole['id']}.3", f"{whole['id']}.5"]
    one = box.json("again", f"{array}.5")
    assert one["ids"] == [f"{one['id']}.5"]
    box.in_phase(one["ids"][0], "finished")
    assert box.well("logs", one["ids"][0]) == "5\n"


def test_who_has_not_ended_is_not_run_again(box: Box) -> None:
    job = box.sh("sleep 60")
    said = box("again", job)
    assert said.code == 1
    assert said.err == f"dovetail: job {job} has not ended; dovetail requeue lets it start over\n"
    box.well("cancel", job)
    assert "there is no job 99999" in box("again", "99999").err


def test_what_changed_in_the_folder_is_said(box: Box, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", tmp_path, *who, *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "train.py").write_text("1")
    git("add", ".")
    git("commit", "-qm", "one")
    job = box.submit("--", "true", cwd=tmp_path)
    box.in_phase(job, "finished")
    assert "is as it was then, at commit" in box.well("again", job)
    (tmp_path / "train.py").write_text("22")
    (tmp_path / "more.py").write_text("")
    told = box.well("again", job)
    assert "Changed since then and not committed: train.py, more.py." in told
    git("add", ".")
    git("commit", "-qm", "two")
    assert "1 commit after" in box.well("again", job)
    second = box.well("again", "-q", job).strip()
    at = subprocess.run(
        ["git", "-C", tmp_path, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    assert box.json("show", second)["commit"] == at.stdout.strip()  # where it is now


def test_a_job_waits_for_the_end_of_another_however_that_is(box: Box) -> None:
    first = box.sh("sleep 60")
    box.in_phase(first, "running")
    anyhow = box.sh("echo late", "--after-any", first)
    assert box.json("show", anyhow)["after_any"] == [first]
    box.well("cancel", first)
    box.in_phase(anyhow, "finished")


def test_a_job_runs_only_if_another_fails(box: Box, tmp_path: Path) -> None:
    hold = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    first, good = box.sh(f"{hold}; exit 1"), box.sh(hold)
    alert, needless = (
        box.sh("true", "--after-failed", first),
        box.sh("true", "--after-failed", good),
    )
    (tmp_path / "go").touch()
    box.in_phase(alert, "finished")
    row = box.in_phase(needless, "cancelled")
    assert row["reason"] == (
        f"not needed: it comes after the failure of job '{good}', which has finished"
    )
    said = box("submit", "--after-failed", good, "--", "true")
    assert f"job {good}, after whose failure this one is to come, has finished" in said.err


def test_a_job_begins_when_its_time_has_come_and_not_before(box: Box) -> None:
    asked_at = time.time()
    job = box.sh("true", "--begin", "+2s")
    assert re.fullmatch(r"begins (\d+ \w{3} )?\d\d:\d\d", box.json("show", job)["reason"])
    row = box.in_phase(job, "finished")
    assert row["started_at"] >= asked_at + 2
    later = box.sh("true", "--begin", "+3h")
    assert f"at once with `dovetail resume {later}`" in box.well("why", later)
    box.well("resume", later)
    box.in_phase(later, "finished")


def test_a_time_to_begin_outlives_the_daemon(tmp_path: Path) -> None:
    box = Box(tmp_path / "home")
    box.well("up", "--slots", 1)
    try:
        job = box.sh("true", "--begin", "+3s")
        box.well("down")
        box.well("up")
        box.in_phase(job, "finished")
    finally:
        box.well("down", "--cancel")


def test_a_held_job_waits_until_it_is_released(box: Box) -> None:
    job = box.sh("true", "--hold")
    told = f"held by its user; dovetail release {job}"
    assert box.json("show", job)["reason"] == told
    assert "held by its user" in box.well("queue")  # as much of it as the terminal has room for
    assert told in box.well("why", job)
    box.well("pause", job)
    assert box.json("show", job)["reason"] == told
    box.well("release", job)
    box.in_phase(job, "finished")


def test_nice_is_a_priority_the_other_way_round(box: Box) -> None:
    job = box.sh("true", "--nice", 5, "--hold")
    assert box.json("show", job)["priority"] == -5
    assert "say the same thing" in box("submit", "--nice", 1, "--priority", 1, "--", "true").err
    box.well("cancel", job)


def test_the_queue_lists_those_that_wait_in_the_order_in_which_they_go(box: Box) -> None:
    box.well("policy", "set", "fair-share")
    busy = [box.sh("sleep 600") for _ in range(2)]
    last, held = box.sh("true", "--nice", 2), box.sh("true", "--hold")
    first, second = box.sh("true", "--nice", 0), box.sh("true", "--nice", 1)
    wanted = [last, held, first, second]
    listed = [row["id"] for row in box.json("queue") if row["id"] in wanted]
    assert listed == [first, second, last, held]
    assert "place 3 in line" in box.well("why", last)
    box.well("cancel", *busy, *wanted)
    box.well("policy", "set", "fifo-skip")


def test_what_a_job_prints_goes_into_its_files_and_its_log(box: Box, tmp_path: Path) -> None:
    script = "echo out; sleep 0.1; echo err >&2"
    both = box.submit(
        "--output", "%x-%j.out", "--name", "a/b", "--", "sh", "-c", script, cwd=tmp_path
    )
    box.in_phase(both, "finished")
    assert (tmp_path / f"a_b-{both}.out").read_text() == "out\nerr\n"
    files = ("--array", "7", "--output", "%A_%a.out", "--error", "to/%A_%a.err")
    array = box.submit(*files, "--", "sh", "-c", script, cwd=tmp_path)
    box.in_phase(f"{array}.7", "finished")
    assert (tmp_path / f"{array}_7.out").read_text() == "out\n"
    assert (tmp_path / f"to/{array}_7.err").read_text() == "err\n"
    assert sorted(box.well("logs", f"{array}.7").split()) == ["err", "out"]


def test_a_file_that_cannot_be_written_is_said_and_nothing_runs(box: Box, tmp_path: Path) -> None:
    (tmp_path / "no").write_text("a file, no folder")
    job = box.submit("--output", "no/file", "--", "touch", "ran", cwd=tmp_path)
    row = box.in_phase(job, "failed")
    assert row["reason"] == ("cannot start: its output cannot be written to 'no/file': File exists")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("path", ["/dev/full", "pipe"])
def test_only_plain_files_take_what_a_job_prints(box: Box, tmp_path: Path, path: str) -> None:
    subprocess.run(["mkfifo", tmp_path / "pipe"], check=True)
    job = box.submit("--output", path, "--", "true", cwd=tmp_path)
    assert "cannot be written" in box.in_phase(job, "failed")["reason"]


def test_a_dry_run_submits_nothing(box: Box) -> None:
    before = box.json("history", "--limit", 1)
    told = box.well("submit", "--dry-run", "--array", "0-4", "--gpus", 2, "--", "true")
    assert told.startswith("It would be taken: 5 jobs of 2 GPUs each. Nothing was handed in;")
    said = box("submit", "--dry-run", "--gpus", 9, "--", "true")
    assert said.code == 1
    assert "could never run here" in said.err
    assert box.json("history", "--limit", 1) == before
    assert box.json("queue") == []


def test_lines_of_a_batch_script_mean_the_same(box: Box, tmp_path: Path) -> None:
    first = box.sh("exit 1")
    box.in_phase(first, "failed")
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH --output=slurm-%j.out --begin=now+1 --hold\n"
        f"#SBATCH --dependency=afternotok:{first},afterany:{first}\necho here\n"
    )
    job = box.submit(script, cwd=tmp_path)
    assert box.json("show", job)["reason"] == f"held by its user; dovetail release {job}"
    box.well("resume", job)
    box.in_phase(job, "finished")
    until(lambda: (tmp_path / f"slurm-{job}.out").read_text() == "here\n")
