"""gpulet: parts of GPUs that still pay, models in turns, and neighbours that slow each other."""

import pytest

from dovetail.serving.planners.demand import ShareDemand, largest_batch, rate_within
from dovetail.serving.planners.duty import duty_cycle
from dovetail.serving.planners.gpulet import SharedCaches, fewest_gpus, knee, split_gpus


def saturating(name: str, rate: float, at: int = 400, slo_s: float = 0.040) -> ShareDemand:
    """4 + 2b ms on as much of a GPU as it can use, longer in proportion on less."""
    return ShareDemand(
        name, rate, slo_s, lambda b, share: (0.004 + 0.002 * b) * max(at / share, 1.0), max_batch=32
    )


def test_a_batch_is_such_that_two_of_them_are_in_time() -> None:
    demand = saturating("a", 650.0, slo_s=0.020)
    assert largest_batch(demand) == 3
    assert rate_within(demand) == pytest.approx(300.0)


@pytest.mark.parametrize("at", [200, 400, 500, 600, 800])
def test_the_knee_is_where_a_model_has_all_it_can_use(at: int) -> None:
    assert knee(saturating("a", 1.0, at)) == at


def test_a_model_that_uses_all_it_gets_has_its_knee_at_a_whole_gpu() -> None:
    """Its rate grows faster than its share: the larger it is, the larger are the batches in time."""
    linear = ShareDemand("a", 1.0, 0.040, lambda b, share: 0.002 * b * 1000 / share)
    assert knee(linear) == 1000


def test_two_models_that_saturate_at_two_fifths_need_one_gpu_and_two_if_it_is_not_split() -> None:
    full = rate_within(saturating("a", 1.0), 400)
    demands = [saturating("a", full), saturating("b", full)]
    split = fewest_gpus(demands, 4)
    assert split is not None
    assert [(part.gpu, part.share) for part in split] == [(0, 400), (0, 600)]
    whole = fewest_gpus(demands, 4, split=False)
    assert whole is not None
    assert [part.gpu for part in whole] == [0, 1]


def test_small_rates_share_a_part_in_turns() -> None:
    demands = [saturating(name, 20.0) for name in "abcd"]
    parts = split_gpus(demands, 1)
    assert parts is not None
    assert sum(len(part.served) for part in parts) == 4
    for part in parts:
        assert duty_cycle(part.served, part.share) is not None


def test_what_one_part_does_not_answer_goes_to_the_next() -> None:
    full = rate_within(saturating("a", 1.0), 400)
    parts = fewest_gpus([saturating("a", 2.5 * full)], 4)
    assert parts is not None
    assert sum(own.rate for part in parts for own in part.served) == pytest.approx(2.5 * full)
    assert len(parts) == 3


def test_a_neighbour_that_would_make_both_late_is_not_taken() -> None:
    full = rate_within(saturating("a", 1.0), 400)
    demands = [saturating("a", full), saturating("b", full)]
    rude = SharedCaches({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0}, other=(0.5, 0.5))
    parts = fewest_gpus(demands, 4, rude)
    assert parts is not None
    assert {part.gpu for part in parts} == {0, 1}


def test_a_service_that_no_gpu_answers_in_time_has_no_plan() -> None:
    assert fewest_gpus([saturating("a", 1.0, slo_s=0.005)], 8) is None


def test_a_duty_cycle_is_the_longest_that_keeps_all_in_time() -> None:
    """Nexus: 50 requests a second, 4 + 2b ms, 20 ms: batches of one every 14 ms at most."""
    cycle = duty_cycle([saturating("a", 50.0, slo_s=0.020)])
    assert cycle == pytest.approx(0.014)
    assert duty_cycle([saturating("a", 301.0, slo_s=0.020)]) is None
