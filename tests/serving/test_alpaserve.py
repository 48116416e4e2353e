"""AlpaServe: pipelines that two models share, and placement by simulation."""

from math import inf
from random import Random

import pytest

from dovetail.serving.planners.alpaserve import (
    AskedModel,
    Cut,
    GpuGroup,
    PipedModel,
    PlacementQuestion,
    filled,
    placed,
    rehearse,
)

MODELS = {name: PipedModel(name, 0.1, inf, 10.0) for name in "ab"}
APART = [GpuGroup(Cut(), ("a",)), GpuGroup(Cut(), ("b",))]


def asked(rates: dict[str, float], seconds: float, seed: int = 0) -> list[AskedModel]:
    chance, found = Random(seed), []
    for name, rate in rates.items():
        at = chance.expovariate(rate)
        while at < seconds:
            found.append(AskedModel(at, name))
            at += chance.expovariate(rate)
    return sorted(found)


def mean_ms(groups: list[GpuGroup], rates: dict[str, float]) -> float:
    return 1000.0 * rehearse(groups, MODELS, asked(rates, 12_000.0)).mean_s


def piped(overhead: float = 1.0) -> list[GpuGroup]:
    return [GpuGroup(Cut(2, 1, overhead), ("a", "b"))]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [(APART, 175.0), (piped(), 137.5), (piped(1.1), 163.4), (piped(1.2), 197.1)],
)
def test_two_models_on_two_gpus_apart_or_as_a_pipeline(
    groups: list[GpuGroup], expected: float
) -> None:
    """Twelve requests a second in all: the pipeline halves the queueing, until cutting costs 14 %."""
    assert mean_ms(groups, {"a": 6.0, "b": 6.0}) == pytest.approx(expected, rel=0.03)


def test_an_uneven_load_spoils_models_apart_and_leaves_the_pipeline_as_it_was() -> None:
    uneven = {"a": 9.6, "b": 2.4}
    assert mean_ms(piped(), uneven) == pytest.approx(137.5, rel=0.03)
    assert mean_ms(APART, uneven) == pytest.approx(1063.0, rel=0.15)


def test_a_request_that_would_be_late_is_refused_at_once() -> None:
    models = {"a": PipedModel("a", 0.1, 0.15)}
    burst = [AskedModel(0.0, "a")] * 3
    seen = rehearse([GpuGroup(Cut(), ("a",))], models, burst)
    assert seen.missed == {"a": 2}
    assert seen.attainment == pytest.approx(1 / 3)


def bursty(overhead: float) -> PlacementQuestion:
    """Each model is asked in bursts of its own, and a GPU holds one of them."""
    chance = Random(3)
    burst = [
        AskedModel(at + 0.01 * i, name)
        for name in "ab"
        for at in [chance.uniform(0.0, 300.0) for _ in range(40)]
        for i in range(6)
    ]
    models = [PipedModel(name, 0.1, 0.45, 10.0) for name in "ab"]
    return PlacementQuestion(models, sorted(burst), 2, 10.0, {2: overhead}, {2: 1.9})


def test_bursts_are_better_served_by_a_pipeline_over_both_gpus() -> None:
    groups, seen = placed(bursty(1.1))
    assert groups == [GpuGroup(Cut(2, 1, 1.1, 1.0), ("a", "b"))]
    apart = filled(bursty(1.1), Cut())[1]
    assert seen.attainment > apart.attainment + 0.1


def test_where_cutting_costs_too_much_the_models_stay_apart() -> None:
    groups, _ = placed(bursty(1.9))
    assert [group.cut.gpus for group in groups] == [1, 1]


def test_no_group_holds_more_than_its_memory() -> None:
    models = [PipedModel(f"m{i}", 0.1, 1.0, 7.0) for i in range(6)]
    requests = [AskedModel(float(i), f"m{i % 6}") for i in range(60)]
    groups, _ = placed(PlacementQuestion(models, requests, 4, 16.0))
    for group in groups:
        assert len(group.models) * 7.0 <= 16.0 * group.cut.gpus
