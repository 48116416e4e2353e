"""Durations as people and other tools write them, and times too long to be true."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail import traces
from dovetail.core.errors import BadInput
from dovetail.core.model import Estimate, Interruption
from dovetail.models.workload import Arrival


def only(folder: Path, text: str, name: str = "jobs.csv") -> Arrival:
    path = folder / name
    path.write_text(text)
    (arrival,) = traces.read(path).arrivals
    return arrival


def complaint(folder: Path, text: str, name: str = "jobs.csv") -> str:
    with pytest.raises(BadInput) as caught:
        only(folder, text, name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [
        ("0:30:00", 1800),
        ("100:00:01", 360_001),
        ("00:00:01.5", 1.5),
        ("1-02:30:00", 95_400),
        ("1-02:30", 95_400),
        ("1 day 02:30:00", 95_400),
        ("2 days, 0:00:01", 172_801),
        ("30m", 1800),
        ("2h", 7200),
        ("90s", 90),
        ("1.5d", 129_600),
        (" 2 Hours ", 7200),
        ("1h30m", 5400),
        ("1d 2h 3min 4s", 93_784),
        ("1e3", 1000),
    ],
)
def test_a_duration_is_understood_as_it_is_usually_written(
    tmp_path: Path, cell: str, seconds: float
) -> None:
    assert only(tmp_path, f'submit_s,duration_s\n0,"{cell}"\n').work_s == seconds
    line = f'{{"submit_s": 0, "duration_s": "{cell}"}}\n'
    assert only(tmp_path, line, "jobs.jsonl").work_s == seconds


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("30:00", "could be minutes:seconds or hours:minutes; write 0:30:00"),
        ("0:75:00", "is not a number of seconds, nor a duration such as 30m, 2h or 1:30:00"),
        ("1h 1h", "nor a duration"),
        ("m", "nor a duration"),
        ("-30m", "nor a duration"),
        ("1-30:00:00", "nor a duration"),
    ],
)
def test_a_duration_that_may_mean_two_things_or_none_is_refused(
    tmp_path: Path, cell: str, why: str
) -> None:
    message = complaint(tmp_path, f"submit_s,duration_s\n0,{cell}\n")
    assert f":2: column 'duration_s': {cell!r} " in message
    assert why in message


def test_every_length_of_time_of_a_job_may_be_spelled(tmp_path: Path) -> None:
    arrival = only(
        tmp_path,
        "submit_s,duration_s,estimate_s,save_s,restore_s,lost_s,failures\n"
        "0,1h,2h,5s,1m,0:10:00,90|2m\n",
    )
    assert arrival.job.estimate == Estimate(7200)
    assert arrival.job.interruption == Interruption(5, 60, 600)
    assert arrival.failures == (90, 120)


@pytest.mark.parametrize(
    ("column", "seconds"),
    [
        ("duration_min", 90),
        ("Duration (min)", 90),
        ("duration_h", 5400),
        ("runtime_hours", 5400),
        ("elapsed_days", 129_600),
        ("duration_ms", 0.0015),
    ],
)
def test_the_name_of_a_column_may_tell_its_unit(
    tmp_path: Path, column: str, seconds: float
) -> None:
    assert only(tmp_path, f"submit_s,{column}\n0,1.5\n").work_s == pytest.approx(seconds)
    line = f'{{"submit_s": 0, "{column}": 1.5}}\n'
    assert only(tmp_path, line, "jobs.jsonl").work_s == pytest.approx(seconds)


def test_what_is_spelled_out_needs_no_unit_from_the_column(tmp_path: Path) -> None:
    assert only(tmp_path, "submit_s,duration_h\n0,0:30:00\n").work_s == 1800


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("submit_s,end_s\n10,70\n", 60),
        ("Submit Time,End Time\n2024-05-01 12:00:00,2024-05-01 12:01:00\n", 60),
        ("submit_s,start_s,end_s\n10,50,70\n", 20),
        ("submit_s,start_s,end_s,duration\n10,50,70,5\n", 5),
    ],
)
def test_without_a_duration_the_end_tells_it(tmp_path: Path, text: str, seconds: float) -> None:
    assert only(tmp_path, text).work_s == seconds


def test_the_end_tells_it_in_json_too(tmp_path: Path) -> None:
    assert only(tmp_path, '{"submit_s": 5, "end_time": 25}\n', "jobs.jsonl").work_s == 20


def test_it_is_told_that_time_to_the_end_includes_waiting(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,end_s,gpus\n10,70,1\n")
    (note,) = traces.read(tmp_path / "jobs.csv").notes
    assert note == "durations are end_s less submit_s, so they include any waiting"


def test_a_job_that_ends_before_it_comes_is_refused(tmp_path: Path) -> None:
    message = complaint(tmp_path, "submit_s,end_time\n10,7\n")
    assert "jobs.csv:2: column 'end_time': the job ends 3 s before" in message


@pytest.mark.parametrize(
    "text",
    [
        "submit_s,duration_s\n0,1e308\n",
        "submit_s,duration_s\n2e12,1\n",
        "submit_s,duration_s,estimate_s\n0,1,1e13\n",
        "submit_s,duration_s,cancel_s\n0,1,1e13\n",
        "submit_s,duration_s,failures\n0,1,1e13\n",
        "submit_s,duration_s\n0,99999999999d\n",
        "submit_s,duration_h\n0,1e11\n",
        "timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,1e13,1,a\n",
        "job_id,num_gpu,submit_time,duration,iterations\n1,1,1e13,1,1\n",
        "name,num_gpu,gpu_milli,creation_time,deletion_time\na,1,1000,0,1e13\n",
        "name,time,application,num_replicas,duration_s\na,0,ncf,1,1e13\n",
    ],
)
def test_more_than_thirty_thousand_years_are_refused(tmp_path: Path, text: str) -> None:
    message = complaint(tmp_path, text)
    assert "jobs.csv:2: column" in message
    assert "is more than 1e12 seconds" in message


def test_milliseconds_of_today_are_not_too_many(tmp_path: Path) -> None:
    header = "job_id,num_gpu,submit_time,duration,iterations,iteration_time"
    assert only(tmp_path, f"{header}\n1,1,1700000000000,5000,1,1\n").work_s == 5
