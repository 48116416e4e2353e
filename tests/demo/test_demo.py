"""The demo: real training jobs, real daemon, short."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from dovetail.cli.demo import demo, line
from dovetail.demo import race
from job_samples import a_job


def test_the_demo_trains_twice_and_shows_measured_beside_simulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(race, "LENGTHS_S", (1.6, 1.2, 0.3, 0.2))
    told = CliRunner().invoke(demo, [], catch_exceptions=False)
    assert told.exit_code == 0
    rows = re.findall(
        r"^train-(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)", told.output, re.M
    )
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    assert all(float(value) > 0 for row in rows for value in row)
    assert re.search(r"srtf ends the average job [\d.]+ times as soon as fifo", told.output)


def test_a_line_of_the_live_view_tells_progress_and_phase() -> None:
    shown = line(
        a_job(
            name="train-1",
            phase="suspended",
            preemptions=2,
            last_report={"at": 0.0, "step": 50, "metrics": {"loss": 0.5, "steps": 100.0}},
        )
    )
    assert "suspended" in shown
    assert "loss 0.500" in shown
    assert "gave way 2×" in shown
    assert shown.count("█") == shown.count("░") == 15
