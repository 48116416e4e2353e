"""Starts that somebody will try: other slots, a cut journal, a socket that is gone or a stranger's."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from dovetail.client.connection import Client, DaemonUnreachable
from dovetail.core.errors import BadInput
from dovetail.home import home_in, user_home
from dovetail.store import Store
from live_box import ME, Box, box


def test_other_slots_are_refused_while_jobs_run_and_the_jobs_are_not_harmed(tmp_path: Path) -> None:
    with box(tmp_path / "box", slots=3, policy="las") as here:
        job = here.submit("sleep 1.5; exit 4")
        here.wait_until(job, "running")
        here.leave()
    with pytest.raises(BadInput, match="1 jobs still run on"):
        Box(tmp_path / "box", slots=1)
    with box(tmp_path / "box", slots=3) as again:
        (row,) = again.wait(job)
        assert (row["phase"], row["exit_code"]) == ("failed", 4)
        assert again.service.policy().policy == "las"


def test_slots_are_as_last_time_unless_named(tmp_path: Path) -> None:
    with box(tmp_path / "box", slots=3):
        pass
    with box(tmp_path / "box", slots=None) as again:
        assert again.service.look(lambda view, now: view.room.gpus_up) == 3


def test_a_policy_that_breaks_is_replaced_and_the_jobs_go_on(tmp_path: Path) -> None:
    class Broken:
        def decide(self, view: object) -> list[object]:
            raise ZeroDivisionError("of mine")

    with box(tmp_path / "box") as here:
        first = here.submit("sleep 0.5")
        here.wait_until(first, "running")
        here.daemon.chosen._policy = Broken()  # type: ignore[assignment]
        rows = here.wait(first, here.submit("true"))
        assert [row["phase"] for row in rows] == ["finished", "finished"]
        told = here.service.policy()
        assert told.policy == "fifo-skip"
        assert "ZeroDivisionError: of mine" in told.trouble


def test_the_socket_lies_with_the_state_wherever_the_session_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone-at-logout"))
    assert user_home().socket == tmp_path / "dovetail" / "dovetail.sock"


def test_a_socket_with_too_long_a_path_lies_where_nobody_else_can_be(tmp_path: Path) -> None:
    socket_path = home_in(tmp_path / ("long" * 40)).socket
    assert len(os.fsencode(socket_path)) < 100
    folder = socket_path.parent.stat()
    assert (folder.st_uid, folder.st_mode & 0o077) == (os.getuid(), 0)


def listen_as_nobody(path: Path, telling: int) -> None:
    """In a child of its own: says that it listens, and then what it was sent."""
    try:
        os.setuid(65534)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        os.write(telling, b"1")
        connection, _ = listener.accept()
        os.write(telling, connection.recv(100) or b"nothing")
    finally:
        os._exit(0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_nothing_is_sent_to_a_stranger_who_listens_at_the_socket() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        home = home_in(Path(folder))
        heard, telling = os.pipe()
        child = os.fork()
        if child == 0:
            listen_as_nobody(home.socket, telling)
        os.close(telling)
        with open(heard, "rb", buffering=0) as pipe:
            assert pipe.read(1) == b"1"
            with pytest.raises(DaemonUnreachable, match="served by user 65534"):
                Client(home).post("/v1/jobs", {"jobs": ["secret"]})
            assert pipe.read(100) == b"nothing"
        os.waitpid(child, 0)


def test_names_in_reports_cannot_reach_into_a_terminal(tmp_path: Path) -> None:
    with box(tmp_path / "box") as here:
        line = json.dumps({"step": 1, "a\x1b]0;PWNED\x07b": 1, "loss": 2})
        job = here.submit(f"cat >> $DOVETAIL_REPORT <<'X'\n{line}\nX\n")
        (row,) = here.wait(job)
        assert row["last_report"]["metrics"] == {"loss": 2.0}


def test_values_exported_in_a_batch_script_are_kept_out_of_what_is_stored() -> None:
    from dovetail.jobfiles.sbatch import parse_sbatch

    fields, _ = parse_sbatch("#!/bin/sh\n#SBATCH --export=ALL,TOKEN=s3cr3t\necho hi\n")
    assert fields["envs"] == {"TOKEN": "s3cr3t"}
    assert "s3cr3t" not in fields["run"]
    assert "echo hi" in fields["run"]


def test_store_of_another_daemon_is_refused(tmp_path: Path) -> None:
    with box(tmp_path / "box"):
        found: list[Exception] = []

        def try_it() -> None:
            try:
                Store.open(tmp_path / "box" / "dovetail.db")
            except Exception as error:
                found.append(error)

        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        assert "in use" in str(found[0])
    assert ME.admin
