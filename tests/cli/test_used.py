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


def test_the_report_of_a_week_tells_who_has_used_what(box: Box) -> None:
    job = box.submit("--name", "reported", "--tenant", "vision", "--", sys.executable, "-c", WORKS)
    box.in_phase(job, "finished")
    said = box.well("report", "--week")
    assert "USER" in said
    assert "vision" in said
    assert "0 jobs of nobody-here ended" in box.well("report", "--week", "--user", "nobody-here")
    told = box.json("report", "--month")
    (tenant,) = [row for row in told["tenant"] if row["key"] == "vision"]
    assert (tenant["jobs"], tenant["finished"]) == (1, 1)
    assert tenant["cpu_hours"] > 0.1 / 3600
    assert tenant["busy_gpu_hours"] is None  # there are no GPUs
    assert (tenant["energy_kwh"], tenant["money"]) == (None, None)  # nobody has told prices
    rows = [*csv.DictReader(io.StringIO(box.well("report", "--since", "1h", "--csv")))]
    assert {row["by"] for row in rows} == {"user", "tenant"}
    assert sum(int(row["jobs"]) for row in rows if row["by"] == "user") >= 1
    assert max(map(len, said.splitlines())) <= 100


def test_csv_of_the_history_keeps_to_a_limit(box: Box) -> None:
    for _ in range(3):
        box.in_phase(box.submit("--name", "short", "--", "true"), "finished")
    rows = [*csv.DictReader(io.StringIO(box.well("history", "--csv")))]
    assert len(rows) >= 3
    limited = [*csv.DictReader(io.StringIO(box.well("history", "--csv", "--limit", 2)))]
    assert limited == rows[:2]


def test_a_report_since_before_1970_is_one_of_all_time(box: Box) -> None:
    assert box.json("report", "--since", "30000d")["since"] == 0.0


def test_a_report_until_then_names_both_ends(box: Box) -> None:
    said = box.well("report", "--since", "2026-01-02", "--until", "2026-01-05 12:00")
    heading = said.splitlines()[0]
    assert heading.startswith("0 jobs ended from ")
    assert "until " in heading
    assert "12:00" in heading
    week = box.json("report", "--until", "2026-01-08")["since"]
    assert week == pytest.approx(box.json("report", "--since", "2026-01-01")["since"], abs=3601)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("report", "--since", "2d", "--until", "5d"), "--since 2d is not before --until 5d"),
        (("history", "--since", "2d", "--until", "5d"), "--since 2d is not before --until 5d"),
        (("report", "--week", "--month"), "--week and --month exclude each other"),
        (("report", "--week", "--since", "2d"), "--week and --since exclude each other"),
        (("report", "--csv", "--json"), "--csv and --json exclude each other"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    box: Box, words: tuple[str, ...], line: str
) -> None:
    said = box(*words)
    assert (said.code, said.out) == (2, "")
    assert line in said.err
