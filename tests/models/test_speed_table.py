"""Measured speeds by model type and hardware."""

from __future__ import annotations

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.models.speed import by_kind_and_placement, by_table
from dovetail.models.speed_table import Hardware, ModelType, SpeedTable, model_type
from dovetail.testing import job, placement

RESNET = ModelType("resnet50", 64)
TABLE = SpeedTable(
    {
        RESNET: {
            Hardware("k80", 1): 1.0,
            Hardware("v100", 1): 8.0,
            Hardware("v100", 2): 14.0,
            Hardware("v100", 2, 2): 7.0,
            Hardware("k80", 2): 0.0,
        },
        ModelType("a3c"): {Hardware("k80", 1): 2.0, Hardware("v100", 1): 4.0},
    }
)
NODES = (Node("n0", 4, kind="V100"), Node("n1", 4, kind="V100"), Node("n2", 4, kind="Tesla K80"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ResNet-50 (batch size 64)", RESNET),
        ("resnet50@64", RESNET),
        ("resnet_50", ModelType("resnet50")),
        ("A3C", ModelType("a3c")),
        ("", ModelType("")),
        ("Mödel-ä@8", ModelType("mödelä", 8)),
        ("Mo\u0308del-ö", ModelType("mödelö")),
        ("模型甲", ModelType("模型甲")),
        ("मॉडल २", ModelType("मॉडल२")),
    ],
)
def test_a_model_and_its_batch_size_are_told_in_several_ways(text: str, found: ModelType) -> None:
    assert model_type(text) == found


def test_the_reference_is_the_kind_most_models_are_fastest_on_or_the_one_that_is_named() -> None:
    assert TABLE.reference == "v100"
    assert SpeedTable(TABLE.speeds, "K80").reference == "k80"
    with pytest.raises(BadInput, match=r"no GPU kind 'T4'; it has k80, v100"):
        SpeedTable(TABLE.speeds, "T4")


def test_a_kind_is_found_in_the_long_name_that_a_node_gives_it() -> None:
    assert TABLE.kind_of("Tesla V100-SXM2-16GB") == "v100"
    assert TABLE.kind_of("T4") == ""


def test_a_number_of_gpus_that_was_not_measured_on_both_kinds_takes_the_nearest_that_was() -> None:
    assert TABLE.ratio(RESNET, Hardware("k80", 2), Hardware("v100", 2)) == 1 / 8
    assert TABLE.ratio(RESNET, Hardware("v100", 2, 2), Hardware("v100", 2)) == 0.5
    assert TABLE.ratio(RESNET, Hardware("t4"), Hardware("v100")) is None


def test_another_batch_size_of_a_model_stands_in_for_one_that_was_not_measured() -> None:
    assert TABLE.nearest(model_type("resnet50@32")) == RESNET
    assert TABLE.nearest(model_type("resnet50")) == RESNET
    assert TABLE.nearest(model_type("vgg16")) is None


def test_in_a_simulation_jobs_run_as_measured_and_others_as_their_kind_says() -> None:
    speed = by_table(TABLE, otherwise=by_kind_and_placement({"V100": 3.0}))
    known, unknown = job(gpus=2, model="ResNet-50 (batch size 64)"), job(model="vgg16")
    assert speed(known, placement((0, 0b11)), NODES) == 1.0
    assert speed(known, placement((0, 0b1), (1, 0b1)), NODES) == 0.5
    assert speed(known, placement((2, 0b11)), NODES) == 1 / 8
    assert speed(unknown, placement((0, 0b1)), NODES) == 3.0


def test_a_table_without_speeds_is_refused() -> None:
    with pytest.raises(ValueError, match="no speeds"):
        SpeedTable({RESNET: {}})


def test_numbers_of_gpus_are_compared_within_what_was_measured() -> None:
    rows = {Hardware("v100", 1): 10.0, Hardware("v100", 4): 34.0, Hardware("v100", 8): 50.0}
    table = SpeedTable({ModelType("net"): rows})
    one = Hardware("v100", 1)
    assert table.ratio(ModelType("net"), Hardware("v100", 4), one) == 3.4
    assert table.ratio(ModelType("net"), Hardware("v100", 2), one) == pytest.approx(1.8)
    assert table.ratio(ModelType("net"), Hardware("v100", 16), one) is None


def test_an_elastic_job_runs_as_the_table_or_the_law_has_its_number_of_gpus() -> None:
    rows = {Hardware("v100", 1): 10.0, Hardware("v100", 4): 30.0}
    table = SpeedTable({ModelType("net"): rows})
    speed = by_table(table, otherwise=by_kind_and_placement({}, scaling=0.5))
    where, cluster = placement((0, 0b1111)), [Node("n", 8, "V100")]
    assert speed(job(model="net", max_gpus=8), where, cluster) == 3.0
    assert speed(job(model="other", max_gpus=8), where, cluster) == 2.0
    assert speed(job(gpus=4, model="other"), where, cluster) == 1.0
