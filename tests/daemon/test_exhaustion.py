"""Whatever an ordinary process can use up, the daemon and its jobs go on, and say what is the matter."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from daemon_process import Away, Refused
from dovetail.daemon.http.access import SocketAccess
from dovetail.daemon.http.connections import ConnectionLimits
from dovetail.daemon.http.gate import Gate
from dovetail.daemon.http.network_access import NetworkAccess
from dovetail.daemon.users.callers import Caller
from dovetail.worlds.local.runs.run import ProcessRun
from dovetail.worlds.local.watching.watcher import Watcher
from processor_time import processor_s
from waiting import until

HOLD = "while [ ! -e {} ]; do sleep 0.05; done; exit 3"


@contextmanager
def idle(number: int, connect: Callable[[], socket.socket]) -> Iterator[list[socket.socket]]:
    """So many connections on which nobody asks anything."""
    with ExitStack() as kept:
        yield [kept.enter_context(connect()) for _ in range(number)]


def over(address: Any) -> Callable[[], socket.socket]:
    def connect() -> socket.socket:
        family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(120)
        connection.connect(address)
        return connection

    return connect


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def said_on(connection: socket.socket) -> str:
    parts = []
    with connection, ExitStack() as ignoring:
        ignoring.push(lambda kind, error, at: isinstance(error, ConnectionError))
        while part := connection.recv(4096):
            parts.append(part)
    return b"".join(parts).decode()


@pytest.fixture(scope="module")
def impatient(start: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return start(tmp_path_factory.mktemp("impatient"), patience_s=1.0)


@pytest.fixture(scope="module")
def small(start: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return start(tmp_path_factory.mktemp("small"), soft_files=200, most_files=256)


# ------------------------------------------------------------------------------------- connections


@pytest.mark.parametrize("files", [128, 1024])
def test_idle_connections_leave_the_jobs_and_the_loop_their_descriptors(
    start: Any, tmp_path: Path, files: int
) -> None:
    live = start(tmp_path, most_files=files, slots=4)
    go = tmp_path / "go"
    job_id = live.submit(HOLD.format(go))
    live.wait_for(job_id, "running")
    later = live.submit("exit 4")
    with idle(files - 5, over(str(live.socket))):
        status, answer = live.try_to("GET", "/v1/health")
        assert status == 503
        assert re.match(
            r"too many connections: \d+ are open in all, and \d+ may be", answer["error"]
        )
        go.touch()
        exits = tmp_path / "runs" / job_id / "1" / "exit.json"
        until(exits.exists)
        time.sleep(0.3)  # the daemon sees it while they are all there
    row = until(lambda: _row_if_told(live, job_id))
    assert (row["phase"], row["exit_code"]) == ("failed", 3)
    assert live.wait_for(later)["exit_code"] == 4
    assert live.wait_for(live.submit("exit 0"))["phase"] == "finished"
    assert live.get("/v1/health")["threads"] == ""
    assert live.own_log().count("\n") < 20


def _row_if_told(live: Any, job_id: str) -> Any:
    status, row = live.try_to("GET", f"/v1/jobs/{job_id}")
    return status == 200 and row["phase"] == "failed" and row


def test_who_has_no_token_cannot_keep_others_out(start: Any, tmp_path: Path) -> None:
    port = free_port()
    live = start(tmp_path, most_files=256, listen=f"127.0.0.1:{port}")
    connect = over(("127.0.0.1", port))
    with idle(250, connect):
        assert "too many connections" in said_on(connect())
        assert live.wait_for(live.submit("exit 0"))["phase"] == "finished"


def test_who_connects_has_to_ask_in_time_and_to_end_what_they_ask(impatient: Any) -> None:
    connect = over(str(impatient.socket))
    silent, dripping, half = connect(), connect(), connect()
    dripping.sendall(b"GET /v1/health HTTP/1.1\r\n")
    half.sendall(b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
    began = time.monotonic()
    while time.monotonic() - began < 1.5:  # a byte now and then does not help
        time.sleep(0.1)
        for connection in (dripping, half):
            try:
                connection.send(b"x")
            except ConnectionError:
                break
    for connection in (silent, dripping, half):
        assert said_on(connection).startswith("HTTP/1.1 408 ")


def test_a_connection_that_is_used_stays_and_one_that_follows_too(impatient: Any) -> None:
    live = impatient
    events = over(str(live.socket))()
    events.sendall(b"GET /v1/events?after=0 HTTP/1.1\r\nhost: x\r\n\r\n")
    kept = live.connection()
    for _ in range(2):
        kept.request("GET", "/v1/health")
        assert kept.getresponse().read()
        time.sleep(1.2)
    job_id = live.submit("exit 0")
    live.wait_for(job_id)
    until(lambda: b"finished" in events.recv(65536))
    events.close()
    kept.close()


def test_streams_of_one_user_are_limited_and_end_with_their_connection(small: Any) -> None:
    live = small  # 192 connections in all, of which 24 may be streams
    connect = over(str(live.socket))

    def follow() -> socket.socket:
        connection = connect()
        connection.sendall(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n")
        return connection

    def first_line(connection: socket.socket) -> bytes:
        return connection.recv(15)

    with ExitStack() as kept:
        streams = [kept.enter_context(follow()) for _ in range(24)]
        assert [first_line(one) for one in streams] == [b"HTTP/1.1 200 OK"] * 24
        assert "24 of yours follow logs or events" in said_on(follow())
        assert live.get("/v1/health")["threads"] == ""  # who only asks is served as before

    def is_let_in() -> bool:
        with follow() as connection:
            return first_line(connection) == b"HTTP/1.1 200 OK"

    until(is_let_in)


# --------------------------------------------------------------------------- processes that hide

HIDES = """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    open("hidden", "w").write(str(os.getpid()))
    for fd in range(3): os.close(fd)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.execve("/bin/sleep", ["sshd: nobody", "600"], {})
os.execve("/bin/sleep", ["sleep", "600"], {})
"""


def test_nobody_gets_the_slot_of_a_child_that_hid_before_it_is_gone(
    start: Any, tmp_path: Path
) -> None:
    """Its keeper is killed under another daemon than the one that started it."""
    live = start(tmp_path, slots=1)
    (tmp_path / "hides.py").write_text(HIDES)
    job_id = live.submit(f"exec {sys.executable} hides.py")
    note = tmp_path / "hidden"
    hidden = until(lambda: note.exists() and note.read_text())
    until(lambda: Path(f"/proc/{hidden}/environ").read_bytes() == b"")
    after = live.submit(f"kill -0 {hidden} && echo there || echo gone")
    live.process.kill()
    live.process.wait()
    live = start(tmp_path, slots=1)
    os.kill(ProcessRun(tmp_path / "runs" / job_id / "1").keeper_pid() or 0, signal.SIGKILL)
    assert live.wait_for(job_id)["phase"] == "failed"
    live.wait_for(after)
    assert live.text(f"/v1/jobs/{after}/log").splitlines()[-1] == "gone"


# --------------------------------------------------------------------------- descriptors of our own


def test_a_launch_that_finds_no_descriptor_is_tried_again(start: Any, tmp_path: Path) -> None:
    """As many as forty jobs start at once, with descriptors for a few: all of them run."""
    live = start(tmp_path, most_files=64, slots=40)
    ids = live.ask("POST", "/v1/jobs", {"jobs": [_job("sleep 0.5; exit 0", array="0-39")]})["ids"]
    ended = until(lambda: _all_ended(live, ids))
    assert {(row["phase"], row["reason"]) for row in ended} == {("finished", "")}


def test_jobs_have_the_limit_that_the_daemon_was_started_with(small: Any) -> None:
    live = small
    assert resource.prlimit(live.process.pid, resource.RLIMIT_NOFILE)[0] == 256
    job_id = live.submit("ulimit -Sn")
    live.wait_for(job_id)
    assert live.text(f"/v1/jobs/{job_id}/log").strip() == "200"


def _job(script: str, **spec: Any) -> dict[str, Any]:
    environment = {"PATH": os.environ["PATH"]}
    return {"spec": {"run": script, **spec}, "environment": environment, "workdir": "/tmp"}


def test_expressions_that_take_a_second_to_compile_hold_up_nobody(small: Any) -> None:
    """Sixty classes of a million characters each, without regard to case."""
    classes = "".join(rf"[{chr(97 + own % 20)}-\U0010ffff]" for own in range(60))
    asked = {
        "jobs": [
            _job("true", metric_pattern=f"(?i)(?P<x{own}>{classes})", after=["999999"])
            for own in range(60)
        ]
    }
    before_s = processor_s(small.process.pid)
    status, answer = small.try_to("POST", "/v1/jobs", asked)
    assert (status, processor_s(small.process.pid) - before_s < 20) == (404, True), answer


def test_others_are_heard_while_a_large_request_is_checked(small: Any) -> None:
    """Three hundred expressions that take ten milliseconds each to read."""
    expressions = [f"(?P<x{own}>{'()' * 450})" for own in range(300)]
    asked = {"jobs": [_job("true", metric_pattern=one, after=["999999"]) for one in expressions]}
    asking = threading.Thread(target=small.try_to, args=("POST", "/v1/jobs", asked))
    asking.start()
    answers = 0
    while asking.is_alive():
        small.get("/v1/health")
        answers += 1
    assert answers > 2


# Another user, as root has no limit; one who may read where Python lies.
LIMITED = (
    "setpriv --reuid=12345 --regid=12345 --clear-groups --inh-caps=+dac_override "
    "--ambient-caps=+dac_override prlimit --nproc={}"
)


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"), reason="needs to be root to be another user"
)
def test_a_launch_that_finds_no_process_is_tried_again(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that want more processes and threads than their user may have run one after the other."""
    os.chown(tmp_path, 12345, 12345)
    live = start(tmp_path, started_by=LIMITED.format(24).split(), slots=12)
    monkeypatch.chdir(tmp_path)
    live.socket = Path("dovetail.sock")  # from here: the way to it is closed to others
    os.seteuid(12345)
    try:
        job = _job(
            "exec sleep 0.2", array="0-11"
        )  # what a job itself cannot fork is its own affair
        ids = live.ask("POST", "/v1/jobs", {"jobs": [job]})["ids"]
    finally:
        os.seteuid(0)
        live.socket = tmp_path / "dovetail.sock"
    ended = until(lambda: _all_ended(live, ids))
    assert {(row["phase"], row["reason"]) for row in ended} == {("finished", "")}
    assert live.process.poll() is None


def _all_ended(live: Any, ids: list[str]) -> Any:
    try:
        jobs = live.get(f"/v1/history?limit={len(ids)}")["jobs"]
    except (Away, Refused):
        return None  # a daemon without descriptors to spare hangs up
    return jobs if len(jobs) == len(ids) else None


# ----------------------------------------------------------------------------------------- threads


def test_a_thread_that_dies_is_a_loud_end_and_the_jobs_go_on(start: Any, tmp_path: Path) -> None:
    live = start(tmp_path, dying_thread="some-thread")
    go = tmp_path / "go"
    job_id = live.submit(HOLD.format(go))
    live.wait_for(job_id, "running")
    (tmp_path / "die").touch()
    assert live.process.wait(120) == 1
    assert "the daemon ends, since its thread 'some-thread' died" in live.own_log()
    go.touch()
    assert start(tmp_path).wait_for(job_id)["exit_code"] == 3


def test_a_watcher_that_stumbles_looks_again_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.worlds.local.watching.watcher._LOOK_AGAIN_S", 0.1)
    probed: list[str] = []
    troubles: list[object] = []

    def probe() -> None:
        probed.append(watcher.trouble)
        watcher._probe_at = 0.0
        if len(probed) < 3:
            raise OSError(24, "Too many open files")

    watcher = Watcher(troubles.append, probe, restless=True)
    monkeypatch.setattr(watcher, "_patience_ms", lambda: 50)
    watcher.start()
    until(lambda: len(probed) > 3)
    watcher.stop()
    assert probed[:4] == ["", *["OSError: [Errno 24] Too many open files"] * 2, ""]
    assert caplog.text.count("the watcher stumbled and looks again") == 2


def test_one_user_does_not_take_the_turns_of_all() -> None:
    """Of one user's requests ten are worked on at once; those of others need not wait for the rest."""

    async def ask_all() -> list[int]:
        at_work: list[int] = []
        go_on = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            at_work.append(scope["state"]["caller"].uid)
            await go_on.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def send(message: Any) -> None:
            pass

        async def receive() -> dict[str, Any]:
            return {}

        nobody: Any = None  # has a token: all are on the socket
        network = NetworkAccess(SocketAccess(0), nobody, secure=False)
        gate = Gate(app, network, ConnectionLimits(1024))
        callers = [Caller(1, "greedy", False)] * 30 + [Caller(2, "modest", False)]
        scopes = [{"type": "http", "headers": [], "state": {"caller": one}} for one in callers]
        asked = [asyncio.create_task(gate(scope, receive, send)) for scope in scopes]
        for _ in range(1000):  # long after everybody who may is at work
            await asyncio.sleep(0)
        found = list(at_work)
        go_on.set()
        await asyncio.gather(*asked)
        assert len(at_work) == len(callers)
        return found

    assert sorted(asyncio.run(ask_all())) == [1] * 10 + [2]


# ------------------------------------------------------------------------------- looking up, logging


def test_a_look_up_that_fails_is_not_taken_for_an_absence() -> None:
    """Python's own says of a user that exists that there is none, when no descriptor is left."""
    script = """
import os, resource
from dovetail.daemon.users import system_accounts as accounts
from dovetail.worlds.shortage import Short
known = accounts.person(0), accounts.groups_of(accounts.person(0))
assert accounts.person(4242) is None and accounts.group_number("no-such-group") is None
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
kept = []
try:
    while True: kept.append(os.open(os.devnull, os.O_RDONLY))
except OSError: pass
def tries(look):
    try: return look()
    except Short: return "short"
told = [tries(lambda: accounts.person(1)), tries(lambda: accounts.person(4242)),
        tries(lambda: accounts.group_number("bin")),
        (accounts.person(0), accounts.groups_of(accounts.person(0))) == known]
os.close(kept.pop())
print(told)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['short', 'short', 'short', True]"


def test_a_flood_of_messages_does_not_carry_its_cause_away(tmp_path: Path) -> None:
    script = """
import logging, sys
from pathlib import Path
from dovetail.daemon.logbook import log_to
log_to(Path(sys.argv[1]))
log = logging.getLogger("dovetail.test")
log.error("the cause of it all")
for i in range(50_000): log.error("job %s: no more %s", i, "x" * 300)
log.error("and its end")
"""
    path = tmp_path / "daemon.log"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    lines = path.read_text().splitlines()
    assert "the cause of it all" in lines[0]
    assert "and its end" in lines[-1]
    assert len(lines) == 1 + 20 + 3 + 1  # the first, then the 100th, the 1,000th, the 10,000th
    assert lines[-2].endswith("(8999 like this were left out)")
    assert not path.with_name("daemon.log.1").exists()
