"""Every command of the how-to for comparing, and every example, is run as it stands."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.traces.readers.columns import COLUMNS

HERE = Path(__file__).parents[2]
EXAMPLES = HERE / "examples"
PAGE = (HERE / "docs" / "howto" / "compare-policies-on-your-jobs.md").read_text()
MIXED = (HERE / "docs" / "howto" / "mixed-gpu-kinds.md").read_text()
COMMANDS = re.findall(r"^\$ dovetail (.+)$", PAGE + MIXED, re.MULTILINE)


def test_the_page_shows_commands() -> None:
    assert len(COMMANDS) >= 7


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_works_in_the_examples_folder(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in EXAMPLES.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, command.split())
    assert done.exit_code == 0, done.output
    assert done.stdout
    assert done.stderr == ""
    if "--out results" in command:
        assert {file.name for file in Path("results").iterdir()} == {
            "summary.json", "report.html", "fifo", "easy", "srtf", "las",
        }  # fmt: skip


def test_the_page_names_every_column_there_is() -> None:
    table = PAGE.partition("## Your jobs")[2].partition("## Your cluster")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert set(COLUMNS) <= named


def test_the_page_names_every_figure_of_the_summary() -> None:
    words = ["simulate", str(EXAMPLES / "jobs.csv"), "--cluster", "4x8", "--policy", "fifo"]
    figures = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    told = PAGE.partition("## What the figures mean")[2]
    plain = {"policy", "jobs", "finished", "failed", "cancelled", "preemptions", "gpu_seconds_used"}
    for figure in figures.keys() - plain:
        assert figure in told or figure.partition("_")[0] + "_" in told, figure


def test_the_cluster_file_of_the_page_is_read(tmp_path: Path) -> None:
    first, second = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "c.toml").write_text(first)
    (tmp_path / "q.toml").write_text(second)
    (tmp_path / "jobs.csv").write_text("submit_s,duration_s,tenant\n0,5,vision\n")
    words = ["--cluster", str(tmp_path / "c.toml"), "--quotas", str(tmp_path / "q.toml")]
    done = CliRunner().invoke(
        cli, ["simulate", str(tmp_path / "jobs.csv"), *words, "--policy", "fifo", "--json"]
    )
    assert json.loads(done.stdout)["finished"] == 1


def test_comparing_from_python_prints_a_line_for_each_policy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["compare_policies.py"])
    runpy.run_path(str(EXAMPLES / "compare_policies.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["fifo", "fifo-skip", "easy", "las", "srtf"]
