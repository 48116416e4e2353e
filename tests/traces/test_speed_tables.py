"""Reading tables of speeds, and Gavel's traces, which need one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail import traces
from dovetail.core.errors import BadInput
from dovetail.models.speed_table import Hardware, ModelType
from dovetail.traces.clusters.speed_tables import read_speed_table
from speed_samples import GAVEL

FLAT = """table,gpu,job_type,scale_factor,co_job_type,co_scale_factor,steps_per_s,co_steps_per_s
simulation,k80,ResNet-50 (batch size 16),1,,,2.5,
simulation,k80,ResNet-50 (batch size 16),1,A3C,1.0,1.5,1.0
simulation,v100,ResNet-50 (batch size 16),1,,,10,
simulation,v100,ResNet-50 (batch size 16),2,,,16,
simulation,v100_unconsolidated,ResNet-50 (batch size 16),2,,,8,
simulation,v100_unconsolidated,ResNet-50 (batch size 16),1,,,9,
simulation,k80,ResNet-50 (batch size 16),2,,,0,
physical,k80,A3C,1,,,3,
"""
JSON = """{"k80": {"('ResNet-50 (batch size 16)', 1)": {"null": 2.5, "('A3C', 1)": [1.5, 1.0]}},
 "v100": {"('ResNet-50 (batch size 16)', 1)": {"null": 10},
          "('ResNet-50 (batch size 16)', 2)": {"null": 16}},
 "v100_unconsolidated": {"('ResNet-50 (batch size 16)', 2)": {"null": 8}}}"""
POLLUX = """model,cluster,placement,local_bsz,step_time,sync_time
bert,aws-t4(default),1,4,0.5,0.01
bert,aws-t4(default),12,4,0.8,0.2
bert,aws-t4(default),21,4,1.3333333333333333,0.2
"""
OWN = "model,kind,gpus,steps_per_s,batch,nodes\nbert,T4,1,2,8,\nbert,H200,2,30,8,2\n"
RESNET = ModelType("resnet50", 16)
GAVELS = {
    Hardware("k80"): 2.5,
    Hardware("v100"): 10.0,
    Hardware("v100", 2): 16.0,
    Hardware("v100", 2, 2): 8.0,
}


def saved(folder: Path, text: str, name: str = "speeds.csv") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_gavels_tables_give_jobs_alone_on_their_gpus_in_both_forms(tmp_path: Path) -> None:
    for text in (FLAT, JSON):
        assert read_speed_table(saved(tmp_path, text)).speeds == {RESNET: GAVELS}


def test_a_part_of_a_file_with_several_tables_is_named_after_it(tmp_path: Path) -> None:
    found = read_speed_table(f"{saved(tmp_path, FLAT)}#physical")
    assert found.speeds == {ModelType("a3c"): {Hardware("k80"): 3.0}}


def test_pollux_placements_are_averaged_by_gpus_and_nodes(tmp_path: Path) -> None:
    found = read_speed_table(saved(tmp_path, POLLUX))
    speeds = found.speeds[ModelType("bert", 4)]
    assert speeds == {Hardware("t4"): 2.0, Hardware("t4", 3, 2): pytest.approx((1.25 + 0.75) / 2)}


def test_our_own_table_has_a_row_for_each_model_kind_and_number_of_gpus(tmp_path: Path) -> None:
    found = read_speed_table(saved(tmp_path, OWN))
    assert found.speeds == {
        ModelType("bert", 8): {Hardware("t4"): 2.0, Hardware("h200", 2, 2): 30.0}
    }


def test_a_row_that_is_there_twice_or_was_not_measured_at_first_is_no_trouble(
    tmp_path: Path,
) -> None:
    found = read_speed_table(saved(tmp_path, OWN + "bert,T4,1,2,8,\nbert,T4,1,0,8,\n"))
    assert found.speeds[ModelType("bert", 8)][Hardware("t4")] == 2.0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\n1,2\n", r"no table of speeds \(found: a, b\); give the columns model,kind,gpus"),
        ("model,kind,gpus,steps_per_s\nbert,T4,0,2\n", "column 'gpus': '0' is not more than 0"),
        ("model,kind,gpus,steps_per_s\nbert,T4,1,-2\n", "column 'steps_per_s': '-2' is negative"),
        ("model,kind,gpus,steps_per_s\nbert,T4,1,0\n", "the speed table has no speeds"),
        (POLLUX.replace(",12,", ",x,"), "'x' is no placement"),
        ('{"k80": {"A3C": {"null": 1}}}', "not as in Gavel's tables"),
        ('{"k80": ', "is no JSON"),
        ('{"k80": 3}', "'k80': not as in Gavel's tables"),
        (JSON.replace("2.5", "NaN"), "not as in Gavel's tables"),
        (JSON.replace("2.5", "true"), "not as in Gavel's tables"),
        (JSON.replace("2.5", "-1"), "not as in Gavel's tables"),
        (OWN.replace("2,30,8,2", "2,30,8,3"), "3: column 'nodes': 3 is more than its GPUs"),
        (
            OWN + "BERT,t4,1,3,8,1\n",
            r"4: .*BERT.* says 3 .*, an earlier row .*bert.* says 2; keep one of them",
        ),
    ],
)
def test_a_bad_table_is_told_in_one_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read_speed_table(saved(tmp_path, text))


def test_a_table_that_a_file_does_not_have_is_told_with_those_it_has(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no table 'mine' with speeds; it has simulation, phys"):
        read_speed_table(f"{saved(tmp_path, FLAT)}#mine")
    for text in (OWN, JSON, POLLUX):
        with pytest.raises(BadInput, match="holds one table without a name; leave out #mine"):
            read_speed_table(f"{saved(tmp_path, text)}#mine")


def gavel_line(steps: int, gpus: int, at: float, model: str = "ResNet-50 (batch size 16)") -> str:
    return f"{model}\tpython3 main.py\timages\t--steps\t1\t{steps}\t{gpus}\t1\t-1.000000\t{at}\n"


def test_a_gavel_trace_has_no_header_and_tells_steps(tmp_path: Path) -> None:
    table = read_speed_table(saved(tmp_path, FLAT))
    path = saved(tmp_path, gavel_line(1000, 1, 0.0) + gavel_line(1600, 2, 60.0), "a.trace")
    trace = traces.read(path, speeds=table)
    assert trace.format == "gavel"
    assert [(a.at, a.work_s, a.job.gpus) for a in trace.arrivals] == [(0, 100, 1), (60, 100, 2)]
    assert trace.arrivals[0].job.model == "ResNet-50 (batch size 16)"


def test_a_gavel_trace_without_speeds_or_with_an_unknown_model_says_what_it_needs(
    tmp_path: Path,
) -> None:
    path = saved(tmp_path, gavel_line(1000, 1, 0.0, "VGG"), "a.trace")
    with pytest.raises(BadInput, match="give --speed-table FILE"):
        traces.read(path)
    with pytest.raises(BadInput, match=r"a\.trace:1: the speed table has no 'VGG' on 1 v100"):
        traces.read(path, speeds=read_speed_table(saved(tmp_path, FLAT)))


@pytest.mark.skipif(not GAVEL.exists(), reason="needs ../shared")
def test_the_two_forms_of_gavels_table_are_the_same() -> None:
    flat = read_speed_table(GAVEL / "throughputs_flat.csv.gz")
    assert read_speed_table(GAVEL / "simulation_throughputs.json.gz").speeds == flat.speeds
    assert len(flat.speeds) == 26
