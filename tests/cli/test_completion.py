"""Completion in real shells, and manual pages: both say what the commands say."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.cli.completion import manual
from dovetail.cli.main import cli
from typed_box import Box
from typed_terminal import Terminal

BIN = Path(sys.executable).parent
PATH = f"{BIN}:{os.environ['PATH']}"


def completed(typed: str, home: Path | str = "/nowhere") -> list[str]:
    """As bash asks for it when Tab is pressed behind what is typed."""
    words = typed.split(" ")
    done = subprocess.run(
        [str(BIN / "dovetail")],
        env={
            "PATH": PATH,
            "DOVETAIL_HOME": str(home),
            "_DOVETAIL_COMPLETE": "bash_complete",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("typed", "some"),
    [
        ("dovetail qu", ["queue"]),
        ("dovetail nodes ", ["close", "open"]),
        ("dovetail submit --gp", ["--gpus", "--gpu-memory"]),
        ("dovetail policy set srt", ["srtf"]),
        ("dovetail compare jobs.csv --policies fifo,srt", ["fifo,srtf"]),
        ("dovetail up --world l", ["local"]),
        ("dovetail completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_commands_options_and_names_are_completed(typed: str, some: list[str]) -> None:
    assert set(some) <= set(completed(typed))


@pytest.mark.parametrize("typed", ["dovetail why ", "dovetail study show ", "dovetail logs x"])
def test_without_a_daemon_it_is_silent(typed: str) -> None:
    assert completed(typed) == []


def test_jobs_and_gpus_of_the_daemon_are_completed(box: Box) -> None:
    job = box.submit("--name", "train", "--", "sleep", "300")
    assert {job, "train"} <= set(completed("dovetail cancel ", box.home))
    assert completed("dovetail why tra", box.home) == ["train"]
    (node,) = box.json("nodes")
    assert completed(f"dovetail nodes close {node['id']}/", box.home) == [
        f"{node['id']}/0",
        f"{node['id']}/1",
    ]
    box.well("cancel", job)
    assert job in completed("dovetail show ", box.home)


def test_studies_are_completed_while_they_are_open(box: Box, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(_STUDY)
    box.well("tune", file, "--detach")
    for typed in ("dovetail study show ", "dovetail study stop d", "dovetail study best dig"):
        assert completed(typed, box.home) == ["digits"]
    assert completed("dovetail study show x", box.home) == []
    box.well("study", "cancel", "digits")


_STUDY = """
name: digits
run: sleep 300
space: {lr: {log: [1e-4, 1e-1]}}
metric: loss
steps: 4
trials: 2
"""


def test_names_that_a_shell_would_run_expand_or_split_are_not_put_into_its_line(box: Box) -> None:
    names = ["$(reboot);`id`", "*", "two words", "~root", "--home=/tmp", "a|b", "plain-1.5"]
    jobs = [box.submit("--name", name, "--", "sleep", "300") for name in names]
    found = completed("dovetail cancel ", box.home)
    assert {*jobs, "plain-1.5"} <= set(found)
    assert not set(names[:-1]) & set(found)
    box.well("cancel", *jobs)


def test_a_key_press_costs_less_than_150_ms_of_processor_time() -> None:
    for typed in ("dovetail ", "dovetail why ", "dovetail policy set s"):
        words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
        told = {"_DOVETAIL_COMPLETE": "bash_complete", "DOVETAIL_HOME": "/nowhere", **words}
        cost = min(_processor_ms({"PATH": PATH, **told}) for _ in range(7))
        assert cost < 150, f"{typed!r}: {cost:.0f} ms"


def _processor_ms(env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(BIN / "dovetail")], env=env, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_tab_in_a_real_bash_completes_a_command_and_an_option(tmp_path: Path) -> None:
    (tmp_path / "rc").write_text('PS1="ready> "\neval "$(dovetail completion bash)"\necho loaded\n')
    os.environ["PATH"], before = PATH, os.environ["PATH"]
    try:
        terminal = Terminal(["/bin/bash", "--noprofile", "--rcfile", str(tmp_path / "rc"), "-i"])
    finally:
        os.environ["PATH"] = before
    terminal.until("ready> ")
    terminal.type("echo dovetail; dovetail hist\t --tra\t")
    terminal.until("history  --trace")
    terminal.type("\x15exit\n")
    os.waitpid(terminal.pid, 0)
    os.close(terminal.fd)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_take_their_scripts(shell: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    env = {"PATH": PATH, "HOME": str(tmp_path), "TERM": "dumb"}
    words = ["fish", "-c", _FISH] if shell == "fish" else ["zsh", "-fc", _ZSH]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert "history" in done.stdout, done


_FISH = 'dovetail completion fish | source; complete -C "dovetail histo"'
_ZSH = """
autoload -U compinit; compinit -u
eval "$(dovetail completion zsh)"
whence -w _dovetail_completion | grep -q function && print history
"""


# ---------------------------------------------------------------------------------- manual pages


def test_every_command_has_a_page_with_its_options() -> None:
    found = manual.pages(cli)
    assert {"dovetail.1", "dovetail-submit.1", "dovetail-nodes-close.1"} <= set(found)
    assert "\\-\\-vacate" in found["dovetail-nodes-close.1"]
    assert "jobs there give way" in found["dovetail-nodes-close.1"]
    for name, text in found.items():
        assert text.startswith(f'.TH "{name[:-2].upper()}" "1"')
        assert ".SH SYNOPSIS" in text


@pytest.mark.skipif(not shutil.which("man"), reason="needs man")
def test_man_reads_the_pages_without_a_warning(tmp_path: Path) -> None:
    names = ("dovetail.1", "dovetail-submit.1", "dovetail-up.1", "dovetail-nodes-close.1")
    found = manual.pages(cli)
    for name in names:
        (tmp_path / name).write_text(found[name])
        done = subprocess.run(
            ["man", "--warnings", "-l", str(tmp_path / name)],
            env={**os.environ, "MANWIDTH": "100"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == "", name
        assert "SYNOPSIS" in done.stdout
