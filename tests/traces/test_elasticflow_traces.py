"""ElasticFlow's traces and its folders of speeds."""

from pathlib import Path

import pytest

from dovetail.core.errors import BadInput
from dovetail.models.speed_table import Hardware, ModelType
from dovetail.traces.clusters.speed_tables import read_speed_table
from dovetail.traces.readers.formats import read

TRACE = """job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration
7,100,50,net,400,64,2,40
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "throughputs_T4"
    found.mkdir()
    (found / "net.csv").write_text(
        "global_batch_size,1,2,4,8\n64,1.0,1.25,2.0,nan\n128,0.5,1,1.5,2\n"
    )
    return found


def test_a_folder_of_speeds_has_a_file_a_model_and_a_column_a_number_of_gpus(folder: Path) -> None:
    table = read_speed_table(folder)
    assert table.reference == "t4"
    assert table.speeds[ModelType("net", 64)] == {
        Hardware("t4", 1): 1.0,
        Hardware("t4", 2): 1.25,
        Hardware("t4", 4): 2.0,
    }


def test_a_job_may_have_up_to_the_gpus_on_which_it_is_fastest(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(TRACE)
    trace = read(file, speeds=read_speed_table(folder))
    (arrival,) = trace.arrivals
    job = arrival.job
    assert trace.format == "elasticflow"
    assert (arrival.at, arrival.work_s, job.deadline) == (100.0, 40.0, 400.0)
    assert (job.gpus, job.least_gpus, job.most_gpus, job.model) == (2, 1, 4, "net@64")


def test_without_speeds_a_trace_of_iterations_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(TRACE)
    with pytest.raises(BadInput, match="tells iterations, not how long its jobs run; give"):
        read(file)


def test_a_count_outside_the_table_is_named(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(TRACE.replace(",64,2,", ",64,8,"))
    with pytest.raises(BadInput, match="the speed table has no 'net@64' on 8 GPUs"):
        read(file, speeds=read_speed_table(folder))


def test_a_folder_without_tables_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no tables of speeds: no file ends with"):
        read_speed_table(tmp_path)
