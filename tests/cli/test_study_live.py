"""A study typed at a real daemon; and that made-up studies look like real ones."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.wire import plain
from dovetail.daemon.studies.rows import row_in
from study_samples import in_the_middle
from typed_box import Box

FILE = """
name: tiny
run: 'for s in 1 2 3; do echo "{{\\"step\\": $s, \\"loss\\": {depth}.$s}}" >> $DOVETAIL_REPORT; done'
space: {depth: {choice: [2, 1, 3]}}
metric: loss
steps: 3
sampler: grid
policy: fifo
"""


@pytest.fixture(scope="module")
def told(box: Box, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What `tune` printed."""
    file = tmp_path_factory.mktemp("study") / "study.yaml"
    file.write_text(FILE)
    return box.well("tune", file).splitlines()


def test_tune_follows_a_real_study_to_its_end(told: list[str]) -> None:
    assert told[0] == "Opened study tiny: 3 trials."
    assert told[-1] == "Best: loss 1.1 by trial 1 at step 1 (depth 1)."
    assert "all trials are done" in told[-2]


def test_made_up_studies_have_the_fields_of_real_ones(box: Box, told: list[str]) -> None:
    page = json.loads(box.well("study", "show", "tiny", "--json"))
    made_up = plain(in_the_middle())
    assert kinds(made_up).items() <= kinds(page).items()
    assert kinds(made_up["trials"][0]) == kinds(page["trials"][0])
    assert kinds(made_up["best"]) == kinds(page["best"])
    rows = json.loads(box.well("study", "list", "--json"))
    assert kinds(plain(row_in(in_the_middle()))) == kinds(rows[0])


def kinds(value: dict[str, Any]) -> dict[str, type]:
    """What JSON has one kind of number for is one kind here."""
    told = {name: type(own) for name, own in value.items()}
    return {name: float if own is int else own for name, own in told.items()}


def test_a_real_study_is_shown_and_reported(box: Box, told: list[str], tmp_path: Path) -> None:
    shown = box.well("study", "show", "tiny", "--curves")
    assert "● trial 1: 1.1" in shown
    assert "state     closed" in shown
    assert box.well("study", "best", "tiny").splitlines()[1] == "  depth  1"
    page = tmp_path / "tiny.html"
    assert str(page) in box.well("study", "report", "tiny", "-o", page)
    assert "Study tiny" in page.read_text()


def test_a_mistake_in_the_file_is_told_with_its_line(box: Box, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(FILE.replace("steps: 3", "steps: many"))
    said = box("tune", tmp_path / "bad.yaml")
    assert said.code == 1
    assert "bad.yaml, line 6: steps: 'many'" in said.err
    assert said.err.count("\n") == 1


def test_what_only_the_daemon_can_know_is_told_with_its_line(box: Box, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(FILE.replace("policy: fifo", "policy: fifoo"))
    assert "bad.yaml, line 8: policy: " in box("tune", file).err
    # What was typed stands in no line.
    assert "bad.yaml: policy: " in box("tune", file, "--policy", "lifo").err


def test_tune_waits_for_a_daemon_that_went_away_and_says_so(
    make_box: Callable[[Path], Box], tmp_path: Path
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(FILE.replace("run: '", "run: 'sleep 1; "))
    box = make_box(tmp_path / "home")
    box.well("up", "--slots", 1)
    typed = subprocess.Popen(box.command("tune", file), text=True, stdout=-1, stderr=-1)
    assert typed.stdout is not None
    assert typed.stderr is not None
    assert typed.stdout.readline().startswith("Opened study tiny")
    box.well("down")
    said = typed.stderr.readline()
    assert said.startswith("What runs goes on, but no daemon answers at")
    assert said.endswith(f"dovetail --home {box.home} up. Waiting 10 min for it.\n")
    box.well("up")
    out, _ = typed.communicate(timeout=120)
    assert (typed.returncode, "all trials are done" in out) == (0, True)
