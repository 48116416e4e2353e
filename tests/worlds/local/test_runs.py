"""One launch: never twice, never lost, whoever is killed and when."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.worlds.endings import Ending
from dovetail.worlds.local import keeper
from dovetail.worlds.local.runs import processes
from dovetail.worlds.local.runs.run import Launch, ProcessRun
from waiting import until

PYTHON = (sys.executable, "-I", "-S", "-c")


class Bench:
    """Launches in one folder, and ends whatever a test leaves behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.env_file = folder / "env.json"
        self.env_file.write_text(json.dumps({"PATH": os.environ["PATH"]}))
        self.runs: list[ProcessRun] = []

    def launch(self, *argv: str, **changes: Any) -> Launch:
        values = {"cwd": str(self.folder), "env_file": self.env_file, "log": self.log}
        return Launch(argv, **{**values, **changes})

    def run(self) -> ProcessRun:
        self.runs.append(ProcessRun(self.folder / "runs" / "7" / str(len(self.runs) + 1)))
        return self.runs[-1]

    def started(self, *argv: str, **changes: Any) -> ProcessRun:
        run = self.run()
        run.launch(self.launch(*argv, **changes))
        assert run.wait_until_begun(30)
        return run

    def clean_up(self) -> None:
        for run in self.runs:
            if pid := run.keeper_pid():
                processes.kill(pid)
            until(partial(is_over, run))


def is_over(run: ProcessRun) -> bool:
    return not run.is_alive()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.clean_up()


def ended(run: ProcessRun) -> Ending:
    until(lambda: run.ending() is not None)
    ending = run.ending()
    assert ending is not None
    return ending


def test_a_run_begins_lives_and_ends(bench: Bench) -> None:
    run = bench.run()
    assert not run.begun()
    assert not run.is_alive()
    run.launch(bench.launch("sh", "-c", "while [ ! -e go ]; do sleep 0.01; done; exit 3"))
    assert run.wait_until_begun()
    assert run.is_alive()
    assert run.ending() is None
    assert os.getsid(run.keeper_pid() or 0) == run.keeper_pid()
    until(lambda: os.getsid(run.main_pid() or 0) == run.main_pid())  # a moment after its start
    (bench.folder / "go").touch()
    assert ended(run).code == 3
    until(lambda: not run.is_alive())
    assert (run.keeper_pid(), run.main_pid(), run.is_lost()) == (None, None, False)


def test_the_keeper_does_not_stay_a_zombie_of_the_daemon(bench: Bench) -> None:
    run = bench.started("true")
    pid = json.loads((run.folder / keeper.KEEPER).read_text())["pid"]
    until(lambda: run.ending() is not None and not Path(f"/proc/{pid}").exists())


def test_its_files_are_for_its_owner_alone(bench: Bench) -> None:
    run = bench.started("echo", "secret")
    ended(run)
    assert run.folder.stat().st_mode & 0o777 == 0o700
    for file in (bench.log, *run.folder.iterdir()):
        assert file.stat().st_mode & 0o077 == 0, file


def test_the_descriptor_of_a_run_can_be_read_when_it_has_ended(bench: Bench) -> None:
    run = bench.started("sh", "-c", "while [ ! -e go ]; do sleep 0.01; done")
    handle = run.pidfd()
    try:
        assert select.select([handle], [], [], 0.05)[0] == []
        (bench.folder / "go").touch()
        assert select.select([handle], [], [], 30)[0] == [handle]
        assert run.ending() is not None  # it is there as soon as the keeper is gone
    finally:
        os.close(handle)
    with pytest.raises(ProcessLookupError):
        run.pidfd()


def test_a_job_sees_that_it_is_asked_to_stop(bench: Bench) -> None:
    run = bench.run()
    stop = str(run.folder / keeper.STOP)
    job = 'echo on; while [ ! -e "$DOVETAIL_STOP" ]; do sleep 0.01; done; exit 85'
    run.launch(bench.launch("sh", "-c", job, env={"DOVETAIL_STOP": stop}))
    until(bench.log.exists)
    was_asked = run.stop_asked
    run.ask_to_stop()
    assert (was_asked, run.stop_asked) == (False, True)
    assert ended(run).code == 85


def test_a_run_that_was_called_off_before_its_launch_never_runs_but_ends(bench: Bench) -> None:
    run = bench.run()
    run.ask_to_stop()
    run.launch(bench.launch("sh", "-c", "echo ran"))
    assert ended(run).signal == signal.SIGTERM
    assert not bench.log.exists()


def test_no_command_is_a_clear_mistake(bench: Bench) -> None:
    with pytest.raises(BadInput, match="there is no command to run"):
        bench.launch()


# -------------------------------------------------------------------- never twice, never lost


def test_launching_again_at_any_time_runs_nothing_again(bench: Bench) -> None:
    run = bench.run()
    launch = bench.launch("sh", "-c", "echo once; while [ ! -e go ]; do sleep 0.01; done")
    for _ in range(3):
        run.launch(launch)
    assert run.wait_until_begun()
    ProcessRun(run.folder).launch(launch)
    (bench.folder / "go").touch()
    ended(run)
    run.launch(launch)
    until(lambda: not run.is_alive())
    assert bench.log.read_text() == "once\n"


def test_a_launch_that_was_written_down_but_never_begun_runs_when_launched_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bench.run()
    with monkeypatch.context() as patch:
        patch.setattr(ProcessRun, "_spawn", _die)
        with pytest.raises(KeyboardInterrupt):
            run.launch(bench.launch("echo", "once"))
    assert (run.folder / keeper.LAUNCH).exists()
    assert not run.begun()
    ProcessRun(run.folder).launch(bench.launch("echo", "once"))
    assert ended(run).code == 0
    assert bench.log.read_text() == "once\n"


def _die(run: ProcessRun) -> None:
    raise KeyboardInterrupt


DAEMON = """
import sys, time
from pathlib import Path
from dovetail.worlds.local.runs.run import Launch, ProcessRun
folder, env_file, log, command = sys.argv[1:]
print("ready", flush=True)
ProcessRun(Path(folder)).launch(Launch(("sh", "-c", command), "/", Path(env_file), Path(log)))
print("launched", flush=True)
time.sleep(600)
"""


def daemon(bench: Bench, run: ProcessRun, command: str) -> "subprocess.Popen[bytes]":
    """Another process that launches, and which a test may kill."""
    arguments = [str(run.folder), str(bench.env_file), str(bench.log), command]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", DAEMON, *arguments], stdout=subprocess.PIPE, env=env
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


def test_a_job_outlives_the_daemon_and_is_adopted_by_the_next(bench: Bench) -> None:
    run = bench.run()
    old = daemon(bench, run, f"while [ ! -e {bench.folder}/go ]; do sleep 0.01; done; exit 7")
    until(run.begun)
    end(old)
    adopted = ProcessRun(run.folder)
    assert adopted.is_alive()
    assert adopted.main_pid() is not None
    handle = adopted.pidfd()
    (bench.folder / "go").touch()
    assert select.select([handle], [], [], 30)[0] == [handle]
    os.close(handle)
    assert ended(adopted).code == 7


def test_a_daemon_killed_at_any_moment_of_a_launch_neither_loses_nor_doubles_the_job(
    bench: Bench,
) -> None:
    for number in range(1, 13):
        run = bench.run()
        old = daemon(bench, run, f"echo {number}")
        time.sleep((number - 1) * 0.004)  # from before the launch to after its end
        end(old)
        run.launch(bench.launch("sh", "-c", f"echo {number}"))
        assert ended(run).code == 0
    assert bench.log.read_text() == "".join(f"{number}\n" for number in range(1, 13))


def test_a_keeper_that_cannot_begin_says_why_and_can_be_launched_again(bench: Bench) -> None:
    run = bench.run()
    (run.folder / keeper.LOCK).mkdir(parents=True)  # nobody can open this for writing
    run.launch(bench.launch("echo", "once"))
    assert not run.wait_until_begun()
    assert run.trouble().startswith("IsADirectoryError: ")
    (run.folder / keeper.LOCK).rmdir()
    run.launch(bench.launch("echo", "once"))
    assert ended(run).code == 0
    assert run.trouble() == ""


def test_a_run_whose_keeper_was_killed_is_lost_and_not_launched_again(bench: Bench) -> None:
    run = bench.started("sh", "-c", "echo once; sleep 600")
    until(lambda: bench.log.exists() and bench.log.read_text() == "once\n")
    assert not run.is_lost()
    os.kill(run.keeper_pid() or 0, signal.SIGKILL)
    until(run.is_lost)
    until(lambda: run.main_pid() is None)
    run.launch(bench.launch("echo", "twice"))
    assert run.is_lost()
    assert bench.log.read_text() == "once\n"


@pytest.mark.parametrize(
    "change", [{"started": 1, "child_started": 1, "guard_started": 1}, {"boot": "another"}]
)
def test_a_stranger_with_the_same_number_is_not_taken_for_the_keeper(
    bench: Bench, change: dict[str, object]
) -> None:
    run = bench.started("sleep", "600")
    known = json.loads((run.folder / keeper.KEEPER).read_text())
    stranger = ProcessRun(bench.folder / "stranger")
    stranger.folder.mkdir()
    (stranger.folder / keeper.KEEPER).write_text(json.dumps({**known, **change}))
    assert (stranger.begun(), stranger.is_alive(), stranger.is_lost()) == (True, False, True)
    assert (stranger.keeper_pid(), stranger.main_pid()) == (None, None)


# ----------------------------------------------------------------------------- another user


@pytest.mark.skipif(os.getuid() != 0, reason="only root runs jobs of others")
def test_a_job_runs_as_its_submitter_with_the_groups_of_theirs(bench: Bench) -> None:
    job = "id -u; id -g; id -G; umask"
    user = {"uid": 65534, "gid": 65533, "groups": (65533, 4242), "umask": 0o077}
    run = bench.started("sh", "-c", job, cwd="/", **user)
    assert ended(run).code == 0
    assert bench.log.read_text().splitlines() == ["65534", "65533", "65533 4242", "0077"]
    assert run.folder.stat().st_mode & 0o777 == 0o711
    assert (run.folder / keeper.LAUNCH).stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.getuid() != 0, reason="only root runs jobs of others")
def test_the_job_of_another_user_dies_with_its_keeper_and_leaves_nothing(bench: Bench) -> None:
    user = {"uid": 65534, "gid": 65534, "cwd": "/"}
    run = bench.started("sleep", "600", **user)
    os.kill(run.keeper_pid() or 0, signal.SIGKILL)
    until(lambda: run.main_pid() is None)
    report = bench.folder / "runs" / "7" / "reports.jsonl"
    mark = {"DOVETAIL_JOB_ID": "7", "DOVETAIL_REPORT": str(report)}
    other = bench.started("sh", "-c", "setsid sleep 600 & exit 2", env=mark, **user)
    assert ended(other).code == 2
    assert processes.leftovers("7", bench.folder / "runs") == []


@pytest.mark.skipif(os.getuid() == 0, reason="root may")
def test_who_may_not_become_another_user_is_told_so(bench: Bench) -> None:
    run = bench.started("true", uid=0, gid=0, groups=(0,))
    assert ended(run).code == 126
    assert ended(run).failure.startswith("cannot start: not allowed to run as user 0, group 0")
