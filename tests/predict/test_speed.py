"""How fast models run that were never measured."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean, median

import pytest
from benchmarks.similarity import unseen_scales

from dovetail.core.errors import BadInput
from dovetail.models.speed_table import Hardware, ModelType, SpeedTable, model_type
from dovetail.predict.left_out import choices, left_out, same_type
from dovetail.predict.registry import SPEED_PREDICTORS
from dovetail.predict.similarity import Scales, guess, known_models, same_model
from dovetail.predict.speed import SameEverywhere, SimilarModels, explained
from dovetail.testing import job
from dovetail.traces.clusters.speed_tables import read_speed_table
from speed_samples import GAVEL, made_up_table

TABLE = made_up_table()
K80, V100 = Hardware("k80"), Hardware("v100")


def tables() -> Iterator[SpeedTable]:
    """The made-up one, and Gavel's two where they are at hand."""
    yield TABLE
    if GAVEL.exists():
        for name in ("simulation", "physical_cluster"):
            yield read_speed_table(f"{GAVEL}/throughputs_flat.csv.gz#{name}")


def test_every_known_model_says_where_its_figures_come_from() -> None:
    for known in known_models().values():
        assert known.source, known.name
        assert min(known.parameters_m, known.gflop_per_sample, known.layers, known.batch) > 0
    assert {"resnet50", "transformer", "lm", "a3c", "cyclegan", "recommendation"} <= set(
        known_models()
    )


def test_what_was_measured_is_told_as_measured() -> None:
    for table in tables():
        usual = Hardware(table.reference)
        for model in table.speeds:
            for kind in table.kinds:
                truth = table.ratio(model, Hardware(kind), usual)
                found = guess(table, model, Hardware(kind), usual)
                assert found is not None
                assert truth is None or (found.measured and found.ratio == truth), (model, kind)


def test_a_model_with_the_very_features_of_another_is_ranked_as_that_one_is() -> None:
    """`imagenet` is another name of ResNet-50: nothing tells the two apart."""
    known = ModelType("resnet50", 32)
    for kind in TABLE.kinds:
        found = guess(TABLE, ModelType("imagenet", 32), Hardware(kind), V100)
        assert found is not None
        assert found.neighbours[0].model == known
        assert found.neighbours[0].weight == 1.0
    alone = TABLE.without(lambda own: own != known)
    twin = guess(alone, ModelType("imagenet", 32), K80, V100)
    assert twin is not None
    assert twin.ratio == pytest.approx(TABLE.speeds[known][K80] / TABLE.speeds[known][V100])


def test_leaving_one_job_type_out_misses_ratios_by_less_than_15_percent() -> None:
    for table in tables():
        assert median(miss.error for miss in left_out(table, same_type)) < 0.15


def test_leaving_a_whole_model_out_beats_the_median_of_the_others() -> None:
    for table in tables():
        misses = list(left_out(table, same_model))
        assert median(m.error for m in misses) < median(m.error_of_everyone for m in misses)


def test_so_it_does_with_scales_chosen_without_that_model() -> None:
    few = [Scales(0.0, 0.3), Scales(1.0, 0.05), Scales(4.0, 0.02)]
    for table in tables():
        misses = unseen_scales(table, few)
        assert len(misses) == len(list(left_out(table, same_model)))
        assert median(m.error for m in misses) < median(m.error_of_everyone for m in misses)


def test_one_odd_neighbour_or_many_batch_sizes_of_a_model_do_not_carry_a_strange_one_away() -> None:
    """VGG-16 is most like ResNet-50 here, which says 100; the others agree on about 4."""
    rows = {"bert@12": 4.0, "lm@20": 4.1, "a3c": 3.9, "transformer@64": 4.2}
    rows |= {f"resnet50@{batch}": 100.0 for batch in (16, 32, 64, 128, 256)}
    speeds = {model_type(name): {V100: ratio, K80: 1.0} for name, ratio in rows.items()}
    found = guess(SpeedTable(speeds), model_type("vgg16@32"), V100, K80)
    assert found is not None
    assert found.neighbours[0].model.model == "resnet50"
    assert found.of_everyone == 100.0
    assert 3.9 < found.ratio < 5.0


def test_measured_models_of_which_nothing_is_known_count_less_than_those_alike() -> None:
    rows = {"resnet50@32": 8.0, "mine": 2.0, "yours": 2.0}
    speeds = {model_type(name): {V100: ratio, K80: 1.0} for name, ratio in rows.items()}
    found = guess(SpeedTable(speeds), model_type("vgg16@32"), V100, K80)
    assert found is not None
    assert found.of_everyone == 2.0 < 2.5 < found.ratio <= 8.0


def test_the_kind_chosen_for_a_type_left_out_loses_less_than_a_tenth() -> None:
    for table in tables():
        found = list(choices(table, same_type))
        assert mean(one.right for one in found) > 0.8
        assert mean(one.regret for one in found) < 0.1


def test_the_nearest_of_a_convolution_are_convolutions_and_of_a_type_those_of_its_model() -> None:
    strange = guess(TABLE, model_type("vgg16@32"), K80, V100)
    assert strange is not None
    families = {known_models()[n.model.model].family for n in strange.neighbours}
    assert families == {"convolution"}
    between = guess(TABLE, model_type("resnet50@24"), K80, V100)
    assert between is not None
    assert {n.model.model for n in between.neighbours} == {"resnet50"}


def test_a_model_of_which_nothing_is_known_is_taken_for_the_median_of_all() -> None:
    found = guess(TABLE, model_type("mine"), K80, V100)
    assert found is not None
    assert found.neighbours == ()
    assert found.ratio == pytest.approx(found.of_everyone)


def test_a_study_hides_the_type_or_the_whole_model_from_the_policy() -> None:
    facts = {"table": lambda: TABLE, "true_speeds": lambda: TABLE}
    names = ("oracle", "similar", "strangers", "none")
    told = {name: SPEED_PREDICTORS.make(name, facts) for name in names}
    own = job(model="resnet18@64")
    truth = TABLE.ratio(ModelType("resnet18", 64), K80, V100)
    speeds = {name: told[name].speed(own, "K80", 1, 1) for name in told}
    assert speeds["oracle"] == truth
    assert speeds["none"] == 1.0
    assert len(set(speeds.values())) == 4
    hidden = TABLE.without(lambda model: model.model == "resnet18")
    expected = guess(hidden, ModelType("resnet18", 64), K80, V100)
    assert expected is not None
    assert speeds["strangers"] == expected.ratio


def test_without_a_table_a_model_or_a_known_kind_nothing_is_believed() -> None:
    speeds = SimilarModels(TABLE)
    assert SameEverywhere().speed(job(model="resnet50@64"), "k80", 1, 1) == 1.0
    assert speeds.speed(job(), "k80", 1, 1) == 1.0
    assert speeds.speed(job(model="resnet50@64"), "T4", 1, 1) == 1.0
    with pytest.raises(BadInput, match="'similar' needs a table of speeds"):
        SPEED_PREDICTORS.make("similar")


def test_an_explanation_names_speeds_neighbours_and_errors() -> None:
    found = explained(TABLE, model_type("vgg16"))
    assert [one.kind for one in found.kinds] == ["k80", "p100", "v100"]
    assert found.kinds[2].speed == 1.0
    assert len(found.kinds[0].neighbours) == 3
    assert found.error_left_out is not None
    assert found.error_model_left_out is not None
    assert 0 < found.error_left_out < found.error_model_left_out
    assert explained(TABLE, model_type("resnet50@64")).measured
