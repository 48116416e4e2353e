"""Whole trees of real processes: found, frozen, thawed, signalled, ended; strangers never."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dovetail.worlds.local import keeper
from dovetail.worlds.local.keeper import proc
from dovetail.worlds.local.runs import processes
from dovetail.worlds.local.runs.processes import Process
from dovetail.worlds.local.runs.run import Launch, ProcessRun
from waiting import until

PYTHON = (sys.executable, "-I", "-S", "-c")


class Bench:
    """Starts jobs, numbered from 1, and ends whatever a test leaves behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs_folder = folder / "runs"
        self.env_file = folder / "env.json"
        self.env_file.write_text(json.dumps({"PATH": os.environ["PATH"]}))
        self.runs: list[ProcessRun] = []

    def start(self, *argv: str) -> ProcessRun:
        """Begun, and the command itself at work."""
        job_id = str(len(self.runs) + 1)
        folder = self.runs_folder / job_id
        env = {"DOVETAIL_JOB_ID": job_id, "DOVETAIL_REPORT": str(folder / "reports.jsonl")}
        run = ProcessRun(folder / "1")
        run.launch(Launch(argv, str(self.folder), self.env_file, folder / "log", env))
        self.runs.append(run)
        assert run.wait_until_begun(30)
        until(lambda: run.main_pid() is None or not _is_keeper(run.main_pid() or 0))
        return run

    def log(self, job_id: int = 1) -> str:
        file = self.runs_folder / str(job_id) / "log"
        return file.read_text() if file.exists() else ""

    def lines(self, job_id: int = 1) -> list[str]:
        return self.log(job_id).splitlines()

    def clean_up(self) -> None:
        for number, run in enumerate(self.runs, start=1):
            if pid := run.keeper_pid():
                processes.kill(pid)
            until(partial(_is_over, run))
            processes.kill_leftovers(str(number), self.runs_folder)


def _is_over(run: ProcessRun) -> bool:
    return not run.is_alive()


def _is_keeper(pid: int) -> bool:
    """The job's process between its birth and its command."""
    try:
        return b"keeper" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.clean_up()


def keeper_of(run: ProcessRun) -> int:
    pid = run.keeper_pid()
    assert pid is not None
    return pid


FAMILY = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)      # its child is an orphan now
    print("orphan", os.getpid(), flush=True); time.sleep(600)
if os.fork() == 0:
    print("child", os.getpid(), flush=True); time.sleep(600)
os.wait()
print("main", os.getpid(), flush=True)
time.sleep(600)
"""


def family(bench: Bench) -> tuple[ProcessRun, dict[str, int]]:
    run = bench.start(*PYTHON, FAMILY)
    until(lambda: len(bench.lines()) == 3)
    return run, {name: int(pid) for name, pid in map(str.split, bench.lines())}


# ----------------------------------------------------------------------------- who belongs


def test_the_tree_holds_children_and_orphans_but_not_the_keeper(bench: Bench) -> None:
    run, members = family(bench)
    until(lambda: len(processes.tree(keeper_of(run))) == 3)
    tree = processes.tree(keeper_of(run))
    assert {process.pid for process in tree} == set(members.values())
    assert all(processes.is_alive(process.pid, process.started) for process in tree)


def test_nobody_has_a_tree_that_does_not_exist() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert processes.tree(child.pid) == []
    assert processes.kill(child.pid) == []
    assert processes.freeze(child.pid) == 0
    processes.terminate(child.pid, signal.SIGTERM)
    processes.thaw(child.pid)


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    stat = proc.read_stat(child.pid)
    assert stat is not None
    until(lambda: not processes.is_alive(child.pid, stat.started))
    assert proc.read_stat(child.pid) is not None
    child.wait()


def test_a_name_full_of_parentheses_and_spaces_is_read_right(tmp_path: Path) -> None:
    odd = tmp_path / "x) S 1 1 (y"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([odd, "600"])
    try:
        until(lambda: ") S 1" in Path(f"/proc/{child.pid}/comm").read_text())
        stat = proc.read_stat(child.pid)
        assert stat is not None
        assert (stat.parent, stat.threads) == (os.getpid(), 1)
    finally:
        child.kill()
        child.wait()


def test_a_stranger_who_got_the_number_is_never_signalled() -> None:
    child = subprocess.Popen(["sleep", "600"])
    try:
        stat = proc.read_stat(child.pid)
        assert stat is not None
        assert not processes.is_alive(child.pid, stat.started - 1)
        processes.signal_each([Process(child.pid, stat.started - 1)], signal.SIGKILL)
        assert not proc.send(child.pid, stat.started - 1, signal.SIGKILL)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.05)
        processes.signal_each([Process(child.pid, stat.started)], signal.SIGKILL)
        assert child.wait(120) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


# ------------------------------------------------------------------------------ what it uses


def test_memory_that_processes_share_counts_once(bench: Bench) -> None:
    job = "import os, time; x = b'x' * 64_000_000\n"
    job += "for _ in range(5): os.fork() or time.sleep(600)\n"
    job += "print('ready', flush=True); time.sleep(600)"
    run = bench.start(*PYTHON, job)
    until(lambda: bench.lines() == ["ready"])
    assert 64_000_000 <= processes.resident_bytes(keeper_of(run)) < 128_000_000


def test_processor_time_includes_that_of_processes_that_have_ended(bench: Bench) -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    job = f"{sys.executable} -I -S -c '{burn}'; ({sys.executable} -I -S -c '{burn}' &); sleep 600"
    run = bench.start("sh", "-c", job)
    until(lambda: processes.cpu_seconds(keeper_of(run)) > 0.3)
    until(lambda: len(processes.tree(keeper_of(run))) == 2)  # sh and sleep
    assert 0.3 < processes.cpu_seconds(keeper_of(run)) < 2


# ---------------------------------------------------------------------------------- freezing

COUNTERS = """
import hashlib, os, sys
def count(number):
    digest = b""
    for step in range(500):
        for _ in range(40): digest = hashlib.sha256(digest + bytes([number])).digest()
        if step % 100 == 0: os.write(1, b"%d %d %s\\n" % (number, step, digest.hex().encode()))
    os._exit(0)
for number in range(50):
    if os.fork() == 0: count(number)
while True:
    try: os.wait()
    except ChildProcessError: break
"""


def test_freezing_stops_fifty_busy_children_and_thawing_changes_nothing_in_their_output(
    bench: Bench,
) -> None:
    alone = bench.start(*PYTHON, COUNTERS)
    run = bench.start(*PYTHON, COUNTERS)
    frozen = 0
    while frozen < 5 and (pid := run.keeper_pid()):
        if processes.freeze(pid) > 0:
            frozen += 1
            assert_at_rest(run)
        processes.thaw(pid)
        time.sleep(0.02)
    assert frozen >= 1
    until(lambda: alone.ending() is not None and run.ending() is not None)
    assert sorted(bench.lines(1)) == sorted(bench.lines(2))
    assert len(bench.lines(1)) == 250


def assert_at_rest(run: ProcessRun) -> None:
    before = processes.tree(keeper_of(run)), processes.cpu_seconds(keeper_of(run))
    time.sleep(0.05)
    assert (processes.tree(keeper_of(run)), processes.cpu_seconds(keeper_of(run))) == before
    assert processes.is_frozen(keeper_of(run))


def test_one_process_frozen_twenty_times_prints_what_it_prints_alone(bench: Bench) -> None:
    job = "x = 1\nfor i in range(40):\n    for _ in range(20_000): x = x * 6364136223846793005 % 2**61"
    job += "\n    print(i, x, flush=True)"
    alone = bench.start(*PYTHON, job)
    until(lambda: alone.ending() is not None)
    run = bench.start(*PYTHON, job)
    for _ in range(20):
        if pid := run.keeper_pid():
            processes.freeze(pid)
            processes.thaw(pid)
    until(lambda: run.ending() is not None)
    assert bench.log(2) == bench.log(1)


def test_all_threads_of_a_process_are_stopped(bench: Bench) -> None:
    job = "import threading\ndef spin():\n    while True: pass\n"
    job += "for _ in range(4): threading.Thread(target=spin).start()\nprint('on', flush=True)"
    run = bench.start(*PYTHON, job)
    until(lambda: bench.lines() == ["on"])
    processes.freeze(keeper_of(run))
    assert_at_rest(run)
    processes.thaw(keeper_of(run))
    cpu_s = processes.cpu_seconds(keeper_of(run))
    until(lambda: processes.cpu_seconds(keeper_of(run)) > cpu_s)


FORKING = """
import os, time
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork() == 0:
        os.setsid()
        os.fork()
        time.sleep(0.02)
        os._exit(0)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
"""


def test_a_job_that_forks_all_the_time_is_frozen_as_a_whole_and_killed_as_a_whole(
    bench: Bench,
) -> None:
    run = bench.start(*PYTHON, FORKING)
    until(lambda: len(processes.tree(keeper_of(run))) > 10)
    processes.freeze(keeper_of(run))
    assert_at_rest(run)
    processes.thaw(keeper_of(run))
    assert processes.kill(keeper_of(run)) == []
    until(lambda: run.ending() is not None)
    ending = run.ending()
    assert ending is not None
    assert ending.signal == signal.SIGKILL


def test_a_job_with_a_cgroup_of_its_own_is_frozen_by_it(bench: Bench) -> None:
    run = bench.start("sh", "-c", "while :; do :; done")
    with own_cgroup(run) as group:
        processes.freeze(keeper_of(run))
        assert (group / "cgroup.freeze").read_text() == "1\n"
        assert processes.is_frozen(keeper_of(run))
        cpu_s = processes.cpu_seconds(keeper_of(run))
        time.sleep(0.05)
        assert processes.cpu_seconds(keeper_of(run)) == cpu_s
        processes.thaw(keeper_of(run))
        assert (group / "cgroup.freeze").read_text() == "0\n"
        until(lambda: processes.cpu_seconds(keeper_of(run)) > cpu_s)


def test_a_cgroup_that_holds_strangers_too_is_left_alone(bench: Bench) -> None:
    run = bench.start("sh", "-c", "while :; do :; done")
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        with own_cgroup(run) as group:
            (group / "cgroup.procs").write_text(str(stranger.pid))
            processes.freeze(keeper_of(run))
            assert (group / "cgroup.freeze").read_text() == "0\n"
            assert_at_rest(run)
            stranger.kill()
            stranger.wait()
    finally:
        stranger.kill()
        stranger.wait()


class own_cgroup:  # noqa: N801  reads as a verb: with own_cgroup(run)
    def __init__(self, run: ProcessRun) -> None:
        self.run = run

    def __enter__(self) -> Path:
        mount = processes._cgroup_mount()
        if mount is None or not os.access(mount, os.W_OK):
            pytest.skip("no cgroup here that we may write")
        self.group = mount / f"dovetail-test-{os.getpid()}"
        try:
            self.group.mkdir()
            (self.group / "cgroup.procs").write_text(str(self.run.main_pid()))
        except OSError as problem:
            pytest.skip(f"no cgroup here that we may write: {problem}")
        return self.group

    def __exit__(self, *problem: object) -> None:
        processes.kill(keeper_of(self.run))
        until(lambda: not (self.group / "cgroup.procs").read_text())
        self.group.rmdir()


# ------------------------------------------------------------------------ asking and ending

COUNT_SIGNALS = """
import os, signal, time
def note(number, frame): os.write(1, b"%s %d\\n" % (name, number))
name = b"main"
signal.signal(signal.SIGTERM, note)
for child in (b"same group", b"own group"):
    if os.fork() == 0:
        name = child
        if name == b"own group": os.setpgid(0, 0)
        os.write(1, b"ready\\n")
        while True: time.sleep(600)
os.write(1, b"ready\\n")
while True: time.sleep(600)
"""


def test_terminating_signals_every_process_once(bench: Bench) -> None:
    run = bench.start(*PYTHON, COUNT_SIGNALS)
    until(lambda: bench.lines() == ["ready"] * 3)
    processes.terminate(keeper_of(run), signal.SIGTERM)
    until(lambda: len(bench.lines()) == 6)
    time.sleep(0.05)
    assert sorted(bench.lines()[3:]) == ["main 15", "own group 15", "same group 15"]
    assert run.is_alive()


def test_a_frozen_job_gets_the_signal_when_it_is_thawed(bench: Bench) -> None:
    run = bench.start("sleep", "600")
    processes.freeze(keeper_of(run))
    processes.terminate(keeper_of(run), signal.SIGTERM)
    assert run.ending() is None
    processes.thaw(keeper_of(run))
    until(lambda: run.ending() is not None)
    ending = run.ending()
    assert ending is not None
    assert ending.signal == signal.SIGTERM


def test_a_job_that_ignores_sigterm_is_killed_also_while_it_is_stopped(bench: Bench) -> None:
    run = bench.start("sh", "-c", "trap '' TERM; echo on; sleep 600 & sleep 600")
    until(lambda: bench.lines() == ["on"])
    processes.terminate(keeper_of(run), signal.SIGTERM)
    assert len(processes.tree(keeper_of(run))) >= 1
    processes.freeze(keeper_of(run))
    assert processes.kill(keeper_of(run)) == []
    until(lambda: run.ending() is not None)
    ending = run.ending()
    assert ending is not None
    assert ending.signal == signal.SIGKILL


# --------------------------------------------------------------------------------- leftovers


def test_what_a_keeper_killed_with_its_guard_leaves_behind_is_found_and_ended(bench: Bench) -> None:
    run, members = family(bench)
    assert processes.leftovers("1", bench.runs_folder) == []
    guard = json.loads((run.folder / keeper.KEEPER).read_text())["guard"]
    for pid in (guard, keeper_of(run)):
        os.kill(pid, signal.SIGKILL)
    until(run.is_lost)
    until(lambda: len(processes.leftovers("1", bench.runs_folder)) == 2)
    left = {process.pid for process in processes.leftovers("1", bench.runs_folder)}
    assert left == {members["child"], members["orphan"]}
    assert processes.kill_leftovers("1", bench.runs_folder) == []
    assert processes.leftovers("1", bench.runs_folder) == []


def test_processes_of_other_jobs_and_other_daemons_are_no_leftovers(bench: Bench) -> None:
    for job_id, folder in (("1", "elsewhere"), ("11", "runs")):
        report = bench.folder / folder / job_id / "reports.jsonl"
        env: dict[str, Any] = {"DOVETAIL_JOB_ID": job_id, "DOVETAIL_REPORT": str(report)}
        child = subprocess.Popen(["sleep", "600"], env={**os.environ, **env})
        try:
            assert processes.leftovers("1", bench.runs_folder) == []
            found = processes.leftovers(job_id, bench.folder / folder)
            assert [process.pid for process in found] == [child.pid]
        finally:
            child.kill()
            child.wait()
