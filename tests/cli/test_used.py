"""What a job has used, as it is told."""

from __future__ import annotations

import csv
import io
import sys

import pytest

from typed_box import Box

WORKS = "held = bytearray(150 << 20); sum(range(20_000_000))"


def test_show_and_history_tell_what_a_job_has_used(box: Box) -> None:
    job = box.submit("--name", "=1+1", "--", sys.executable, "-c", WORKS)
    box.in_phase(job, "finished")
    used = box.json("show", job)["used"]
    assert used["peak_memory_bytes"] > 150 << 20
    assert used["cpu_s"] > 0.1
    assert "of a processor, 1" in box.well("show", job)
    assert " MB" in box.well("history")
    (row,) = [
        r for r in csv.DictReader(io.StringIO(box.well("history", "--csv"))) if r["id"] == job
    ]
    assert row["name"] == "'=1+1"
    assert int(row["peak_memory_bytes"]) == used["peak_memory_bytes"]
    assert float(row["cpu_s"]) == pytest.approx(used["cpu_s"])
