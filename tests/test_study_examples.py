"""The studies among the examples, in short: real daemon, real training, the same bits as alone."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dovetail.core.entries import Reported
from example_studies import DIGITS, VIDEO, alone, closed, described, environment
from live_box import box

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


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
