"""Jobs in terminals: real ones, with a real daemon, which is killed in mid-session too."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from typed_box import Box
from typed_terminal import Terminal
from waiting import stays, until

BASH = {"SHELL": "/bin/bash", "PS1": "$ ", "INPUTRC": "/dev/null"}
PLAIN = ("--", "bash", "--norc", "--noprofile")


@pytest.fixture(scope="module", autouse=True)
def plain_shell() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(BASH)
    yield
    os.environ.clear()
    os.environ.update(before)


def shell_on(box: Box, *options: object, command: tuple[str, ...] = PLAIN) -> tuple[Terminal, str]:
    """A terminal with a shell in it that has shown its prompt, and the number of its job."""
    terminal = Terminal(box.command("shell", *options, *command))
    terminal.until("$ ")
    terminal.seen = b""
    terminal.type("echo job''=$DOVETAIL_JOB_ID.\r")
    terminal.until("job=")
    terminal.until(".\r\n")
    found = re.search(rb"job=(\d+)\.", terminal.seen)
    assert found
    return terminal, found[1].decode()


def say(terminal: Terminal, line: str, answer: str) -> None:
    terminal.seen = b""
    terminal.type(line + "\r")
    terminal.until(answer)


def code_of(terminal: Terminal) -> int:
    def ended() -> int | None:
        terminal._read(0.05)
        pid, status = os.waitpid(terminal.pid, os.WNOHANG)
        return status if pid else None

    deadline = time.monotonic() + 60
    while (status := ended()) is None:
        assert time.monotonic() < deadline, terminal.seen[-500:]
    os.close(terminal.fd)
    return os.waitstatus_to_exitcode(status)


def test_a_shell_is_a_terminal_of_its_own_with_job_control_and_the_windows_size(box: Box) -> None:
    terminal, job = shell_on(box)
    say(terminal, "tty; stty size", "24 90")
    terminal.resize(40, 111)
    terminal.seen = b""
    until(lambda: _says(terminal, "stty size\r", b"40 111"))
    terminal.type("sleep 1234\r")
    until(lambda: _runs("sleep 1234"))
    say(terminal, "\x03echo inter''rupted", "interrupted")
    say(terminal, "exit 5", "exit")
    assert code_of(terminal) == 5
    assert box.json("show", job)["exit_code"] == 5
    assert not box.json("show", job)["spec"]["preemptible"]


def _says(terminal: Terminal, line: str, answer: bytes) -> bool:
    terminal.type(line)
    time.sleep(0.1)
    terminal._read(0.1)
    return answer in terminal.seen


def _runs(words: str) -> bool:
    """Does a process with exactly these words run on this machine?"""
    told = words.replace(" ", "\0").encode() + b"\0"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes() == told:
                return True
    return False


def test_interrupting_a_shell_that_waits_cancels_it(box: Box) -> None:
    blocker = box.sh("sleep 600", "--gpus", 2)
    box.in_phase(blocker, "running")
    terminal = Terminal(box.command("shell", "--gpus", 1, *PLAIN))
    terminal.until("waits for its GPUs")
    terminal.type("\x03")
    assert code_of(terminal) == 130
    assert b"cancelling" in terminal.seen
    box.well("cancel", blocker)


def test_several_look_at_one_terminal_and_leave_it(box: Box) -> None:
    terminal, job = shell_on(box)
    say(terminal, "echo ear''lier", "earlier")
    guest = Terminal(box.command("attach", job))
    guest.until("earlier")  # what was printed before is shown first
    guest.type("echo from''guest\r")
    terminal.until("fromguest")
    guest.until("fromguest")
    watcher = Terminal(box.command("attach", "--read-only", "--detach-key", "ctrl-a", job))
    watcher.until("fromguest")
    watcher.type("echo no''body\r")
    guest.type("\x1d")
    guest.until("comes back")
    assert code_of(guest) == 0
    say(terminal, "echo af''ter", "after")
    watcher.until("after")
    watcher.type("\x01")
    assert code_of(watcher) == 0
    assert b"nobody" not in terminal.seen
    terminal.type("exit\r")
    assert code_of(terminal) == 0


def test_a_shell_ends_when_its_terminal_was_gone_for_as_long_as_told(box: Box) -> None:
    terminal, job = shell_on(box, "--linger", "2s")
    os.kill(terminal.pid, signal.SIGKILL)
    os.waitpid(terminal.pid, 0)
    row = box.until(job, lambda row: row["phase"] == "cancelled")
    assert row["reason"] == "its terminal was gone for 2 s"


def test_whoever_comes_back_in_time_finds_the_shell_as_it_was(box: Box) -> None:
    terminal, job = shell_on(box, "--linger", "60s")
    say(terminal, "remember=me", "$ ")
    os.close(terminal.fd)  # the window is closed
    os.waitpid(terminal.pid, 0)
    back = Terminal(box.command("attach", job))
    back.until("remember")
    say(back, "echo $remember.", "me.")
    back.type("exit 3\r")
    assert code_of(back) == 3


def test_a_killed_daemon_is_not_missed_by_a_shell(
    make_box: Callable[[Path], Box], tmp_path: Path
) -> None:
    box = make_box(tmp_path / "home")
    box.well("up", "--slots", 1)
    terminal, _ = shell_on(box)
    say(terminal, "echo bef''ore; (sleep 1; echo mean''while) &", "before")
    os.kill(_daemon(box), signal.SIGKILL)
    terminal.type("echo typed''-while-it-was-away\r")
    time.sleep(1.2)
    box.well("up", "--slots", 1)
    terminal.until("typed-while-it-was-away")
    terminal.until("meanwhile")
    assert terminal.seen.count(b"typed-while-it-was-away") == 1
    terminal.type("exit 4\r")
    assert code_of(terminal) == 4


def _daemon(box: Box) -> int:
    return int(json.loads((box.home / "daemon.json").read_text())["pid"])


def test_a_character_that_comes_in_pieces_is_whole_at_the_other_end(box: Box) -> None:
    words = "import os,time\nfor b in '€名'.encode()*50: os.write(1,bytes([b])); time.sleep(.002)"
    terminal = Terminal(box.command("run", "-it", "--", sys.executable, "-c", words))
    assert code_of(terminal) == 0
    assert terminal.seen.decode().count("€名") == 50


def test_much_output_comes_whole(box: Box) -> None:
    script = "stty raw; dd if=/dev/zero bs=1M count=128 2>/dev/null | tr '\\0' x; echo END"
    terminal = Terminal(box.command("run", "-it", "--", "sh", "-c", script))
    came, deadline = 0, time.monotonic() + 120
    while b"END" not in terminal.seen and time.monotonic() < deadline:
        terminal.seen = terminal.seen[-100:]
        terminal._read(1.0)
        came += terminal.seen.count(b"x") - min(came, 100)
    assert b"gone" not in terminal.seen
    assert came >= 128 << 20
    assert code_of(terminal) == 0


def test_a_client_that_stops_reading_does_not_stop_the_job(box: Box, tmp_path: Path) -> None:
    done = tmp_path / "done"
    script = f"head -c 20000000 /dev/zero | tr '\\0' x; touch {done}; sleep 600"
    terminal = Terminal(box.command("run", "-it", "--name", "unread", "--", "sh", "-c", script))
    terminal.until("xxx")
    os.kill(terminal.pid, signal.SIGSTOP)
    until(done.exists)
    os.kill(terminal.pid, signal.SIGKILL)
    os.waitpid(terminal.pid, 0)
    assert box("cancel", "unread").code == 0


def test_a_suspended_shell_goes_on_where_it_was(box: Box) -> None:
    terminal, job = shell_on(box, "--preemptible")
    counts = "i=0; while :; do i=$((i+1)); echo count$i.; sleep .05; done"
    say(terminal, f"bash -c '{counts}'", "count3.")
    for _ in range(3):
        box.well("pause", job)
        box.in_phase(job, "suspended")
        terminal.until("stands still")
        assert box("exec", job, "--", "true").err.startswith(f"dovetail: job {job} is suspended")
        box.well("resume", job)
        terminal.until("it goes on")
        terminal.seen = b""
        terminal.until("count")
    assert b"Stopped" not in terminal.seen
    terminal.type("\x03")  # still in the foreground
    say(terminal, "jobs; echo no''ne", "none")
    assert b"Stopped" not in terminal.seen
    box.well("pause", job)
    terminal.type("echo while-it''-stands\r")
    stays(lambda: b"while-it-stands" not in terminal.seen, 0.3)
    box.well("resume", job)
    terminal.until("while-it-stands")
    terminal.type("exit\r")
    assert code_of(terminal) == 0


# ------------------------------------------------------------------------------------------- exec


def test_exec_has_the_jobs_world_its_own_exit_code_and_separate_streams(box: Box) -> None:
    job = box.submit("--env", "OWN=word", "--", "sleep", "600")
    box.in_phase(job, "running")
    said = box("exec", job, "--", "sh", "-c", "echo $OWN $DOVETAIL_JOB_ID; echo oops >&2; exit 7")
    assert said == (7, f"word {job}\n", "oops\n")
    assert box("exec", job, "--", "no-such-command").code == 127
    given = subprocess.run(
        box.command("exec", job, "--", "wc", "-c"),
        input=b"x" * 3_000_000,
        capture_output=True,
        check=True,
    )
    assert given.stdout.strip() == b"3000000"
    much = subprocess.run(
        box.command("exec", job, "--", "head", "-c", "60000000", "/dev/zero"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert len(much.stdout) == 60_000_000
    box.well("cancel", job)


def test_exec_can_be_interrupted_and_has_a_terminal_if_asked(box: Box) -> None:
    job = box.sh("sleep 600")
    box.in_phase(job, "running")
    script = "trap 'echo int; exit 9' INT; echo on; sleep 99"
    words = box.command("exec", job, "--", "sh", "-c", script)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"on\n"
        command.send_signal(signal.SIGINT)
        assert command.stdout.readline() == b"int\n"
        assert command.wait(30) == 9
    terminal = Terminal(box.command("exec", "-it", job, "--", "bash", "--norc"))
    terminal.until("$ ")
    say(terminal, "tty && exit 6", "/dev/pts")
    assert code_of(terminal) == 6
    box.well("cancel", job)


def test_exec_ends_with_its_job(box: Box) -> None:
    job = box.sh("sleep 600")
    box.in_phase(job, "running")
    with subprocess.Popen(box.command("exec", job, "--", "sleep", "4321")) as beside:
        until(lambda: _runs("sleep 4321"))
        box.well("cancel", job)
        assert beside.wait(30) == 137


def test_attach_to_a_job_without_a_terminal_shows_what_it_prints(box: Box) -> None:
    job = box.sh("echo first; echo second; echo begun; sleep 600")
    box.in_phase(job, "running")
    terminal = Terminal(box.command("attach", job))
    terminal.until("has no terminal")
    terminal.until("begun")
    assert b"first\r\nsecond\r\nbegun" in terminal.seen  # each line begins at the left
    terminal.type("ignored\x1d")
    assert code_of(terminal) == 0
    box.well("cancel", job)


def test_what_cannot_be_is_said_in_one_line(box: Box) -> None:
    job = box.sh("true")
    box.in_phase(job, "finished")
    said: list[Any] = [
        box("shell"),
        box("run", "-it", "--", "bash"),
        box("exec", job, "--", "true"),
        box("attach", job),
    ]
    for one in said:
        assert one.code != 0
        assert one.err.count("\n") == 1
    assert "terminal" in said[0].err
    assert f"job {job} has finished: a command runs beside jobs that run" in said[2].err
