"""InferLine: the cheapest setting of a pipeline, and how it grows with traffic."""

from itertools import product
from random import Random

import pytest

from dovetail.serving.planners.inferline import (
    Envelope,
    PipelineQuestion,
    envelope,
    fastest,
    grown,
    planned,
    replicas_at,
    shrunk,
    usd_per_hour,
)
from dovetail.serving.planners.stages import (
    PipelineStage,
    StageHardware,
    StageSetting,
    ends_of_stage,
    times_through,
)

SLOW = StageHardware("cpu", 1.0, lambda b: 0.020 * b)
FAST = StageHardware("gpu", 3.0, lambda b: 0.004 + 0.002 * b)


def poisson(rate: float, count: int, seed: int = 1) -> list[float]:
    chance, at, found = Random(seed), 0.0, []
    for _ in range(count):
        at += chance.expovariate(rate)
        found.append(at)
    return found


def test_a_free_replica_takes_what_waits_up_to_a_batch() -> None:
    setting = StageSetting(StageHardware("gpu", 1.0, lambda b: 1.0 + b), 2, 1)
    assert ends_of_stage([0.0, 0.5, 0.6, 0.7], setting) == [2.0, 5.0, 5.0, 7.0]


def test_a_request_waits_for_all_stages_before_and_skips_those_it_does_not_need() -> None:
    stages = [
        PipelineStage("a", [FAST]),
        PipelineStage("b", [FAST], ("a",)),
        PipelineStage("c", [FAST], ("a",), part=0.0),
        PipelineStage("d", [FAST], ("b", "c")),
    ]
    settings = {stage.name: StageSetting(FAST) for stage in stages}
    assert times_through(stages, settings, [0.0]) == [pytest.approx(0.018)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slo_s", [0.03, 0.06, 0.2])
def test_of_one_stage_the_setting_is_the_cheapest_of_all(seed: int, slo_s: float) -> None:
    stage = PipelineStage("only", [SLOW, FAST], max_batch=8)
    question = PipelineQuestion([stage], poisson(40.0 + 60.0 * seed, 400, seed), slo_s, most=8)
    settings = [
        {"only": StageSetting(hardware, batch, replicas)}
        for hardware, batch, replicas in product((SLOW, FAST), (1, 2, 4, 8), range(1, 9))
    ]
    assert len(settings) == 64
    able = [usd_per_hour(one) for one in settings if question.holds(one)]
    found = planned(question)
    assert found is not None
    assert question.holds(found)
    assert usd_per_hour(found) == min(able)


def test_a_pipeline_becomes_cheaper_than_its_fastest_setting_and_keeps_its_slo() -> None:
    stages = [
        PipelineStage("detect", [SLOW, FAST]),
        PipelineStage("read", [SLOW, FAST], ("detect",), part=0.3),
    ]
    question = PipelineQuestion(stages, poisson(100.0, 500), 0.15)
    found, first = planned(question), fastest(question)
    assert found is not None
    assert first is not None
    assert question.holds(found)
    assert usd_per_hour(found) < usd_per_hour(first)


def test_an_slo_that_no_setting_keeps_has_no_plan() -> None:
    assert (
        planned(PipelineQuestion([PipelineStage("a", [FAST])], poisson(10.0, 50), 0.005, most=3))
        is None
    )


def plan_of_two() -> tuple[PipelineQuestion, dict[str, StageSetting]]:
    stages = [PipelineStage("a", [FAST]), PipelineStage("b", [FAST], ("a",), part=0.5)]
    question = PipelineQuestion(stages, [i / 1000.0 for i in range(1001)], 0.1)
    return question, {"a": StageSetting(FAST, 8, 4), "b": StageSetting(FAST, 8, 2)}


def test_twice_the_rate_needs_twice_the_replicas() -> None:
    question, settings = plan_of_two()
    assert replicas_at(question, settings, 2000.0) == {"a": 8, "b": 4}
    known = Envelope([0.1, 1.0], [100, 1000])
    assert grown(question, known, Envelope([0.1, 1.0], [200, 2000]), settings) == {"a": 8, "b": 4}
    assert grown(question, known, known, settings) == {"a": 4, "b": 2}


def test_an_envelope_is_the_most_that_came_in_windows_that_double() -> None:
    assert envelope([0.0, 0.1, 0.2, 5.0], 0.15, 1.0) == Envelope([0.15, 0.3, 0.6], [2, 3, 3])


def test_replicas_go_one_by_one_after_some_calm() -> None:
    question, settings = plan_of_two()
    quiet = Envelope([1.0], [500])
    assert shrunk(question, settings, {"a": 8, "b": 1}, quiet, 5.0) == {"a": 8, "b": 1}
    assert shrunk(question, settings, {"a": 8, "b": 1}, quiet, 15.0) == {"a": 7, "b": 1}
