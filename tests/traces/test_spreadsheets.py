"""No cell that we write is run by a spreadsheet, and we read every text back as it was."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dovetail import traces
from dovetail.core.model import Job, JobId, Node, Option
from dovetail.experiments.files import write_table
from dovetail.models.workload import Arrival
from dovetail.results.job_table import job_table
from dovetail.results.record import JobOutcome, RunRecord
from dovetail.traces.spreadsheets import as_cell, escaped, unescaped

RUN = ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=HYPERLINK(1)", "-inf")
PLAIN = ("train.py", "-1.5", "+3", "1e5", "", "'quoted'", "a=b", "-.5E-3")


@pytest.mark.parametrize("text", RUN)
def test_what_would_run_is_made_a_text(text: str) -> None:
    assert escaped(text) == f"'{text}"


@pytest.mark.parametrize("text", PLAIN)
def test_what_would_not_stays_as_it_is(text: str) -> None:
    assert escaped(text) == text


@given(some.text(alphabet="'=+-@\t\r1.ax", max_size=6))
def test_every_text_comes_back(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert unescaped(as_cell(text)) == text
    assert not escaped(text).startswith(("=", "@", "\t", "\r"))


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.jsonl"])
def test_a_trace_is_safe_in_a_spreadsheet_and_comes_back(tmp_path: Path, name: str) -> None:
    wild = [*RUN[:4], "'=1", "''-x"]
    jobs = [
        Job(JobId(f"{text}{i}"), user=text, tenant=text, name=text, group=text, model=text)
        for i, text in enumerate(wild)
    ]
    options = (Option("-kind", 1, 5.0),)
    jobs.append(Job(JobId("plain"), kinds=("-kind",), options=options, priority=-1.5))
    path = tmp_path / name
    traces.write(path, [Arrival(0.0, job, 5.0) for job in jobs])
    assert [arrival.job for arrival in traces.read(path).arrivals] == jobs
    if name.endswith("csv"):
        with open(path, newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))] == ["-1.5"]


def test_the_jobs_of_a_result_are_safe_too(tmp_path: Path) -> None:
    row = JobOutcome("=1", "@a", "+b", 1, 0.0, None, 1.0, None, 1.0, 0, "failed", -2.0)
    with open(tmp_path / "jobs.csv", "w", newline="") as file:
        write_table(file, job_table(RunRecord("fifo", {}, [Node("n", 1)], [row], [])))
    cells = (tmp_path / "jobs.csv").read_text().splitlines()[1].split(",")
    assert cells[:3] == ["'=1", "'@a", "'+b"]
    assert "-2.0" in cells
