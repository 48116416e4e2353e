import pytest

from dovetail.models.goodput import BatchRange, GradientNoise, StepTimes, best_batch
from dovetail.models.goodput_agent import BatchAgent, read_goodput
from dovetail.models.goodput_fit import SeenStep, fitted

TRUTH = StepTimes(0.13, 0.007, 0.2, 0.02, 0.05, 0.01, 1.5)
NOISE = GradientNoise(1.0, 4.0)
BATCHES = BatchRange(initial=32, largest=512, local_least=4, local_most=64)


def seen(nodes: int, gpus: int, local: int) -> SeenStep:
    computing, step = TRUTH.computing(local), TRUTH.step(nodes, gpus, local, 0)
    return SeenStep(nodes, gpus, local, float(computing), float(step))


ENOUGH = [(1, 1, 32), (1, 2, 32), (1, 4, 16), (2, 8, 16), (2, 8, 32), (3, 9, 20), (1, 3, 40)]


def test_a_law_that_was_seen_enough_is_found_again() -> None:
    law = fitted(tuple([seen(*way) for way in ENOUGH]))
    for nodes, gpus in ((1, 1), (1, 2), (1, 4), (2, 8), (4, 16)):
        told = float(law.step(nodes, gpus, 24, 0))
        assert told == pytest.approx(float(TRUTH.step(nodes, gpus, 24, 0)), rel=0.005)


def test_what_was_never_seen_costs_nothing_so_that_it_is_tried() -> None:
    law = fitted((seen(1, 1, 32),))
    assert float(law.step(4, 16, 32, 0)) == pytest.approx(float(TRUTH.step(1, 1, 32, 0)), rel=0.001)


def test_a_job_that_knows_nothing_uses_its_initial_batch() -> None:
    assert BatchAgent().choose("v100", 1, 1, BATCHES) == (32, 0)
    assert BatchAgent().choose("v100", 4, 16, BATCHES) == (4, 0)


def test_a_job_that_must_use_a_batch_splits_it() -> None:
    assert BatchAgent(wanted=512).choose("v100", 1, 2, BATCHES) == (64, 3)


def test_a_job_that_has_learned_chooses_its_batch_by_goodput() -> None:
    agent = BatchAgent()
    for way in ENOUGH:
        agent.saw("v100", seen(*way), NOISE, BATCHES)
    best = best_batch(TRUTH, NOISE, BATCHES, 2, 8)
    local, aside = agent.choose("v100", 2, 8, BATCHES)
    assert (local, aside) == (int(best.local), int(best.accumulated))
    assert local > 4


def test_what_a_job_tells_is_read_again_to_the_last_digit() -> None:
    agent = BatchAgent()
    assert agent.told() == {}
    assert read_goodput({"loss": 0.5}) is None
    for way in ENOUGH[:4]:
        agent.saw("v100", seen(*way), NOISE, BATCHES)
    agent.saw("t4", seen(1, 1, 32), NOISE, BATCHES)
    told = read_goodput({"loss": 0.5, **agent.told()})
    assert told is not None
    assert told.noise == NOISE
    assert told.most_gpus == told.laws["v100"].most_gpus == 8
    assert told.laws["v100"].times == fitted(tuple([seen(*way) for way in ENOUGH[:4]]))
    assert told.rate("k80", 1, 1) is None
    rate = told.rate("v100", 1, 1)
    assert rate is not None
    assert rate >= 0.99 / float(TRUTH.step(1, 1, 32, 0))


def test_only_news_is_worth_a_report() -> None:
    agent = BatchAgent()
    assert agent.saw("v100", seen(1, 1, 32), NOISE, BATCHES)
    assert not agent.saw("v100", seen(1, 1, 32), NOISE, BATCHES)
    assert agent.saw("v100", seen(1, 1, 32), GradientNoise(2.0, 4.0), BATCHES)
