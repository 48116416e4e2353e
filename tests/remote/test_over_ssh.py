"""`dovetail --host box` by a real ssh to this machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from daemon_process import DaemonProcess
from ssh_server import needs_sshd, ssh_server
from waiting import LONG_S, until

pytestmark = needs_sshd


class FarBox:
    """Commands are typed here and carried out there."""

    def __init__(self, live: DaemonProcess, environment: Mapping[str, str]) -> None:
        self.live, self.environment = live, environment

    def command(self, *words: str, host: str = "box") -> list[str]:
        home = [] if "://" in host else ["--home", str(self.live.folder)]
        typed = ["--host", host, *home, *words]
        return [sys.executable, "-m", "dovetail.cli.main", *typed]

    def __call__(
        self, *words: str, given: bytes | None = None, cwd: Path | None = None, **more: Any
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.command(*words, **more),
            env=self.environment,
            input=given,
            stdin=None if given is not None else subprocess.DEVNULL,
            capture_output=True,
            timeout=LONG_S,
            check=False,
            cwd=cwd,
        )

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*words),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarBox]:
    live = DaemonProcess(tmp_path_factory.mktemp("home"))
    live.start()
    with ssh_server(tmp_path_factory.mktemp("ssh")) as environment:
        yield FarBox(live, environment)
    try:
        live.close()
    finally:
        live.kill()


def test_a_command_is_carried_out_there_with_its_words_output_and_exit_code(box: FarBox) -> None:
    hostile = """a 'b' "c" $HOME `id` \\n * ; & é"""
    said = box("run", "--", "sh", "-c", 'printf "%s" "$1"; echo err >&2; exit 7', "x", hostile)
    assert said.stdout.decode() == hostile
    assert b"err\n" in said.stderr
    assert said.returncode == 7


def test_what_comes_in_goes_there(box: FarBox) -> None:
    data = bytes(range(256)) * 400
    said = box("run", "--", "cat", given=data)
    assert (said.returncode, said.stdout) == (0, data)
    described = box("submit", "-q", "-", given=b"name: from-afar\nrun: 'true'\n")
    assert described.returncode == 0, described.stderr
    assert box.live.wait_for(described.stdout.decode().strip())["name"] == "from-afar"


def test_a_log_is_followed_as_it_grows(box: FarBox, tmp_path: Path) -> None:
    job_id = box.live.submit(
        f"echo one; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo two"
    )
    follower = box.begin("logs", "-f", job_id)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"one\n"
    (tmp_path / "go").touch()
    out, _ = follower.communicate(timeout=LONG_S)
    assert (out, follower.returncode) == (b"two\n", 0)


def test_the_folder_of_the_same_name_is_entered_there(box: FarBox, tmp_path: Path) -> None:
    said = box("run", "--", "pwd", cwd=tmp_path)
    assert said.stdout.decode().strip() == str(tmp_path)


def test_ctrl_c_reaches_the_command_there(box: FarBox) -> None:
    running = box.begin("run", "--name", "cut-short", "--", "sleep", "600")
    (row,) = until(lambda: box.live.get("/v1/jobs?name=cut-short")["jobs"])
    box.live.wait_for(row["id"], "running")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=LONG_S)
    assert box.live.get(f"/v1/jobs/{row['id']}")["phase"] == "cancelled"


def test_a_connection_that_is_lost_ends_the_follower_there_and_not_the_job(box: FarBox) -> None:
    job_id = box.live.submit("sleep 600")
    box.live.wait_for(job_id, "running")
    follower = box.begin("logs", "-f", job_id)
    far = until(_followers)
    follower.terminate()  # and with it ssh: there it looks as if the network had gone
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in far))
    follower.communicate(timeout=LONG_S)
    assert box.live.get(f"/v1/jobs/{job_id}")["phase"] == "running"
    box.live.ask("POST", "/v1/jobs/cancel", {"ids": [job_id]})


def _followers() -> list[int]:
    """Commands at the other end that have begun."""
    found = []
    for own in Path("/proc").glob("[0-9]*"):
        try:
            words = (own / "cmdline").read_bytes().split(b"\0")
            threads = len(list((own / "task").iterdir()))
        except OSError:
            continue
        if b"there" in words and b"-m" in words and threads > 1:  # it watches the connection
            found.append(int(own.name))
    return found


def test_messages_name_the_command_as_it_is_typed_here(box: FarBox) -> None:
    said = box("show", "no-such-name")
    assert (said.returncode, said.stderr.decode().count("Traceback")) == (1, 0)
    assert "dovetail --host box" in said.stderr.decode()


def test_json_is_json(box: FarBox) -> None:
    assert isinstance(json.loads(box("queue", "--json").stdout), dict | list)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("-oProxyCommand=touch /tmp/x", "is no host"),
        ("no such", "is no host"),
        ("nowhere.invalid", "ssh did not reach nowhere.invalid"),
        ("http://box.example:7733", "would read the token; use https"),
        ("https://box.example:7733", "no token for https://box.example:7733"),
        ("https://box.example:7733/x", "an address is https://HOST:PORT and no more"),
    ],
)
def test_a_host_that_cannot_be_is_told_in_one_line(box: FarBox, host: str, said: str) -> None:
    done = box("queue", host=host)
    assert done.returncode != 0
    assert said in done.stderr.decode().splitlines()[-1]


def test_a_box_without_the_command_is_told_with_the_way_out(box: FarBox, tmp_path: Path) -> None:
    settings = tmp_path / "dovetail"
    settings.mkdir()
    (settings / "config.toml").write_text('[hosts.box]\nssh = "box"\ncommand = "/no/dovetail"\n')
    bare = FarBox(box.live, {**box.environment, "XDG_CONFIG_HOME": str(tmp_path)})
    done = bare("queue")
    assert done.returncode == 127
    assert "does not find the command '/no/dovetail'" in done.stderr.decode()


def test_the_page_of_a_far_box_is_opened_here(box: FarBox) -> None:
    from bridge_process import BridgeProcess

    with BridgeProcess(box.live.folder, "--host", "box", environment=box.environment) as bridge:
        assert bridge.enter().status == 200
        told = json.loads(bridge.ask("GET", "/v1/health").text)
        assert told["pid"] == box.live.process.pid
