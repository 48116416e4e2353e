import numpy as np
import pytest

from dovetail.models.goodput import (
    BatchRange,
    GradientNoise,
    StepTimes,
    best_batch,
    efficiency,
    power_mean,
    split,
    throughput,
)

TIMES = StepTimes(0.1, 0.01, 0.2, 0.02, 0.05, 0.01, 2.0)
NOISE = GradientNoise(sqr=1.0, var=4.0)


@pytest.mark.parametrize(
    ("nodes", "gpus", "local", "samples", "worth", "goodput"),
    [
        (1, 1, 32, 76.19, 1.0, 76.19),
        (1, 4, 32, 300.62, 0.625, 187.88),
        (1, 4, 8, 165.69, 1.0, 165.69),
        (2, 8, 32, 484.83, 0.4167, 202.01),
        (2, 8, 16, 310.45, 0.625, 194.03),
    ],
)
def test_goodput_is_throughput_times_efficiency_as_in_the_worked_example(
    nodes: int, gpus: int, local: int, samples: float, worth: float, goodput: float
) -> None:
    fast = float(throughput(TIMES, nodes, gpus, local, 0))
    good = float(efficiency(NOISE, gpus * local / 32))
    assert fast == pytest.approx(samples, abs=0.005)
    assert good == pytest.approx(worth, abs=0.00005)
    assert fast * good == pytest.approx(goodput, abs=0.005)


def test_the_power_mean_prefers_two_twos_to_a_four_and_a_one() -> None:
    means = power_mean(np.array([[4.0, 1.0], [2.0, 2.0]]), -1)
    assert list(means) == pytest.approx([1.6, 2.0])


def test_batches_put_aside_cost_computing_and_no_synchronising() -> None:
    alone = float(TIMES.step(2, 8, 16, 0))
    assert float(TIMES.step(2, 8, 16, 3)) == pytest.approx(alone + 3 * 0.26)


def test_a_batch_too_large_for_a_gpu_is_split_and_one_gpu_alone_always_splits() -> None:
    limits = BatchRange(initial=32, largest=512, local_least=4, local_most=64)
    assert [float(x) for x in split(512, 2, limits)] == [64, 3]
    assert [float(x) for x in split(48, 1, limits)] == [24, 1]
    assert [float(x) for x in split(32, 1, limits)] == [32, 0]


def test_the_best_of_fifty_batches_is_at_least_as_good_as_any_power_of_two() -> None:
    limits = BatchRange(initial=32, largest=512, local_least=4, local_most=64)
    gpus = np.array([1, 2, 4, 8, 16])
    nodes = np.array([1, 1, 1, 2, 4])
    best = best_batch(TIMES, NOISE, limits, nodes, gpus)
    for batch in (32, 64, 128, 256, 512):
        local, aside = split(batch, gpus, limits)
        tried = throughput(TIMES, nodes, gpus, local, aside) * efficiency(NOISE, batch / 32)
        assert np.all(best.goodput >= 0.99 * np.where(local >= 4, tried, 0.0))


def test_without_noise_the_largest_batch_is_best() -> None:
    limits = BatchRange(initial=32, largest=512, local_least=4, local_most=512)
    noiseless = GradientNoise(0.0, 1.0)  # a batch of any size learns as much from each sample
    best = best_batch(TIMES, noiseless, limits, 1, 4)
    assert float(best.local * (best.accumulated + 1)) == 128


def test_gpus_that_cannot_share_the_largest_batch_are_of_no_use() -> None:
    limits = BatchRange(initial=32, largest=64, local_least=16, local_most=64)
    assert limits.most_gpus == 4
    assert float(best_batch(TIMES, NOISE, limits, 2, 8).goodput) == 0.0
