"""`dovetail run`: attached from submission to the end."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from typed_box import Box


def test_run_shows_the_output_and_ends_with_the_jobs_code(box: Box) -> None:
    said = box("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (said.code, said.out) == (7, "out\n")
    assert said.err.startswith("err\ndovetail: job ")
    assert "exit code 7" in said.err
    assert box("run", "--", "true") == (0, "", "")


def test_run_tells_a_signal_as_shells_do(box: Box) -> None:
    assert box("run", "--", "sh", "-c", "kill -9 $$").code == 128 + signal.SIGKILL


def test_a_program_that_is_not_there_fails_with_127(box: Box) -> None:
    said = box("run", "--", "no-such-program-anywhere")
    assert said.code == 127
    assert "no-such-program-anywhere" in said.err


def test_a_folder_that_is_not_there_is_refused_at_once(box: Box, tmp_path: Path) -> None:
    for verb in ("run", "submit"):
        said = box(verb, "--workdir", tmp_path / "none", "--", "true")
        assert (said.code, said.out) == (1, "")
        assert f"workdir: there is no folder '{tmp_path}/none'; make it first" in said.err
    (tmp_path / "file").touch()
    assert "there is no folder" in box("submit", "--workdir", tmp_path / "file", "--", "true").err
    maker = box.submit("--", "mkdir", tmp_path / "later")
    job = box.submit("--after", maker, "--workdir", tmp_path / "later", "--", "pwd")
    box.well("wait", job)
    assert box.well("logs", job) == f"{tmp_path}/later\n"


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
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "cancelling job" in err
    assert box.json("history", "--name", "interrupted")[0]["phase"] == "cancelled"


def test_following_survives_a_daemon_that_is_started_anew(box: Box) -> None:
    command = box.command("run", "--", "sh", "-c", "echo 1; cat")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        assert "1 job still running" in box.well("down")
        process.stdin.write(b"2\n")
        process.stdin.close()
        assert "1 go on" in box.well("up", "--slots", 2)
        assert process.stdout.read() == b"2\n"
        assert process.wait(120) == 0
