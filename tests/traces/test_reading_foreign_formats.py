"""Traces of other people's simulators and clusters, in small files of the same form."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dovetail import traces
from dovetail.core.errors import BadInput

TIRESIAS = """job_id,num_gpu,submit_time,iterations,model_name,duration,interval
10,8,30,133,vgg11,147,23
9,2,30,157,inception4,127,26
0,1,0,606,vgg19,164,30
"""
MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
    "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
    "0,4,1456500,1046811,bert,128,927475000,11174000,886,703,62,17,1\n"
)
PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,4,2951.0,6214e9
2017-10-10 06:13:03,5.0,4,20.0,6214e9
"""
POLLUX = """workload,name,time,application,num_replicas,batch_size
1,cifar10-0,107,cifar10,6,2048
1,ncf-2,135,ncf,1,32768
2,cifar10-0,90,cifar10,2,2048
"""
ALIBABA = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,0,100,10
p1,6000,12288,1,460,V100M16|V100M32,LS,Pending,20,120,
p2,4000,,0,0,,BE,Running,30,130,30
p3,,,8,1000,,LS,Failed,40,140,40
"""


def saved(folder: Path, text: str, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_tiresias_trace_is_recognised_and_ordered_by_time_then_job_number(tmp_path: Path) -> None:
    trace = traces.read(saved(tmp_path, TIRESIAS))
    assert trace.format == "tiresias"
    assert [arrival.job.id for arrival in trace.arrivals] == ["0", "9", "10"]
    last = trace.arrivals[-1]
    assert (last.at, last.work_s, last.job.gpus, last.job.model) == (30.0, 147.0, 8, "vgg11")


def test_a_muri_trace_is_in_milliseconds(tmp_path: Path) -> None:
    trace = traces.read(saved(tmp_path, MURI))
    only = trace.arrivals[0]
    assert trace.format == "muri"
    assert (only.at, only.work_s, only.job.model) == (1456.5, 927475.0, "bert")


def test_a_muri_file_read_as_tiresias_is_still_in_milliseconds(tmp_path: Path) -> None:
    assert traces.read(saved(tmp_path, MURI), format="tiresias").arrivals[0].at == 1456.5


def test_philly_times_count_from_the_first_submission(tmp_path: Path) -> None:
    trace = traces.read(saved(tmp_path, PHILLY))
    assert trace.format == "philly"
    assert [(a.at, a.job.id, a.job.tenant) for a in trace.arrivals] == [
        (0.0, "2", "6214e9"),
        (2932.0, "1", "11cb48"),
        (86400.0, "3", "6214e9"),
    ]


def test_a_gzip_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "philly.data"
    path.write_bytes(gzip.compress(PHILLY.encode()))
    assert len(traces.read(path).arrivals) == 3


def test_a_pollux_file_without_durations_says_how_to_give_them(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"does not say how long its jobs run.*--durations FILE"):
        traces.read(saved(tmp_path, POLLUX))


def test_one_workload_of_a_pollux_file_is_named_behind_a_hash(tmp_path: Path) -> None:
    path = saved(tmp_path, POLLUX)
    given = traces.read_durations(
        saved(tmp_path, "application,seconds\nncf,9\ncifar10,50\n", "d.csv")
    )
    first = traces.read(f"{path}#1", durations=given)
    assert [(a.job.id, a.work_s, a.job.gpus) for a in first.arrivals] == [
        ("cifar10-0", 50.0, 6),
        ("ncf-2", 9.0, 1),
    ]
    assert len(traces.read(f"{path}#2", durations=given).arrivals) == 1
    with pytest.raises(BadInput, match="#7 has no jobs"):
        traces.read(f"{path}#7", durations=given)


def test_several_pollux_workloads_are_never_mixed(tmp_path: Path) -> None:
    path = saved(tmp_path, POLLUX)
    with pytest.raises(BadInput, match=r"several workloads; name one, as in .*jobs.csv#1"):
        traces.read(path, durations={"ncf": 1, "cifar10": 2})


def test_an_application_without_a_duration_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path, POLLUX)
    with pytest.raises(BadInput, match=r":3: column 'application': 'ncf' is not among"):
        traces.read(f"{path}#1", durations={"cifar10": 2})


def test_a_pollux_file_with_a_duration_column_needs_nothing_else(tmp_path: Path) -> None:
    text = "name,time,application,num_replicas,duration\na,1,ncf,2,30\n"
    assert traces.read(saved(tmp_path, text)).arrivals[0].work_s == 30.0


def test_only_pollux_files_have_parts(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a trace of philly has no parts"):
        traces.read(f"{saved(tmp_path, PHILLY)}#1")


def test_a_hash_in_the_name_of_a_file_is_part_of_the_name(tmp_path: Path) -> None:
    assert traces.read(saved(tmp_path, PHILLY, "jobs#1")).format == "philly"


def test_alibaba_pods_ask_for_gpus_parts_of_one_or_none(tmp_path: Path) -> None:
    trace = traces.read(saved(tmp_path, ALIBABA))
    whole, part, none, many = (arrival.job for arrival in trace.arrivals)
    assert trace.format == "alibaba-2023"
    assert (whole.gpus, whole.share, whole.cpus, whole.memory_gb) == (1, 1000, 12.0, 16.0)
    assert (part.share, part.kinds) == (460, ("V100M16", "V100M32"))
    assert (none.gpus, none.cpus, none.memory_gb) == (0, 4.0, 0.0)
    assert (many.gpus, many.share) == (8, 1000)


def test_an_alibaba_pod_runs_from_when_it_was_scheduled_or_else_created(tmp_path: Path) -> None:
    trace = traces.read(saved(tmp_path, ALIBABA))
    assert [arrival.work_s for arrival in trace.arrivals] == [90.0, 100.0, 100.0, 100.0]


def test_an_alibaba_pod_deleted_before_it_starts_is_a_bad_row(tmp_path: Path) -> None:
    path = saved(tmp_path, ALIBABA + "p4,1000,1,1,1000,,LS,Failed,50,40,50\n")
    with pytest.raises(BadInput, match=r"jobs.csv:6: .*deleted 10 s before it starts"):
        traces.read(path)


@pytest.mark.parametrize("missing", ["duration", "timestamp"])
def test_a_format_asked_for_by_name_says_which_column_is_missing(
    tmp_path: Path, missing: str
) -> None:
    path = saved(tmp_path, PHILLY.replace(missing, "other"))
    with pytest.raises(BadInput, match=f"no column '{missing}'"):
        traces.read(path, format="philly")


def test_a_format_that_does_not_exist_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match="no trace format 'slurm'; there is elasticflow, muri, tiresias"
    ):
        traces.read(saved(tmp_path, PHILLY), format="slurm")
