"""The public traces themselves, where they lie beside the repository."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dovetail import traces
from dovetail.core.errors import BadInput
from dovetail.traces.clusters.cluster_text import read_cluster, split_by_tenants

DATA = Path(__file__).parents[3] / "shared" / "data"
APPLICATIONS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="../shared is not here")


def test_philly_has_its_load_and_is_read_quickly() -> None:
    start = time.process_time()
    trace = traces.read(DATA / "philly" / "philly_jobs_sep_oct.csv.gz")
    assert time.process_time() - start < 2.0  # 0.4 on the machine it was written on
    found = traces.describe(trace, read_cluster("64x8"))
    assert (found.jobs, found.tenants) == (52_849, 12)
    assert found.load == pytest.approx(0.91, abs=0.005)


def test_the_nodes_of_philly_are_divided_among_its_virtual_clusters() -> None:
    nodes = split_by_tenants(read_cluster("352x8"), DATA / "philly" / "philly_vc_nodes.csv")
    assert all(node.tenant for node in nodes)
    assert sum(node.tenant == "ed69ec" for node in nodes) == 8


def test_muri_and_its_copy_in_seconds_are_the_same_jobs() -> None:
    muri = traces.read(DATA / "muri" / "trace3.csv.gz").arrivals
    copy = traces.read(DATA.parent / "golden" / "simulators" / "trace3.csv").arrivals
    assert [(a.at, a.job.id, a.job.gpus, a.work_s) for a in muri] == [
        (a.at, a.job.id, a.job.gpus, a.work_s) for a in copy
    ]


def test_alibaba_has_its_pods_and_nodes() -> None:
    folder = DATA / "alibaba_gpu_2023"
    found = traces.describe(traces.read(folder / "openb_pod_list_default.csv.gz"))
    nodes = read_cluster(str(folder / "openb_node_list_gpu_node.csv.gz"))
    assert found.jobs == 8152
    assert found.part_of_gpu == pytest.approx(0.38, abs=0.005)
    assert (found.sizes[0].gpus, found.sizes[0].jobs) == ("none", 1088)
    assert (len(nodes), sum(node.gpus for node in nodes)) == (1213, 6212)


def test_pollux_has_four_workloads_of_160_jobs() -> None:
    path = DATA / "pollux" / "workloads_1_to_4.csv"
    seconds = dict.fromkeys(APPLICATIONS, 60.0)
    for workload in "1234":
        assert len(traces.read(f"{path}#{workload}", durations=seconds).arrivals) == 160
    with pytest.raises(BadInput, match="does not say how long"):
        traces.read(path)


def test_rubick_is_read_as_a_table_of_ones_own() -> None:
    trace = traces.read(DATA / "rubick" / "workload-base.csv")
    assert (trace.format, len(trace.arrivals), trace.arrivals[0].job.model) == (
        "dovetail",
        406,
        "vit",
    )
