"""Beliefs about how much longer jobs run."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dovetail.core.model import WHOLE_GPU, Estimate, Job, Placement, Shape, Slice
from dovetail.core.track import Phase, Track
from dovetail.predict.intervals import Belief, Experience, exactly
from dovetail.testing import job


def ended(seconds: float, own: Job | None = None) -> Track:
    track = fresh(own or job("old", user="ana", name="train.py"))
    track.phase = Phase.FINISHED
    track.executed_s = seconds
    return track


def fresh(own: Job) -> Track:
    return Track(own, Shape(0, own, ""), 0, 0.0, 0)


def running(own: Job, since: float) -> Track:
    track = fresh(own)
    track.phase = Phase.RUNNING
    track.placement = Placement((Slice(0, 1),), WHOLE_GPU)
    track.started_at = track.first_start_at = track.working_since = since
    return track


TRAIN = job("new", user="ana", name="train.py")


def believed(past: list[Track], own: Job = TRAIN) -> Belief:
    return Experience(past).remaining(fresh(own), 0.0)


def test_a_belief_rests_on_the_most_alike_jobs_that_finished() -> None:
    past = [
        *(ended(100.0) for _ in range(5)),
        *(ended(900.0, job("x", 4, user="ana", name="train.py")) for _ in range(3)),
        *(ended(9.0, job("x", user="bob", name="eval.py")) for _ in range(2)),
    ]
    assert believed(past).source == "5 runs of train.py by ana"
    assert believed(past).seconds == 100.0
    two = job("new", 2, user="ana", name="train.py")
    assert believed(past, two).source == "8 runs of train.py by ana with another number of GPUs"
    assert believed(past, job("n", user="ana", name="y")).source == "8 jobs by ana"
    assert believed(past, job("n", user="cyd")).source == "10 jobs of all users"


def test_an_estimate_of_the_user_counts_more_than_jobs_of_another_name() -> None:
    told = job("new", user="ana", name="other.py", estimate=Estimate(50.0))
    belief = believed([ended(100.0)], told)
    assert (belief.seconds, belief.source) == (50.0, "its user's estimate")
    assert belief.low < 50 < belief.high


def test_what_a_predictor_has_said_goes_before_history() -> None:
    told = {TRAIN.id: Belief(700.0, 600.0, 800.0, "trees")}
    belief = Experience([ended(100.0)] * 9, told).remaining(fresh(TRAIN), 0.0)
    assert (belief.seconds, belief.source) == (700.0, "trees")
    later = Experience([], told).remaining(running(TRAIN, 0.0), 650.0)
    assert 0 <= later.low < later.seconds < later.high < 200


def test_without_any_knowledge_the_interval_is_huge() -> None:
    belief = believed([])
    assert belief.source == "a guess: no job has finished yet"
    assert belief.high / belief.low > 1000


def test_a_time_limit_bounds_every_belief() -> None:
    limited = job("new", user="ana", name="train.py", time_limit_s=60.0)
    belief = believed([ended(100.0)] * 9, limited)
    assert (belief.low, belief.seconds, belief.high) == (60.0, 60.0, 60.0)
    assert "time limit" in belief.source
    assert believed([], job("new", time_limit_s=100.0)).high == 100.0


def test_jobs_that_failed_teach_nothing() -> None:
    failed = ended(3.0)
    failed.phase = Phase.FAILED
    assert believed([failed]).source.startswith("a guess")


@pytest.mark.parametrize("number", [1, 2, 3, 5, 9, 30])
def test_four_of_five_jobs_end_within_the_interval(number: int) -> None:
    """Whatever the number of samples; the fewer, the wider. (Spread as real repeated runs are.)"""
    chance, within, width = Random(number), 0, 0.0
    for _ in range(400):
        belief = believed([ended(chance.lognormvariate(5, 0.3)) for _ in range(number)])
        within += belief.low <= chance.lognormvariate(5, 0.3) <= belief.high
        width += belief.high / belief.low
    assert within / 400 >= 0.72
    assert width / 400 < 4.5


def test_what_has_run_longer_than_some_is_expected_to_last_as_the_others() -> None:
    past = [ended(s) for s in (10.0, 10.0, 10.0, *[1000.0] * 9)]
    belief = Experience(past).remaining(running(TRAIN, 0.0), 100.0)
    assert (belief.low, belief.seconds, belief.high) == (900.0, 900.0, 900.0)


def test_what_has_outlived_all_is_said_to_have() -> None:
    belief = Experience([ended(10.0)] * 5).remaining(running(TRAIN, 0.0), 100.0)
    assert belief.source == "5 runs of train.py by ana, all of which it has outlived"
    assert (belief.low, belief.seconds, belief.high) == (5.0, 50.0, 200.0)
    guessed = Experience([]).remaining(running(job("x", estimate=Estimate(10.0)), 0.0), 100.0)
    assert "which it has outlived" in guessed.source


def test_a_half_done_job_of_known_length_has_half_of_it_left() -> None:
    own = job("x", estimate=Estimate(100.0, 100.0, 100.0))
    assert Experience([]).remaining(running(own, 0.0), 50.0) == exactly(50.0, "its user's estimate")


def test_what_is_left_never_shrinks_below_nothing_nor_loses_its_order() -> None:
    experience = Experience([ended(s) for s in (5.0, 50.0, 500.0)])
    for own in (TRAIN, job("a", estimate=Estimate(40.0)), job("b", time_limit_s=300.0), job("c")):
        for now in (0.0, 1.0, 30.0, 100.0, 299.0, 1e4, 1e6):
            belief = experience.remaining(running(own, 0.0), now)
            assert 0 <= belief.low <= belief.seconds <= belief.high


def _reporting(step: float, at: float, **metrics: Any) -> Track:
    track = running(TRAIN, 0.0)
    track.step, track.reported_at, track.metrics = step, at, metrics
    return track


def test_a_job_that_says_how_far_it_is_is_believed() -> None:
    belief = Experience([ended(10.0)]).remaining(_reporting(30.0, 60.0, total=100.0), 60.0)
    assert belief.seconds == pytest.approx(140.0)
    assert belief.source == "its own reports: step 30 of 100"
    assert belief.low < 140 < belief.high


@pytest.mark.parametrize("total", [0.0, -5.0, float("nan"), "100", 20.0])
def test_totals_that_make_no_sense_are_passed_over(total: Any) -> None:
    belief = Experience([ended(100.0)]).remaining(_reporting(30.0, 60.0, total=total), 60.0)
    assert belief.source == "1 run of train.py by ana"


def test_draws_from_a_belief_have_its_quantiles() -> None:
    belief = Belief(100.0, 50.0, 400.0, "x")
    assert belief.at(0.0) == 100.0
    assert belief.at(1.2815515) == pytest.approx(400.0, rel=1e-6)
    assert belief.at(-1.2815515) == pytest.approx(50.0, rel=1e-6)
    assert exactly(7.0).at(3.0) == 7.0
