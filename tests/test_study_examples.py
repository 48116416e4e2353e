"""The studies among the examples, in short: real daemon, real training, the same bits as alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.core.entries import Reported
from dovetail.daemon.studies.service import Opening
from dovetail.jobfiles.study_model import expand, read_study
from live_box import ME, Box, box

EXAMPLES = Path(__file__).parents[1] / "examples"
DIGITS, VIDEO = EXAMPLES / "study_digits", EXAMPLES / "study_video"
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


def described(folder: Path, shorter: str, **changes: Any) -> dict[str, Any]:
    """study.yaml with a shorter training, and whatever else is to be different."""
    study: dict[str, Any] = yaml.safe_load((folder / "study.yaml").read_text())
    return {**study, "run": f"{study['run']} {shorter}", **changes}


def environment() -> dict[str, str]:
    """`python` is the one that runs the tests, and finds Dovetail where they do."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return {"PATH": path, **kept}


def closed(here: Box, study: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The page of the study once it is over."""
    here.daemon.studies.open(Opening(study, environment(), str(folder)), ME)
    name = study["name"]
    here.wait_for(lambda: here.daemon.studies.one(name, ME)["state"] == "closed", 120)
    return here.daemon.studies.one(name, ME)


def alone(
    study: dict[str, Any], number: int, settings: dict[str, Any], tmp_path: Path
) -> list[Any]:
    """What the trial reports when it is run by hand, step by step."""
    job = expand(read_study(study), settings, number)
    reports = tmp_path / f"{number}.jsonl"
    assert job.run is not None
    subprocess.run(
        ["sh", "-c", job.run],
        env={**environment(), "DOVETAIL_REPORT": str(reports)},
        cwd=DIGITS,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    told = [json.loads(line) for line in reports.read_text().splitlines()]
    return [[one["step"], one["val_loss"]] for one in told]


def test_trials_that_take_turns_have_the_curves_that_they_have_alone(tmp_path: Path) -> None:
    study = described(DIGITS, "--examples 2000 --epochs 6", trials=5, steps=6, policy="round-robin")
    with box(tmp_path / "box", policy="fifo-skip") as here:
        page = closed(here, study, DIGITS)
    assert (page["done"], page["reason"]) == (5, "all trials are done")
    assert page["switches"] > 5, "nobody took turns"
    for trial in page["trials"]:
        curve = [[step, value] for step, value, _ in trial["points"]]
        assert len(curve) == 6
        assert curve == alone(study, trial["number"], trial["settings"], tmp_path)


def test_the_digits_study_finds_a_good_setting_and_throws_none_away(tmp_path: Path) -> None:
    study = described(DIGITS, "--examples 400 --epochs 3", trials=6, steps=3)
    with box(tmp_path / "box", policy="fifo-skip") as here:
        page = closed(here, study, DIGITS)
    values = [trial["best"] for trial in page["trials"]]
    assert [trial["steps"] for trial in page["trials"]] == [3] * 6
    assert page["best"]["value"] == min(values)


def test_an_epoch_of_the_digits_is_real_work() -> None:
    """Half a second on a machine of today; a tenth on one that is five times as fast."""
    words = [sys.executable, str(DIGITS / "train.py"), "--epochs", "1"]
    before = os.times()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment())
    after = os.times()
    assert after.children_user - before.children_user > 0.1


@needs_torch
def test_the_video_study_is_read_from_what_its_script_prints(tmp_path: Path) -> None:
    study = described(VIDEO, "--clips 60 --epochs 2", trials=2, steps=2)
    with box(tmp_path / "box", policy="fifo-skip") as here:
        page = closed(here, study, VIDEO)
        heard = [entry.metrics for entry in here.journal() if isinstance(entry, Reported)]
    assert page["done"] == 2
    assert [trial["steps"] for trial in page["trials"]] == [2, 2]
    assert [set(metrics) for metrics in heard] == [{"accuracy", "precision"}] * 4


TWICE = """
from train_torch import epochs, options
chosen = options().parse_args(["--examples", "500", "--epochs", "2"])
once, again = list(epochs(chosen)), list(epochs(chosen))
assert len(once) == 2 and once == again, (once, again)
"""


@needs_torch
def test_the_digits_with_pytorch_are_the_same_each_time() -> None:
    words = [sys.executable, "-c", TWICE]
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment(), cwd=DIGITS, check=False
    )
    assert done.returncode == 0, done.stderr
