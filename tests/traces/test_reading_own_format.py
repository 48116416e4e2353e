"""A CSV or JSON lines of one's own jobs: few columns needed, many possible, typos not lost."""

from __future__ import annotations

import io
import sys
from math import inf
from pathlib import Path

import pytest

from dovetail import traces
from dovetail.core.errors import BadInput
from dovetail.core.model import Estimate, Interruption
from dovetail.models.workload import Arrival


def read(folder: Path, text: str, name: str = "jobs.csv", skip: bool = False) -> traces.Trace:
    path = folder / name
    path.write_bytes(text.encode())
    return traces.read(path, skip_bad_rows=skip)


def only(folder: Path, text: str, name: str = "jobs.csv") -> Arrival:
    (arrival,) = read(folder, text, name).arrivals
    return arrival


def test_two_columns_are_enough_and_ids_are_row_numbers(tmp_path: Path) -> None:
    trace = read(tmp_path, "submit_s,duration_s\n5,10\n0,20\n")
    assert [(a.job.id, a.at, a.work_s, a.job.gpus) for a in trace.arrivals] == [
        ("2", 0.0, 20.0, 1),
        ("1", 5.0, 10.0, 1),
    ]


def test_a_job_without_an_id_gets_the_number_of_its_row(tmp_path: Path) -> None:
    trace = read(tmp_path, "job_id,submit_s,duration_s\na,0,1\n,1,1\n")
    assert [arrival.job.id for arrival in trace.arrivals] == ["a", "2"]


def test_every_column_lands_in_its_field(tmp_path: Path) -> None:
    arrival = only(
        tmp_path,
        "job_id,submit_s,duration_s,gpus,kinds,cpus,memory_gb,user,tenant,name,group,model,priority,"
        "weight,deadline_s,min_gpus,max_gpus,estimate_s,retries,save_s,restore_s,lost_s,cancel_s,"
        "failures\n"
        "a,1,2,4,V100|T4,8,16.5,ann,vision,train,study,bert,-3,2,99,2,8,50,3,5,6,7,80,1.5|2\n",
    )
    job = arrival.job
    assert (job.id, job.gpus, job.kinds, job.cpus, job.memory_gb) == (
        "a",
        4,
        ("V100", "T4"),
        8,
        16.5,
    )
    assert (job.user, job.tenant, job.name, job.group) == ("ann", "vision", "train", "study")
    assert (job.model, job.priority, job.weight, job.deadline) == ("bert", -3, 2, 99)
    assert (job.min_gpus, job.max_gpus, job.estimate, job.retries) == (2, 8, Estimate(50), 3)
    assert job.interruption == Interruption(5, 6, 7)
    assert (arrival.cancel_at, arrival.failures) == (80, (1.5, 2))


def test_empty_cells_mean_the_default(tmp_path: Path) -> None:
    job = only(
        tmp_path, "submit_s,duration_s,gpus,weight,save_s,lost_s,estimate_s\n0,1,,,3,,\n"
    ).job
    assert (job.gpus, job.weight, job.estimate) == (1, 1.0, None)
    assert job.interruption == Interruption(3.0, 0.0, inf)


@pytest.mark.parametrize(
    "header",
    [
        "id,submit_time,duration,num_gpus",
        "Job ID,Submit Time,Runtime,GPUs",
        "job,arrival_time,elapsed,gpu",
        " job_id , submit_s , duration_s , gpus ",
        "name,submit_s,duration_s,gpus",
    ],
)
def test_the_usual_spellings_are_understood(tmp_path: Path, header: str) -> None:
    arrival = only(tmp_path, f"{header}\nx,3,60,2\n")
    assert (arrival.at, arrival.work_s, arrival.job.gpus) == (3.0, 60.0, 2)


@pytest.mark.parametrize(
    ("cell", "share"),
    [
        *(("500", 500), ("0.5", 500), ("1.0", 1000), ("1", 1000), ("1000", 1000), ("", 1000)),
        *(("0.001", 1), ("2", 2), ("2.0", 2)),
    ],
)
def test_a_share_is_thousandths_or_a_fraction(tmp_path: Path, cell: str, share: int) -> None:
    assert only(tmp_path, f"submit_s,duration_s,share\n0,1,{cell}\n").job.share == share


@pytest.mark.parametrize("cell", ["1.5", "1001", "0", "-1", "half"])
def test_what_is_no_share_is_refused(tmp_path: Path, cell: str) -> None:
    with pytest.raises(BadInput, match=r"jobs.csv:2: "):
        read(tmp_path, f"submit_s,duration_s,share\n0,1,{cell}\n")


def test_a_column_named_after_thousandths_is_in_thousandths(tmp_path: Path) -> None:
    assert only(tmp_path, "submit_s,duration_s,gpu_milli\n0,1,1\n").job.share == 1
    line = '{"submit_s": 0, "duration_s": 1, "gpu_milli": 1}\n'
    assert only(tmp_path, line, "jobs.jsonl").job.share == 1


@pytest.mark.parametrize("name", ["n_gpu", "ngpus", "gpus_requested", "n_gpu_requested"])
def test_gpus_have_many_names(tmp_path: Path, name: str) -> None:
    assert only(tmp_path, f"submit_s,duration_s,{name}\n0,1,4\n").job.gpus == 4


@pytest.mark.parametrize(
    ("header", "notes"),
    [
        ("submit_s,duration_s,gpus", ()),
        (
            "submit_s,duration_s,accelerators",
            ("columns not used: accelerators; every job is taken to ask for 1 GPU",),
        ),
        ("submit_s,duration_s,Exit Code,gpus", ("columns not used: Exit Code",)),
        ("submit_s,duration_s,duration,gpus", ("column duration_s is taken, not duration",)),
    ],
)
def test_what_was_passed_over_is_noted(tmp_path: Path, header: str, notes: tuple[str, ...]) -> None:
    cells = ",".join("1" * len(header.split(",")))
    assert read(tmp_path, f"{header}\n{cells}\n").notes == notes


def test_keys_that_were_passed_over_are_noted(tmp_path: Path) -> None:
    line = '{"submit_s": 0, "duration_s": 1, "accelerators": 4}\n'
    assert read(tmp_path, line, "jobs.jsonl").notes == (
        "columns not used: accelerators; every job is taken to ask for 1 GPU",
    )


def test_two_spellings_of_one_column_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'num_gpus' and 'gpu' could each be 'gpus'"):
        read(tmp_path, "submit_s,duration_s,num_gpus,gpu\n0,1,2,3\n")


def test_the_exact_name_wins_over_another_spelling(tmp_path: Path) -> None:
    assert only(tmp_path, "submit_s,duration_s,num_gpus,gpus\n0,1,2,3\n").job.gpus == 3


def test_a_likely_typo_is_not_ignored(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'dealine_s' is not known; did you mean 'deadline_s'"):
        read(tmp_path, "submit_s,duration_s,dealine_s\n0,1,2\n")


def test_columns_that_mean_nothing_to_us_are_passed_over(tmp_path: Path) -> None:
    assert only(tmp_path, "submit_s,exit_code,duration_s,\n0,137,9,\n").work_s == 9.0


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffsubmit_s,duration_s,user\n0,1,ann\n",
        "submit_s,duration_s,user\r\n0,1,ann\r\n",
        'submit_s,"duration_s",user\n"0","1","ann"\n',
        "submit_s;duration_s;user\n0;1;ann\n",
        "submit_s\tduration_s\tuser\n0\t1\tann\n",
        "# made by hand\n\nsubmit_s,duration_s,user\n\n0,1, ann\n,,\n",
        "submit_s,duration_s,user\n0,1,ann,,\n",
        "submit_s,duration_s,user\n0,1,ann",
    ],
    ids=["bom", "crlf", "quotes", "semicolons", "tabs", "comments", "empty-tail", "no-newline"],
)
def test_csv_of_every_habit_is_read(tmp_path: Path, text: str) -> None:
    arrival = only(tmp_path, text)
    assert (arrival.work_s, arrival.job.user) == (1.0, "ann")


def test_dates_become_seconds_since_the_first(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "submit_s,duration_s,deadline_s,cancel_s\n"
        "2024-05-01T12:00:00,60,2024-05-01T13:00:00,\n"
        "2024-05-01 11:59:00,60,,2024-05-01 12:00:30\n",
    )
    first, second = trace.arrivals
    assert (first.at, first.cancel_at) == (0.0, 90.0)
    assert (second.at, second.job.deadline) == (60.0, 3660.0)


def test_dates_with_a_zone_are_compared_in_time_not_on_the_wall(tmp_path: Path) -> None:
    trace = read(
        tmp_path, "submit_s,duration_s\n2024-05-01T12:00:00Z,1\n2024-05-01T12:00:00+02:00,1\n"
    )
    assert [arrival.at for arrival in trace.arrivals] == [0.0, 7200.0]


def test_numbers_and_dates_are_not_mixed(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"jobs.csv:3: column 'submit_s': '12' is not a time"):
        read(tmp_path, "submit_s,duration_s\n2024-05-01 12:00:00,1\n12,1\n")


def test_names_keep_the_order_of_the_file_where_times_are_equal(tmp_path: Path) -> None:
    trace = read(tmp_path, "job_id,submit_s,duration_s\nb,1,1\n10,1,1\na,0,1\n9,1,1\n")
    assert [arrival.job.id for arrival in trace.arrivals] == ["a", "b", "10", "9"]


def test_json_lines_take_the_same_names(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        '{"id": 7, "submit_time": 3, "duration": 4.5, "num_gpus": 2, "kinds": ["A", "B"]}\n\n'
        '{"id": 8, "submit_s": 1, "duration_s": 1, "failures": [1, 2.5], "user": null}\n',
        "jobs.jsonl",
    )
    second, first = trace.arrivals
    assert (first.job.id, first.work_s, first.job.gpus, first.job.kinds) == (
        "7",
        4.5,
        2,
        ("A", "B"),
    )
    assert second.failures == (1.0, 2.5)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"submit_s": 1', "not a JSON object"),
        ("3", "not a JSON object"),
        ('{"submit_s": 1}', "column 'duration_s': is empty"),
        ('{"submit_s": NaN, "duration_s": 1}', "'nan' is not a finite number"),
        ('{"submit_s": 1, "duration_s": {"a": 1}}', "'duration_s' holds {'a': 1}"),
        ('{"submit_s": 1, "duration_s": 1, "duration": 2}', "both mean 'duration_s'"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_json_line_is_named(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(tmp_path, '{"submit_s": 1, "duration_s": 1}\n' + line + "\n", "jobs.jsonl")
    assert "jobs.jsonl:2: " in str(caught.value)
    assert why in str(caught.value)


def test_one_json_list_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="one object a line"):
        read(tmp_path, '[{"submit_s": 1}]', "jobs.json")


def test_standard_input_is_read_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"submit_s,duration_s\n0,1\n")))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert len(traces.read("-").arrivals) == 1
    assert not stdin.buffer.closed
