import numpy as np
import pytest

from dovetail.models.goodput import BatchRange, GradientNoise, StepTimes, best_batch
from dovetail.models.goodput_agent import BatchAgent, read_goodput
from dovetail.models.goodput_fit import SeenStep
from dovetail.models.shared_steps import SharedSteps, SharedTimes

TRUTH = StepTimes(0.13, 0.007, 0.2, 0.02, 0.05, 0.01, 1.5)
NOISE = GradientNoise(1.0, 4.0)
BATCHES = BatchRange(initial=32, largest=512, local_least=4, local_most=64)


def seen(nodes: int, gpus: int, local: int, slower: float = 1.0) -> SeenStep:
    """A step by the law, or slower than any law says."""
    computing, step = TRUTH.computing(local), TRUTH.step(nodes, gpus, local, 0)
    return SeenStep(nodes, gpus, local, float(computing) * slower, float(step) * slower)


def known(*steps: SeenStep) -> SharedTimes:
    shared = SharedSteps()
    shared.saw("v100", steps, NOISE)
    times = shared.times("v100")
    assert times is not None
    return times


ODD = [seen(1, 1, 32), seen(1, 2, 32), seen(1, 4, 16, slower=1.8), seen(2, 8, 16), seen(2, 8, 32)]


@pytest.mark.parametrize("step", ODD)
def test_where_a_job_has_been_its_time_is_known_to_the_digit(step: SeenStep) -> None:
    times = known(*ODD)
    assert float(times.step(step.nodes, step.gpus, step.local, 0)) == pytest.approx(step.step)
    put_aside = float(times.step(step.nodes, step.gpus, step.local, 2))
    assert put_aside == pytest.approx(step.step + 2 * step.computing)


def test_a_like_batch_is_corrected_likewise_and_another_goes_by_the_law() -> None:
    times = known(*ODD)
    slower = [float(times.step(1, 4, n, 0) / times.law.step(1, 4, n, 0)) for n in (16, 20, 64)]
    assert slower[0] == pytest.approx(slower[1]) != pytest.approx(1.0)
    assert slower[2] == pytest.approx(1.0)


def test_many_are_asked_as_one() -> None:
    times, local = known(*ODD), np.array([[8.0, 16.0], [20.0, 64.0]])
    gpus, nodes = np.array([[4, 8], [4, 8]]), np.array([[1, 2], [1, 2]])
    found = times.step(nodes, gpus, local, 1)
    for at in np.ndindex(2, 2):
        alone = times.step(int(nodes[at]), int(gpus[at]), float(local[at]), 1)
        assert float(found[at]) == pytest.approx(float(alone))


def test_a_job_chooses_its_batch_by_what_another_has_seen() -> None:
    shared = SharedSteps()
    first, second = BatchAgent(shared=shared), BatchAgent(shared=shared)
    assert second.choose("v100", 2, 8, BATCHES) == (4, 0)
    for step in ODD:
        first.saw("v100", step, NOISE, BATCHES)
    times = shared.times("v100")
    assert times is not None
    best = best_batch(times, NOISE, BATCHES, 2, 8)
    assert second.choose("v100", 2, 8, BATCHES) == (int(best.local), int(best.accumulated))
    assert second.choose("v100", 2, 8, BATCHES) != (4, 0)


def test_what_is_told_of_steps_is_read_again_to_the_last_digit() -> None:
    agent = BatchAgent(shared=SharedSteps())
    for step in ODD:
        agent.saw("v100", step, NOISE, BATCHES)
    told = read_goodput(agent.told())
    assert told is not None
    assert told.steps == {"v100": tuple(ODD)}
    alone = BatchAgent()
    alone.saw("v100", ODD[0], NOISE, BATCHES)
    assert not any("steps" in name for name in alone.told())
