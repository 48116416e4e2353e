"""The keeper beside real jobs: it begins once, outlives signals, and always says how it ended."""

import fcntl
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dovetail.worlds.endings import Ending
from dovetail.worlds.local import keeper
from dovetail.worlds.local.keeper import proc
from dovetail.worlds.local.keeper.pages import LogPages
from dovetail.worlds.local.runs import processes
from dovetail.worlds.local.runs.run import KEEPER_PROGRAM, Launch, ProcessRun
from waiting import until

PYTHON = (sys.executable, "-I", "-S", "-c")


class Bench:
    """Starts runs in folders 1, 2, … and ends whatever a test leaves behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.env_file = folder / "env.json"
        self.env_file.write_text(json.dumps({"PATH": os.environ["PATH"]}))
        self.mark = {"DOVETAIL_JOB_ID": "1", "DOVETAIL_REPORT": str(folder / "1" / "reports.jsonl")}
        self.runs: list[ProcessRun] = []
        self.keepers: list[subprocess.Popen[bytes]] = []

    def prepared(self, *argv: str, **changes: Any) -> ProcessRun:
        run = ProcessRun(self.folder / str(len(self.runs) + 1))
        run.folder.mkdir()
        values = {"cwd": str(self.folder), "env_file": self.env_file, "log": self.log}
        (run.folder / keeper.LAUNCH).write_text(Launch(argv, **{**values, **changes}).to_json())
        self.runs.append(run)
        return run

    def keep(self, run: ProcessRun, **options: Any) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-I", "-S", KEEPER_PROGRAM, str(run.folder)]
        self.keepers.append(subprocess.Popen(command, start_new_session=True, **options))
        return self.keepers[-1]

    def ending(self, *argv: str, **changes: Any) -> Ending:
        run = self.prepared(*argv, **changes)
        assert self.keep(run).wait(120) == 0
        ending = run.ending()
        assert ending is not None
        return ending

    def clean_up(self) -> None:
        for keep in self.keepers:
            processes.kill(keep.pid)
            keep.wait(120)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.clean_up()


# ------------------------------------------------------------------------------- how it ends


@pytest.mark.parametrize("code", [0, 3, 75])
def test_the_exit_code_is_told(bench: Bench, code: int) -> None:
    ending = bench.ending("sh", "-c", f"exit {code}")
    assert (ending.code, ending.signal, ending.failure) == (code, None, "")


def test_a_death_by_signal_is_told_as_such(bench: Bench) -> None:
    ending = bench.ending("sh", "-c", "kill -9 $$")
    assert (ending.code, ending.signal) == (None, signal.SIGKILL)


def test_time_and_memory_used_are_told(bench: Bench) -> None:
    work = "import time; x = bytearray(50_000_000)\nwhile time.process_time() < 0.1: pass"
    before = time.time()
    ending = bench.ending(*PYTHON, work)
    assert 0.1 <= ending.cpu_s < 2
    assert 50_000_000 < ending.max_rss_bytes < 200_000_000
    assert before < ending.ended_at < time.time()


def test_a_command_that_does_not_exist_fails_with_127_and_one_line(bench: Bench) -> None:
    closed = bench.folder / "closed"
    closed.mkdir(mode=0)
    ending = bench.ending("no-such-command", env={"PATH": f"/no/such/folder:{closed}:/bin"})
    assert ending.code == 127
    assert ending.failure == "cannot start: no command 'no-such-command' in its PATH"


def test_a_path_that_does_not_exist_fails_with_127_and_one_line(bench: Bench) -> None:
    ending = bench.ending("./train.sh")
    assert (ending.code, ending.failure) == (127, "cannot start: there is no './train.sh'")


def test_a_file_that_is_not_executable_fails_with_126_and_one_line(bench: Bench) -> None:
    (bench.folder / "train.sh").write_text("#!/bin/sh\n")
    ending = bench.ending("./train.sh")
    assert (ending.code, ending.failure) == (126, "cannot start: './train.sh' is not executable")


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        ("echo hello\n", 126, "cannot start './x': Exec format error (does it lack a #! line?)"),
        ("#!/none\n", 127, "cannot start: './x' names an interpreter that does not exist"),
    ],
)
def test_a_script_without_an_interpreter_says_so(
    bench: Bench, content: str, code: int, line: str
) -> None:
    (bench.folder / "x").write_text(content)
    (bench.folder / "x").chmod(0o755)
    ending = bench.ending("./x")
    assert (ending.code, ending.failure) == (code, line)


def test_a_work_folder_that_is_gone_fails_with_126_and_one_line(bench: Bench) -> None:
    ending = bench.ending("true", cwd="/no/such/folder")
    assert ending.code == 126
    assert ending.failure == "cannot start: its work folder '/no/such/folder' is gone"


def test_an_environment_file_that_is_gone_fails_with_126_and_one_line(bench: Bench) -> None:
    ending = bench.ending("true", env_file=Path("/no/such/file"))
    assert ending.code == 126
    assert ending.failure.startswith("cannot start: its environment cannot be read: ")


def test_a_value_that_no_environment_can_hold_fails_with_one_line(bench: Bench) -> None:
    ending = bench.ending("true", env={"A": "zero\0byte"})
    assert (ending.code, ending.failure) == (126, "cannot start: ValueError: embedded null byte")


def test_the_end_is_recorded_when_the_disk_is_full(tmp_path: Path) -> None:
    if not shutil.which("unshare"):
        pytest.skip("no mount namespaces here")
    unshare = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--user", "--map-root-user"])]
    mount = 'mount -t tmpfs -o size=1m none "$0" || exit 99; exec "$@" "$0"'
    fill = [sys.executable, "-c", FILL_THE_DISK, KEEPER_PROGRAM]
    command = [*unshare, "sh", "-c", mount, str(tmp_path), *fill]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    if done.returncode == 99 or done.stderr.startswith("unshare"):
        pytest.skip("no mount namespaces here")
    assert done.returncode == 0, done.stderr
    exit_json, log = done.stdout.split("---\n")
    assert json.loads(exit_json)["code"] == 7
    assert "bytes of output are missing here: No space left on device]" in log
    assert log.endswith("last words\n")


FILL_THE_DISK = """
import json, os, subprocess, sys, time
keeper, disk = sys.argv[1:]
run = disk + "/run"
os.mkdir(run)
job = '''
import os, sys, time
while not os.path.exists("full"): time.sleep(0.01)
sys.stdout.write("x" * 100_000); sys.stdout.flush()
open("printed", "w").close()
while os.path.exists("full"): time.sleep(0.01)
print("last words", flush=True)
while not os.path.exists("full"): time.sleep(0.01)
sys.exit(7)
'''
json.dump({}, open(run + "/env", "w"))
json.dump(dict(argv=[sys.executable, "-c", job], cwd=disk, env_file=run + "/env", env={},
    log=disk + "/log", log_bytes=1 << 20, uid=None, gid=None, groups=None),
    open(run + "/launch.json", "w"))
keep = subprocess.Popen([sys.executable, "-I", "-S", keeper, run], start_new_session=True)

def wait_for(happened):
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)

def fill():
    with open(disk + "/ballast", "wb", buffering=0) as file:
        try:
            while True: file.write(b"x" * 4096)
        except OSError: pass
    open(disk + "/full", "w").close()

wait_for(lambda: os.path.exists(run + "/exit.tmp"))
fill()
wait_for(lambda: os.path.exists(disk + "/printed"))
os.truncate(disk + "/ballast", 0)
os.remove(disk + "/full")
def printed():
    return os.path.exists(disk + "/log") and open(disk + "/log").read()

wait_for(lambda: (printed() or "").endswith("last words\\n"))
fill()
assert keep.wait(120) == 0
print(open(run + "/exit.json").read().strip())
print("---")
print(open(disk + "/log").read(), end="")
"""


# ------------------------------------------------------------------------ what the job gets


def test_the_environment_is_what_the_file_and_the_launch_say_and_nothing_else(
    bench: Bench,
) -> None:
    bench.env_file.write_text(json.dumps({"A": "1", "B": "two\nlines", "BYTES": "\udcff"}))
    assert bench.ending("/usr/bin/env", "-0", env={"A": "2", "C": ""}).code == 0
    lines = bench.log.read_bytes().rstrip(b"\0").split(b"\0")
    assert sorted(lines) == [b"A=2", b"B=two\nlines", b"BYTES=\xff", b"C="]


def test_a_job_inherits_no_open_files(bench: Bench) -> None:
    run = bench.prepared(*PYTHON, "import os; print(os.listdir('/proc/self/fd'))")
    with open(os.devnull) as file:
        os.set_inheritable(file.fileno(), True)
        assert bench.keep(run, close_fds=False).wait(120) == 0
    assert sorted(json.loads(bench.log.read_text().replace("'", '"'))) == ["0", "1", "2", "3"]


def test_a_job_has_a_session_and_a_process_group_of_its_own(bench: Bench) -> None:
    bench.ending(*PYTHON, "import os; print(os.getpid(), os.getsid(0), os.getpgid(0))")
    pid, session, group = bench.log.read_text().split()
    assert pid == session == group


def test_a_job_begins_with_no_signal_blocked_or_ignored(bench: Bench) -> None:
    run = bench.prepared("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert bench.keep(run, restore_signals=False).wait(120) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    masks = [int(line.split()[1], 16) for line in bench.log.read_text().splitlines()]
    the_c_librarys_own = 1 << 31 | 1 << 32  # signals 32 and 33: nobody else can set them
    assert [mask & ~the_c_librarys_own for mask in masks] == [0, 0]


def test_standard_input_is_empty_and_the_umask_is_as_launched(bench: Bench) -> None:
    bench.ending("sh", "-c", "cat; umask", umask=0o027)
    assert bench.log.read_text() == "0027\n"


# ----------------------------------------------------------------------------------- output


def test_output_and_errors_are_in_the_log_in_order_and_later_runs_append(bench: Bench) -> None:
    for number in (1, 2):
        bench.ending("sh", "-c", f"echo out {number}; echo err {number} >&2")
    assert bench.log.read_text() == "out 1\nerr 1\nout 2\nerr 2\n"


def test_a_log_that_grows_too_long_keeps_its_beginning_and_its_end(bench: Bench) -> None:
    bench.ending("seq", "200000", log_bytes=100_000)
    head = (bench.folder / "log.head").read_bytes()
    kept = (bench.folder / "log.1").read_bytes() + bench.log.read_bytes()
    assert 50_000 <= len(head) + len(kept) <= 100_000
    whole = "".join(f"{number}\n" for number in range(1, 200_001)).encode()
    assert (len(head), whole.startswith(head)) == (12_500, True)
    assert whole.endswith(kept)


def test_a_gigabyte_of_output_fills_neither_memory_nor_disk(bench: Bench) -> None:
    job = "head -c 1073741824 /dev/zero; echo the end; sleep 600"
    run = bench.prepared("sh", "-c", job, log_bytes=1 << 20)
    keep = bench.keep(run)
    until(lambda: _content(bench.log).endswith(b"the end\n"))
    assert _peak_bytes(run.keeper_pid() or 0) < 20_000_000
    assert sum(own.stat().st_size for own in bench.folder.glob("log*")) <= (1 << 20) + 100
    processes.kill(run.keeper_pid() or 0)
    assert keep.wait(120) == 0


def _content(log: Path) -> bytes:
    with suppress(FileNotFoundError):  # just being rotated
        return log.read_bytes()
    return b""


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_a_job_goes_on_when_its_log_cannot_be_written(bench: Bench) -> None:
    bench.log.symlink_to("/dev/full")
    assert bench.ending("sh", "-c", "seq 100000; exit 4").code == 4


def test_a_job_goes_on_when_its_log_cannot_be_opened(bench: Bench) -> None:
    assert bench.ending("sh", "-c", "seq 10; exit 4", log=Path("/no/such/folder/log")).code == 4


def test_what_could_not_be_written_is_noted_once_as_soon_as_it_can_be(tmp_path: Path) -> None:
    log = LogPages(str(tmp_path / "log"), 1 << 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        for _ in range(3):
            log.write(b"12345678")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.write(b"after\n")
    note = b"\n[dovetail: 14 bytes of output are missing here: File too large]\n"
    assert (tmp_path / "log").read_bytes() == b"1234567812" + note + b"after\n"


def test_a_job_that_closes_its_output_is_followed_to_its_end(bench: Bench) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert bench.ending("sh", "-c", "exec >&- 2>&-; sleep 0.7; exit 5").code == 5
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 0.4, "it went round"


# --------------------------------------------------------------------------- what it leaves


def test_children_that_keep_the_pipe_open_are_ended_with_the_job(bench: Bench) -> None:
    began = time.monotonic()
    assert bench.ending("sh", "-c", "sleep 600 & exit 6", env=bench.mark).code == 6
    assert time.monotonic() - began < 120
    assert processes.leftovers("1", bench.folder) == []


def test_a_thousand_children_that_hide_are_ended_with_the_job(bench: Bench) -> None:
    assert bench.ending(*PYTHON, HIDE, env=bench.mark).code == 9
    assert processes.leftovers("1", bench.folder) == []


HIDE = """
import os, signal, time
for _ in range(1000):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        os._exit(0)
    os.wait()
os._exit(9)
"""


def test_a_job_that_forks_without_end_is_ended_when_its_main_process_ends(bench: Bench) -> None:
    storm = "import os, time\nos.fork() or os.setsid()\n"
    storm += "end = time.monotonic() + 60\n"
    storm += "while time.monotonic() < end:\n    if os.fork(): time.sleep(0.01); os._exit(0)"
    run = bench.prepared(*PYTHON, storm)
    keep = bench.keep(run)
    assert keep.wait(120) == 0
    assert run.ending() is not None
    assert processes.tree(keep.pid) == []


def test_orphans_that_end_while_the_job_runs_do_not_stay_zombies(bench: Bench) -> None:
    run = bench.prepared("sh", "-c", "for i in $(seq 50); do (true & ); done; exec sleep 600")
    bench.keep(run)
    until(lambda: b"sleep" in _command_line(run))
    until(lambda: len(proc.descendants(run.keeper_pid() or 0, proc.all_processes())) == 1)


def _command_line(run: ProcessRun) -> bytes:
    pid = run.main_pid()
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] if pid else b""


# ---------------------------------------------------------------------- exactly one beginning


def test_the_keeper_outlives_signals_that_ask_it_to_end(bench: Bench) -> None:
    run = bench.prepared("sh", "-c", "while [ ! -e go ]; do sleep 0.01; done; exit 8")
    keep = bench.keep(run)
    until(run.begun)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        keep.send_signal(number)
        os.kill(run.keeper_pid() or 0, number)
    (bench.folder / "go").touch()
    assert keep.wait(120) == 0
    ending = run.ending()
    assert ending is not None
    assert ending.code == 8


def test_a_run_that_has_begun_is_never_begun_again(bench: Bench) -> None:
    run = bench.prepared("sh", "-c", "echo once")
    for _ in range(2):
        assert bench.keep(run).wait(120) == 0
    assert bench.log.read_text() == "once\n"


def test_of_keepers_that_race_exactly_one_runs_the_job(bench: Bench) -> None:
    for number in range(1, 21):
        run = bench.prepared("sh", "-c", f"echo {number}")
        for keep in [bench.keep(run) for _ in range(4)]:
            assert keep.wait(120) == 0
        assert run.ending() is not None
    assert bench.log.read_text() == "".join(f"{number}\n" for number in range(1, 21))


def test_a_keeper_that_lost_the_race_takes_over_when_the_winner_dies_early(bench: Bench) -> None:
    run = bench.prepared("sh", "-c", "echo done")
    with open(run.folder / keeper.LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keep = bench.keep(run)
        with pytest.raises(subprocess.TimeoutExpired):
            keep.wait(0.3)
    assert keep.wait(120) == 0
    assert bench.log.read_text() == "done\n"


def test_a_job_asked_to_stop_before_it_began_never_runs(bench: Bench) -> None:
    run = bench.prepared("sh", "-c", "echo ran")
    run.ask_to_stop()
    assert bench.keep(run).wait(120) == 0
    ending = run.ending()
    assert ending is not None
    assert (ending.code, ending.signal) == (None, signal.SIGTERM)
    assert ending.failure == "it was asked to stop before it began"
    assert not bench.log.exists()


def test_when_the_keeper_is_killed_the_main_process_dies_with_it(bench: Bench) -> None:
    run = bench.prepared("sleep", "600")
    keep = bench.keep(run)
    until(lambda: run.main_pid() is not None)
    os.kill(run.keeper_pid() or 0, signal.SIGKILL)
    assert keep.wait(120) == -signal.SIGKILL % 256
    assert run.main_pid() is None
    assert run.ending() is None


# Leaves its session, its parent, its environment and its files behind, as a program that hides would.
HIDES = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    open("hidden", "w").write(str(os.getpid()))
    for fd in range(3): os.close(fd)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.execve("/bin/sleep", ["sshd: nobody", "600"], {})
os.execve("/bin/sleep", ["sleep", "600"], {})
"""


def hidden(bench: Bench, run: ProcessRun) -> int:
    """The number of the process that hides, once it does."""
    note = bench.folder / "hidden"
    until(lambda: note.exists() and note.read_text() and b"sleep" in _command_line(run))
    pid = int(note.read_text())
    until(lambda: Path(f"/proc/{pid}/environ").read_bytes() == b"")
    return pid


def test_a_child_that_left_its_session_and_environment_is_ended_when_the_keeper_is_killed(
    bench: Bench,
) -> None:
    run = bench.prepared(*PYTHON, HIDES)
    keep = bench.keep(run)
    pid = hidden(bench, run)
    os.kill(run.keeper_pid() or 0, signal.SIGKILL)
    keep.wait(120)
    assert proc.read_stat(pid) is None
    assert not run.is_alive()
    assert run.is_lost()


def test_as_long_as_somebody_is_left_of_a_killed_keepers_job_the_run_is_not_over(
    bench: Bench,
) -> None:
    run = bench.prepared(*PYTHON, HIDES)
    keep = bench.keep(run)
    pid = hidden(bench, run)
    keep.send_signal(signal.SIGSTOP)  # as if it took its time
    until(lambda: (stat := proc.read_stat(keep.pid)) is not None and stat.state == "T")
    os.kill(run.keeper_pid() or 0, signal.SIGKILL)
    until(lambda: run.main_pid() is None)
    assert proc.read_stat(pid) is not None
    assert run.is_alive()
    assert not run.is_lost()
    handle = run.pidfd()
    keep.send_signal(signal.SIGCONT)
    assert select.select([handle], [], [], 120)[0]
    os.close(handle)
    assert proc.read_stat(pid) is None


def test_a_keeper_that_lost_its_guard_keeps_the_job_to_its_end(bench: Bench) -> None:
    run = bench.prepared("sh", "-c", "while [ ! -e go ]; do sleep 0.01; done; exit 8")
    keep = bench.keep(run)
    until(run.begun)
    keep.kill()
    keep.wait(120)
    assert run.is_alive()
    handle = run.pidfd()
    (bench.folder / "go").touch()
    assert select.select([handle], [], [], 120)[0]
    os.close(handle)
    ending = run.ending()
    assert ending is not None
    assert ending.code == 8


def test_a_keeper_imports_nothing_of_dovetail_but_its_own_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-X", "importtime", KEEPER_PROGRAM, str(tmp_path / "1")]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    imported = {line.rpartition("|")[2].strip() for line in told.splitlines() if "|" in line}
    assert "keeper.keeping" in imported
    assert not [name for name in imported if name.startswith("dovetail")]
    assert not imported & {
        "typing",
        "subprocess",
        "pathlib",
        "logging",
        "dataclasses",
        "re.compile",
    }


def test_an_idle_keeper_is_small_and_uses_no_processor_time(bench: Bench) -> None:
    run = bench.prepared("sleep", "600")
    keep = bench.keep(run)
    until((run.folder / "exit.tmp").exists)
    for pid in (keep.pid, run.keeper_pid() or 0):
        before = proc.read_stat(pid)
        time.sleep(0.3)
        after = proc.read_stat(pid)
        assert before is not None
        assert after is not None
        assert after.cpu_s - before.cpu_s <= 0.02
        assert after.resident_bytes < 20_000_000
