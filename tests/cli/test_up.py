"""The daemon's process: started, started twice, stopped, and what is said where there is none."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from typed_box import Box
from waiting import until


def test_without_a_daemon_every_command_says_how_to_start_one(
    tmp_path: Path, make_box: Callable[[Path], Box]
) -> None:
    box = make_box(tmp_path)
    for words in (
        ["queue"],
        ["submit", "--", "true"],
        ["show", 1],
        ["cancel", "--mine"],
        ["wait", 1],
    ):
        said = box(*words)
        assert (said.code, said.out) == (69, "")
        assert said.err == (
            f"dovetail: no daemon answers at {tmp_path}/dovetail.sock; "
            f"start one: dovetail --home {tmp_path} up\n"
        )
    assert box("down") == (0, f"Dovetail is not up ({tmp_path}/dovetail.sock).\n", "")
    said = box("doctor")
    assert said.code == 1
    assert "✗ daemon" in said.out


def test_up_says_where_and_up_again_says_so(
    tmp_path: Path, make_box: Callable[[Path], Box]
) -> None:
    box = make_box(tmp_path / "home")
    out = box.well("up", "--slots", 3)
    assert out.startswith("Dovetail is up: 3 processor slots, policy fair-share.\n")
    assert str(tmp_path / "home" / "dovetail.sock") in out
    assert box.well("up").startswith("Dovetail is up already (process ")
    for name in ("dovetail.sock", "daemon.json", "daemon.log", "dovetail.db"):
        assert stat.S_IMODE((tmp_path / "home" / name).stat().st_mode) == 0o600, name
    said = box("doctor")
    assert (said.code, "✗" in said.out) == (0, False)
    assert {finding["what"] for finding in box.json("doctor")} >= {
        "daemon",
        "disk",
        "policy",
        "GPUs",
    }
    assert box.well("down") == "Dovetail is down.\n"
    assert not (tmp_path / "home" / "dovetail.sock").exists()


def test_a_start_that_is_refused_has_started_no_job(
    tmp_path: Path, make_box: Callable[[Path], Box]
) -> None:
    box = make_box(tmp_path / "home")
    box.well("up", "--slots", 1)
    first = box.sh(f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done")
    box.in_phase(first, "running")
    second = box.sh(f"touch {tmp_path}/ran")
    box.well("down")
    (tmp_path / "go").touch()
    until((tmp_path / "home" / "runs" / first / "1" / "exit.json").exists)  # its slot is free
    for wrong in (["--listen", "0.0.0.0:7799"], ["--listen", "127.0.0.1:0", "--tls-cert", "no"]):
        assert box("up", *wrong).code == 1
    assert not (tmp_path / "ran").exists()
    box.well("up")
    assert box("wait", second).code == 0
    assert (tmp_path / "ran").exists()


def test_jobs_go_on_while_there_is_no_daemon(
    tmp_path: Path, make_box: Callable[[Path], Box]
) -> None:
    box = make_box(tmp_path / "home")
    box.well("up", "--slots", 1)
    job = box.sh(f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 5")
    waits = box.sh("echo later")
    box.in_phase(job, "running")
    out = box.well("down")
    assert "1 job still running, 1 waiting" in out
    (tmp_path / "go").touch()
    until((tmp_path / "home" / "runs" / job / "1" / "exit.json").exists)
    box.well("up", "--slots", 1)
    assert box("wait", job, waits).code == 3
    assert box.json("show", job)["exit_code"] == 5
    assert box.well("down", "--cancel") == "Dovetail is down.\n"


def test_down_cancels_if_told_to(tmp_path: Path, make_box: Callable[[Path], Box]) -> None:
    box = make_box(tmp_path / "home")
    box.well("up", "--slots", 1)
    pid_file = tmp_path / "pid"
    job = box.sh(f"echo $$ > {pid_file}; exec sleep 60")
    box.in_phase(job, "running")
    until(lambda: pid_file.exists() and pid_file.read_text().strip())
    assert box.well("down", "--cancel") == "Cancelled 1 job.\nDovetail is down.\n"
    assert not os.path.exists(f"/proc/{pid_file.read_text().strip()}")


def test_a_daemon_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, make_box: Callable[[Path], Box]
) -> None:
    box = make_box(tmp_path / "home")
    for words, why in (
        (["--policy", "best-of-all"], "there is no policy 'best-of-all'"),
        (["--listen", "0.0.0.0:0"], "would read the token and all that is said"),
        (["--listen", "nowhere"], "cannot listen at 'nowhere'; write HOST:PORT"),
    ):
        said = box("up", "--slots", 1, *words)
        assert (said.code, said.out) == (1, "")
        assert said.err.startswith("dovetail: the daemon did not start: ")
        assert said.err.count("\n") == 1
        assert why in said.err
    assert box("queue").code == 69


def test_something_else_that_listens_there_is_no_daemon(
    tmp_path: Path, make_box: Callable[[Path], Box]
) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "dovetail.sock"))
    listener.close()
    said = make_box(tmp_path)("queue")
    assert (said.code, said.err.count("\n")) == (69, 1)


def test_it_listens_for_who_has_the_token(tmp_path: Path, make_box: Callable[[Path], Box]) -> None:
    box = make_box(tmp_path / "home")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = box.well("up", "--slots", 1, "--listen", f"127.0.0.1:{port}")
    assert f"listens at http://127.0.0.1:{port}; its own token is in " in out
    box.well("down")


def test_two_homes_know_nothing_of_each_other(
    tmp_path: Path, make_box: Callable[[Path], Box]
) -> None:
    one, other = make_box(tmp_path / "one"), make_box(tmp_path / "other")
    one.well("up", "--slots", 1)
    other.well("up", "--slots", 1)
    one.sh("sleep 60")
    assert len(one.json("queue")) == 1
    assert other.json("queue") == []
    said = other("queue", "--json", DOVETAIL_HOME=str(one.home))
    assert json.loads(said.out) == []
    one.well("down", "--cancel")
    other.well("down", "--cancel")


def test_a_table_of_speeds_is_remembered_and_a_wrong_one_told(
    tmp_path: Path, make_box: Callable[[Path], Box]
) -> None:
    box = make_box(tmp_path / "home")
    said = box("up", "--slots", 1, "--speed-table", "nowhere.csv", cwd=tmp_path)
    assert f"cannot read '{tmp_path}/nowhere.csv': there is no such file" in said.err
    table = tmp_path / "speeds.csv"
    table.write_text("model,kind,gpus,steps_per_s\nresnet50,K80,1,1\nresnet50,V100,1,8\n")
    box.well(
        "up",
        "--slots",
        1,
        "--speed-table",
        table.name,
        "--policy",
        "model-similarity",
        cwd=tmp_path,
    )
    job_id = box.submit("--model", "resnet50@32", "--", "true")
    box.well("wait", job_id)
    assert "model      resnet50@32\n" in box.well("show", job_id)
    box.well("down")
    table.unlink()
    assert "policy model-similarity" in box.well("up")
    log = tmp_path / "home" / "daemon.log"
    assert log.read_text().count("no speeds of models: cannot read") == 1
    box.well("down")
    box.well("up", "--speed-table", "none")
    box.well("down")
    box.well("up")
    assert log.read_text().count("no speeds of models: cannot read") == 1
    box.well("down")
