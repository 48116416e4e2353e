"""INFaaS: which variant of a model answers."""

from itertools import pairwise

from dovetail.serving.planners.infaas import (
    AnswerNeeds,
    Serving,
    Variant,
    cheapest_for,
    chosen,
    next_step,
)

CPU = Variant("cpu", 0.90, 0.100, 5.0, 1.0)
GPU = Variant("gpu", 0.90, 0.010, 100.0, 8.0, load_s=5.0)
LARGE = Variant("large", 0.99, 0.050, 20.0, 10.0, load_s=8.0)
NEEDS = AnswerNeeds(slo_s=0.2, accuracy=0.85)


def variant_at(rate: float) -> tuple[str, int]:
    found = cheapest_for([CPU, GPU, LARGE], NEEDS, rate)
    assert found is not None
    return found[0].name, found[1]


def test_a_small_load_stays_on_processors_and_goes_to_a_gpu_from_where_that_is_cheaper() -> None:
    assert variant_at(4.0) == ("cpu", 1)
    assert variant_at(34.0) == ("cpu", 7)
    assert variant_at(41.0) == ("gpu", 1)


def test_more_load_never_costs_less() -> None:
    def usd(rate: float) -> float:
        found = cheapest_for([CPU, GPU, LARGE], NEEDS, rate)
        assert found is not None
        return found[0].usd_per_s * found[1]

    costs = [usd(rate / 2) for rate in range(600)]
    assert all(less <= more for less, more in pairwise(costs))


def test_who_asks_for_accuracy_gets_the_large_model() -> None:
    found = cheapest_for([CPU, GPU, LARGE], AnswerNeeds(0.2, 0.95), 1.0)
    assert found == (LARGE, 1)
    assert cheapest_for([CPU, GPU, LARGE], AnswerNeeds(0.005, 0.0), 1.0) is None


def test_a_loaded_variant_answers_unless_it_is_full() -> None:
    loaded = [Serving(GPU, 1, 50.0), Serving(LARGE, 1, 0.0)]
    assert chosen(NEEDS, loaded, [CPU, GPU, LARGE]) == GPU
    assert chosen(NEEDS, [Serving(GPU, 1, 100.0)], [CPU, GPU, LARGE]) == CPU


def test_where_nothing_is_good_enough_the_best_that_is_fast_enough_answers() -> None:
    assert chosen(AnswerNeeds(0.2, 0.999), [], [CPU, GPU, LARGE]) == LARGE
    assert chosen(AnswerNeeds(0.001, 0.5), [], [CPU, GPU, LARGE]) is None


def test_it_upgrades_at_once_and_downgrades_after_some_calm() -> None:
    busy = next_step(Serving(CPU, 1, 60.0), [CPU, GPU], NEEDS, 0)
    assert (busy.variant, busy.replicas) == (GPU, 1)
    calm = Serving(GPU, 1, 2.0)
    assert next_step(calm, [CPU, GPU], NEEDS, 9) == calm
    later = next_step(calm, [CPU, GPU], NEEDS, 10)
    assert (later.variant, later.replicas) == (CPU, 1)


def test_no_more_replicas_are_chosen_than_there_may_be() -> None:
    """Many cheap ones cost less, but so many may not be: the dear one then, or as many as may be."""
    cheap, dear = Variant("cheap", 0.9, 0.1, 10, 1.0), Variant("dear", 0.9, 0.02, 100, 8.0)
    for most, rate, wanted in (
        (None, 45.0, ("cheap", 5)),
        (4, 45.0, ("dear", 1)),
        (4, 999.0, ("dear", 4)),
    ):
        found = cheapest_for([cheap, dear], AnswerNeeds(0.2, 0.0, most), rate)
        assert found is not None
        assert (found[0].name, found[1]) == wanted
