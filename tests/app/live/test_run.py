"""`dovetail run`: attached from submission to the end."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from typed_box import Box


def test_run_shows_the_output_and_ends_with_the_jobs_code(box: Box) -> None:
    said = box("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (said.code, said.out) == (7, "out\nerr\n")
    assert said.err.startswith("dovetail: job ")
    assert "exit code 7" in said.err
    assert box("run", "--", "true") == (0, "", "")


def test_run_tells_a_signal_as_shells_do(box: Box) -> None:
    assert box("run", "--", "sh", "-c", "kill -9 $$").code == 128 + signal.SIGKILL


def test_a_program_that_is_not_there_fails_with_127(box: Box) -> None:
    said = box("run", "--", "no-such-program-anywhere")
    assert said.code == 127
    assert "no-such-program-anywhere" in said.err


def test_a_folder_that_is_gone_is_told(box: Box) -> None:
    said = box("run", "--workdir", "/no/such/folder", "--", "true")
    assert said.code != 0
    assert "/no/such/folder" in said.err


def test_interrupting_run_cancels_the_job(box: Box) -> None:
    process = subprocess.Popen(
        box.command("run", "--name", "interrupted", "--", "sh", "-c", "echo begun; exec sleep 60"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "cancelling job" in err
    assert box.json("history", "--name", "interrupted")[0]["phase"] == "cancelled"


def test_following_survives_a_daemon_that_is_started_anew(box: Box, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo 1; while [ ! -e {go} ]; do sleep 0.05; done; echo 2; echo 3"
    process = subprocess.Popen(
        box.command("run", "--", "sh", "-c", script), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    assert "1 job still running" in box.well("down")
    time.sleep(0.3)
    assert "1 go on" in box.well("up", "--slots", 2)
    go.touch()
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "2\n3\n")
