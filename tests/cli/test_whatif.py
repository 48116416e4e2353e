"""`dovetail whatif` as people type it, against a real daemon with two slots."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.api.forecast_row import OthersTold, OutcomeTold, Span
from dovetail.cli.jobs.whatif import _times
from typed_box import Box

DESCRIBED = "name: net\nrun: python train.py\nestimate: 30m\nresources: {gpus: 2}\n"


@pytest.fixture(scope="module", autouse=True)
def busy(box: Box) -> None:
    box.well("policy", "set", "priority")
    job = box.sh("sleep 600", "--gpus", 2, "--estimate", "1h", "--name", "long")
    box.in_phase(job, "running")


def test_a_job_file_is_answered_for_in_a_screen_of_a_hundred_columns(
    box: Box, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(DESCRIBED)
    lines = box.well("whatif", file, "--by", "+50m", "--deadline", "+1h").splitlines()
    assert lines[0].startswith("net (2 GPUs, priority 0) would start ")
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    assert "cost       unknown: the daemon was not told" in text
    assert "30 min too late" in text
    titles = next(i for i, line in enumerate(lines) if line.startswith("CHANGE "))
    assert re.split("  +", lines[titles]) == [
        *("CHANGE", "START", "END", "LATEST", "IN TIME", "LATE", "OTHERS LATER"),
    ]
    asked, *others = lines[titles + 1 :]
    assert asked.startswith("as asked")
    assert any(line.startswith("at priority 1") and " likely " in line for line in others)


def test_a_command_with_the_options_of_submit_is_answered_for(box: Box) -> None:
    found = box.json("whatif", "--estimate", "10m", "--gpus", 1, "--", "python", "train.py", "--by")
    assert (found["name"], found["gpus"], found["by"]) == ("train.py", 1, None)
    span = found["as_asked"]["end"]
    assert span["low"] <= span["expected"] <= span["high"]
    assert "paused" in str(found["alternatives"])


def test_a_job_is_answered_for_without_a_command(box: Box) -> None:
    told = box.well("whatif", "--gpus", 2, "--estimate", "2h")
    assert told.startswith("such a job (2 GPUs, priority 0) would start ")
    assert "rests on   its user's estimate" in told
    named = box.json("whatif", "--name", "train", "--estimate", "2h")
    assert (named["name"], named["gpus"]) == ("train", 1)


def test_an_end_that_may_come_before_the_latest_start_is_told_as_so_long_after_it() -> None:
    now = 1_700_000_000.0
    apart = _ends(Span(now + 7200, now + 3600, now + 9000), now)
    over = _ends(Span(now + 600, now + 300, now + 4000), now)
    assert "after that" not in _times(apart, now)
    assert " and end 10 min after that: " in _times(over, now)


def _ends(end: Span, now: float) -> OutcomeTold:
    start, others = Span(now, now - 60, now + 3600), OthersTold(later=0, most_s=0.0, job=None)
    return OutcomeTold(
        *("as asked", "", None), start=start, end=end, late_s=None, in_time=None, cost=None,
        others=others, rests_on="",
    )  # fmt: skip


def test_nothing_is_submitted(box: Box) -> None:
    before = len(box.json("queue"))
    box.well("whatif", "--", "true")
    assert len(box.json("queue")) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--by", "2020-01-01"], "--by: 2020-01-02T00:00:00"),
        (["--by", "soon"], "--by: 'soon' is not a time; write '+2h', '18:00', 'friday 18:00'"),
        (["--gpus", 3], "job 'true' could never run here: it needs 3 GPUs"),
        (["--array", "0-3"], "array: what-if looks at one job; leave the array out"),
        (["--after", 999], "there is no job 999"),
    ],
)
def test_what_cannot_be_answered_is_one_line(box: Box, words: list[object], says: str) -> None:
    said = box("whatif", *words, "--", "true")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"dovetail: {says}")
    assert said.err.count("\n") == 1


def test_with_prices_and_watts_it_says_what_the_job_costs(
    make_box: Callable[[Path], Box], tmp_path: Path
) -> None:
    costs = tmp_path / "costs.toml"
    costs.write_text("currency = '€'\nprice = 0.3\n[watts]\ncpu = [1000, 1500]\n")
    own = make_box(tmp_path / "home")
    own.well("up", "--slots", 2, "--costs", costs)
    described = ("--estimate", "2h", "--option", "cpu:1=2h", "--option", "cpu:2=90m")
    found = own.json("whatif", *described, "--by", "+100m", "--", "true")
    assert found["as_asked"]["cost"]["energy"] == pytest.approx(2 * 1.0 * 0.3, rel=0.01)
    assert found["as_asked"]["in_time"] == "perhaps"
    (timed,) = [row for row in found["alternatives"] if row["field"] == "gpus"]
    assert timed["in_time"] == "likely"
    assert timed["cost"]["energy"] == pytest.approx(1.5 * 1.5 * 0.3, rel=0.01)
    assert "cost       0.6 €: 0.6 for energy" in own.well("whatif", *described, "--", "true")
