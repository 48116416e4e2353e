"""A daemon that starts with the machine: what is written, and how it lives under its unit."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from daemon_process import DaemonProcess
from typed_box import Box, Said
from waiting import LONG_S

UNIT = "etc/systemd/system/dovetail.service"


def typed(*words: str) -> Said:
    command = [sys.executable, "-m", "dovetail.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


def installed(root: Path, *words: str) -> str:
    said = typed("install", "--system", "--root", str(root), *words)
    assert said.code == 0, said
    return said.out


def exec_start(root: Path) -> list[str]:
    lines = (root / UNIT).read_text().splitlines()
    return shlex.split(next(line for line in lines if line.startswith("ExecStart="))[10:])


def test_all_that_is_written_is_said_and_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    planned = installed(tmp_path, "--dry-run")
    assert list(tmp_path.iterdir()) == []
    assert installed(tmp_path) == planned
    for file in (
        *(UNIT, "etc/dovetail/config.toml", "usr/local/share/man/man1/dovetail-submit.1"),
        *("usr/share/bash-completion/completions/dovetail", "usr/local/bin/dovetail"),
    ):
        assert (tmp_path / file).exists(), file


def test_a_stop_of_the_unit_ends_no_job_and_a_job_without_memory_ends_no_daemon(
    tmp_path: Path,
) -> None:
    installed(tmp_path)
    unit = (tmp_path / UNIT).read_text()
    for line in ("KillMode=process", "OOMPolicy=continue", "Type=notify", "TasksMax=infinity"):
        assert f"\n{line}\n" in unit
    assert exec_start(tmp_path)[1:] == ["-m", "dovetail.cli.main", "up", "--system", "--foreground"]


def test_the_unit_of_one_user_does_not_start_everybodys_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert typed("install", "--root", str(tmp_path)).code == 0
    unit = (tmp_path / ".config/systemd/user/dovetail.service").read_text()
    assert f"dovetail.cli.main --home {tmp_path}/state/dovetail up --foreground\n" in unit


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    installed(tmp_path)
    assert typed("install", "--root", str(tmp_path / "user")).code == 0
    user = tmp_path / "user/.config/systemd/user/dovetail.service"
    for unit in (tmp_path / UNIT, user):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), unit


def test_a_second_time_changes_nothing_and_settings_are_kept(tmp_path: Path) -> None:
    installed(tmp_path)
    config = tmp_path / "etc/dovetail/config.toml"
    config.write_text("[up]\nslots = 2\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert "kept as it is" in installed(tmp_path)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_somebody_elses_file_is_neither_written_over_nor_removed(tmp_path: Path) -> None:
    unit = tmp_path / UNIT
    unit.parent.mkdir(parents=True)
    unit.write_text("[Unit]\n")
    said = typed("install", "--system", "--root", str(tmp_path))
    assert (said.code, "was not written by dovetail install" in said.err) == (1, True)
    assert typed("uninstall", "--system", "--root", str(tmp_path)).code == 0
    assert unit.read_text() == "[Unit]\n"


def test_uninstall_leaves_settings_and_journal_and_purge_leaves_nothing(tmp_path: Path) -> None:
    installed(tmp_path)
    (tmp_path / "var/lib/dovetail/dovetail.db").touch()
    assert typed("uninstall", "--system", "--root", str(tmp_path)).code == 0
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert left == {"etc/dovetail/config.toml", "var/lib/dovetail/dovetail.db"}
    assert typed("uninstall", "--system", "--purge", "--root", str(tmp_path)).code == 0
    assert not [path for path in tmp_path.rglob("*") if not path.is_dir()]


def test_words_that_mean_something_to_systemd_do_not(tmp_path: Path) -> None:
    home = tmp_path / "50% of $HOME"
    said = typed("--home", str(home), "install", "--system", "--root", str(tmp_path))
    assert said.code == 0
    words = [word.replace("%%", "%").replace("$$", "$") for word in exec_start(tmp_path)]
    assert words[3:5] == ["--home", str(home)]


# ------------------------------------------------------------------------------ under its unit


class Unit:
    """As systemd treats it: `Type=notify`, and a stop is a signal to the main process alone."""

    def __init__(self, root: Path, home: Path) -> None:
        self._words = exec_start(root)
        self._address = str(home / "notify")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            Path(self._address).unlink(missing_ok=True)
            told.bind(self._address)
            told.settimeout(LONG_S)
            env = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": self._address}
            self.process = subprocess.Popen(self._words, env=env, start_new_session=True)
            assert told.recv(100) == b"READY=1"

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(LONG_S)
            self.process = None


@contextmanager
def unit(folder: Path) -> Iterator[tuple[Unit, Box]]:
    home = folder / "home"
    home.mkdir()
    (home / "config.toml").write_text('[up]\nslots = 1\npolicy = "fifo"\n')
    words = ("--home", str(home), "install", "--root", str(folder))
    assert typed(*words).code == 0
    user = folder / ".config/systemd/user/dovetail.service"
    (folder / UNIT).parent.mkdir(parents=True)
    user.rename(folder / UNIT)
    made, box = Unit(folder, home), Box(home)
    try:
        yield made, box
    finally:
        made.stop()
        _end_all_of(home)


def _end_all_of(home: Path) -> None:
    """As when the power goes: keepers, guards and jobs of this home, by their command or folder."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            told = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            if str(home).encode() in told and int(folder.name) != os.getpid():
                os.kill(int(folder.name), signal.SIGKILL)


def test_an_upgrade_in_place_keeps_jobs_running(tmp_path: Path) -> None:
    with unit(tmp_path) as (own, box):
        own.start()
        job = box.sh("sleep 300; true")
        row = box.in_phase(job, "running")
        own.stop()
        assert installed(tmp_path / "again", "--dry-run")
        own.start()
        after = box.in_phase(job, "running")
        assert (after["attempts"], after["started_at"]) == (row["attempts"], row["started_at"])


def test_after_a_power_cut_the_queue_and_its_studies_are_back(tmp_path: Path) -> None:
    with unit(tmp_path) as (own, box):
        own.start()
        runs = box.sh("sleep 300", "--restartable")
        waits = box.sh("true")
        box.in_phase(runs, "running")
        study = tmp_path / "study.yaml"
        study.write_text(_STUDY)
        box.well("tune", str(study), "--detach")
        own.stop(signal.SIGKILL)
        _end_all_of(box.home)
        own.start()
        box.in_phase(runs, "running")
        assert box.json("show", waits)["phase"] == "queued"
        assert "digits" in box.well("study", "list")
        assert "<html" in DaemonProcess(box.home).text("/page")


_STUDY = """
name: digits
run: sleep 1
metric: loss
steps: 1
trials: 2
space: {lr: {choice: [0.1, 0.2]}}
"""
