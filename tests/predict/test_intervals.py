"""Beliefs about how much longer jobs run."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from dovetail.core.model import WHOLE_GPU, Estimate, Job, Placement, Slice
from dovetail.core.shape import Shape
from dovetail.core.track import Phase, Track
from dovetail.jobfiles.job_model import read
from dovetail.jobfiles.jobs import to_job
from dovetail.predict.intervals import Belief, Experience, exactly
from dovetail.testing import job


def ended(seconds: float, own: Job | None = None) -> Track:
    track = fresh(own or job("old", user="ana", name="train.py"))
    track.phase = Phase.FINISHED
    track.executed_s = seconds
    track.ended_at = 10.0
    return track


def fresh(own: Job, came: float = 0.0) -> Track:
    return Track(own, Shape(0, own, ""), 0, came, 0)


def running(own: Job, since: float, came: float = 0.0) -> Track:
    track = fresh(own, came)
    track.phase = Phase.RUNNING
    track.placement = Placement((Slice(0, 1),), WHOLE_GPU)
    track.started_at = track.first_start_at = track.working_since = since
    return track


TRAIN = job("new", user="ana", name="train.py")
OTHER = job("new", user="ana", name="other.py")


def run(command: str, **rest: Any) -> Job:
    """A job of ana's, as it is made of a command."""
    return to_job(read({"command": command.split(), **rest}), "new", "ana", 0.0)


def known(past: list[Track], own: Job = TRAIN) -> Belief | None:
    return Experience(past).remaining(fresh(own), 0.0)


def believed(past: list[Track], own: Job = TRAIN) -> Belief:
    belief = known(past, own)
    assert belief is not None
    return belief


def left(past: list[Track], track: Track, now: float) -> Belief:
    belief = Experience(past).remaining(track, now)
    assert belief is not None
    return belief


def test_a_belief_rests_on_the_most_alike_jobs_that_finished() -> None:
    past = [
        *(ended(100.0) for _ in range(5)),
        *(ended(900.0, job("x", 4, user="ana", name="train.py")) for _ in range(3)),
        *(ended(9.0, job("x", user="bob", name="eval.py")) for _ in range(2)),
    ]
    assert believed(past).source == "5 runs of train.py by ana"
    assert believed(past).seconds == pytest.approx(100.0, rel=0.2)
    two = job("new", 2, user="ana", name="train.py")
    assert believed(past, two).source == "8 runs of train.py by ana with another number of GPUs"
    assert believed(past, job("n", user="ana", name="y")).source == "8 jobs by ana, none like it"


def test_what_rests_on_unlike_jobs_alone_is_a_guess() -> None:
    past = [ended(100.0) for _ in range(5)]
    assert believed(past, OTHER).guess
    assert left(past, running(OTHER, 0.0), 30.0).guess
    assert left(past, running(OTHER, 0.0), 3e6).guess  # it has outlived them all
    assert not believed(past).guess
    told = job("n", user="ana", name="other.py", estimate=Estimate(60.0))
    assert not believed(past, told).guess


def test_of_a_user_without_a_past_nothing_is_known_until_many_users_have_one() -> None:
    """Fifty jobs of one user are one user: the next may run something else altogether."""
    past = [ended(100.0) for _ in range(50)]
    stranger = job("n", user="zoe", name="mine.py")
    assert known(past, stranger) is None
    past += [ended(100.0 * n, job("x", user=f"u{n}", name="a.py")) for n in range(1, 9)]
    belief = believed(past, stranger)
    assert belief.source == "58 jobs of all users, none like it"
    assert belief.low < 100 < 1000 < belief.high


def test_jobs_that_are_not_over_count_with_what_they_have_lasted() -> None:
    """Of those that came together the short ones end first."""
    past = [ended(60.0 + n, job("x", user="ana", name=f"{n}.py")) for n in range(20)]
    long = [running(job("x", user="ana", name=f"l{n}.py"), 20.0, came=15.0) for n in range(8)]
    own = job("n", user="ana", name="own.py")
    before = Experience(past).whole(own)
    after = Experience(past).see(long, 50_000.0).whole(own)
    assert before is not None
    assert after is not None
    assert before.high < 5_000
    assert after.high > 50_000
    assert after.seconds == before.seconds


def test_an_estimate_of_the_user_counts_more_than_jobs_of_another_name() -> None:
    told = job("new", user="ana", name="other.py", estimate=Estimate(50.0))
    belief = believed([ended(100.0)], told)
    assert belief.seconds == pytest.approx(50.0)
    assert belief.source == "its user's estimate"
    assert belief.low < 50 < belief.high


def test_one_short_run_of_another_command_does_not_beat_the_users_estimate() -> None:
    past = [ended(0.1, run("python train.py --smoke"))]
    told = run("python train.py --epochs 500", estimate="10h")
    belief = believed(past, told)
    assert belief.source.startswith(
        "its user's estimate, and 1 run of this program by ana with other arg"
    )
    assert belief.seconds == pytest.approx(36_000.0, rel=0.15)
    assert belief.high > 36_000
    assert belief.low > 3600  # one run of another command says next to nothing


def test_one_run_is_one_run_and_the_interval_says_so() -> None:
    smoke = [ended(0.1, run("python train.py --smoke"))]
    other = believed(smoke, run("python train.py --epochs 500"))
    assert other.high / max(other.low, 0.1) > 100
    same = believed(smoke * 9, run("python train.py --smoke"))
    assert same.high < 1.0
    once = [ended(600.0, run("python train.py --lr 0.1"))]
    again = believed(once, run("python train.py --lr 0.1"))
    assert again.source == "1 run of this very command by ana"
    assert 2 < again.high / again.low < 10
    varied = believed(once, run("python train.py --lr 0.2"))
    assert varied.source == "1 run of this program by ana with other values"
    assert varied.high / varied.low > 2 * again.high / again.low


def test_the_number_of_epochs_said_is_evidence() -> None:
    past = [ended(100.0, run("python train.py --epochs 10"))] * 3
    belief = believed(past, run("python train.py --epochs 500"))
    assert belief.source == "3 runs of this program by ana with another number of epochs or steps"
    assert belief.seconds == pytest.approx(5000.0, rel=0.3)
    assert belief.low < 5000 < belief.high
    hydra = [ended(100.0, run("python train.py trainer.max_epochs=10"))] * 3
    assert 3000 < believed(hydra, run("python train.py trainer.max_epochs=500")).seconds < 6000


def test_epochs_reported_are_counted_in_the_epochs_that_the_command_names() -> None:
    track = running(run("python train.py --epochs 500"), 0.0)
    track.reported_at, track.metrics = 60.0, {"epoch": 50.0, "loss": 0.5}
    belief = left([], track, 60.0)
    assert belief.source == "its own reports: step 50 of 500"
    assert belief.seconds == pytest.approx(540.0, rel=0.05)


def test_a_habit_of_saying_too_much_is_learned() -> None:
    past = [
        ended(60.0, job(str(n), user="ana", name=f"n{n}", estimate=Estimate(600.0)))
        for n in range(12)
    ]
    told = job("new", user="ana", name="other.py", estimate=Estimate(1000.0))
    assert 80 < believed(past, told).seconds < 300
    assert believed(past, replace(told, user="bob")).seconds == pytest.approx(1000.0)


def test_what_a_predictor_has_said_goes_before_history() -> None:
    told = {TRAIN.id: Belief(700.0, 600.0, 800.0, "trees")}
    belief = Experience([ended(100.0)] * 9).remaining(fresh(TRAIN), 0.0, told)
    assert belief is not None
    assert (belief.seconds, belief.source) == (700.0, "trees")
    later = Experience([]).remaining(running(TRAIN, 0.0), 650.0, told)
    assert later is not None
    assert 0 <= later.low < later.seconds < later.high < 200


def test_without_any_knowledge_nothing_is_said() -> None:
    assert known([]) is None
    assert known([ended(9.0, job("x", user="bob", name="eval.py"))]) is None  # one of another name
    assert known([ended(9.0, job(f"{n}", user="bob", name="a.py")) for n in range(3)]) is None
    assert known([ended(9.0, job(f"{n}", user="ana", name="a.py")) for n in range(3)]) is not None


def test_who_is_kept_and_told_of_more_says_the_same_as_who_was_told_at_once() -> None:
    past = [ended(s, run(f"python train.py --lr {n}")) for n, s in enumerate((5.0, 50.0, 500.0))]
    for place, track in enumerate(past):
        track.ended_at = 10.0 * place
    kept = Experience(past[:1]).take_in(past[:2]).take_in(past)
    assert kept.whole(run("python train.py")) == Experience(past).whole(run("python train.py"))


def test_a_time_limit_bounds_every_belief() -> None:
    limited = job("new", user="ana", name="train.py", time_limit_s=60.0)
    belief = believed([ended(100.0)] * 9, limited)
    assert (belief.seconds, belief.high) == (60.0, 60.0)
    assert "time limit" in belief.source
    assert believed([], job("new", time_limit_s=100.0)).high == 100.0


def test_jobs_that_failed_teach_nothing() -> None:
    failed = ended(3.0)
    failed.phase = Phase.FAILED
    assert known([failed]) is None


@pytest.mark.parametrize("number", [1, 2, 3, 5, 9, 30])
def test_four_of_five_jobs_end_within_the_interval(number: int) -> None:
    """Whatever the number of samples; the fewer, the wider. (Spread as real repeated runs are.)"""
    chance, within, width, same = Random(number), 0, 0.0, run("python train.py --lr 0.1")
    for _ in range(400):
        belief = believed([ended(chance.lognormvariate(5, 0.3), same) for _ in range(number)], same)
        within += belief.low <= chance.lognormvariate(5, 0.3) <= belief.high
        width += belief.high / belief.low
    assert within / 400 >= 0.72
    assert width / 400 < 8


def test_what_has_run_longer_than_some_is_expected_to_last_as_the_others() -> None:
    same = run("python train.py")
    past = [ended(s, same) for s in (10.0, 10.0, 10.0, *[1000.0] * 9)]
    belief = left(past, running(same, 0.0), 100.0)
    assert belief.low < 900 < belief.high
    assert belief.seconds == pytest.approx(900.0, rel=0.2)


def test_what_may_end_at_any_time_is_not_said_to_end_now() -> None:
    """Those that last longer than a job has lasted do not end with it."""
    past = [ended(seconds) for seconds in (10.0, 60.0, 300.0, 1_000.0, 4_000.0, 20_000.0)]
    belief = left(past, running(TRAIN, 0.0), 500.0)
    assert belief.low == pytest.approx(0.152 * belief.seconds, rel=0.01)
    assert belief.at(-2.0) > 0.05 * belief.seconds
    steady = left([ended(600.0 + n) for n in range(9)], running(TRAIN, 0.0), 100.0)
    assert steady.low > 0.5 * steady.seconds


def test_what_has_outlived_all_is_said_to_have() -> None:
    belief = left([ended(10.0)] * 5, running(TRAIN, 0.0), 100.0)
    assert belief.source == "5 runs of train.py by ana, all of which it has outlived"
    assert (belief.low, belief.seconds, belief.high) == (5.0, 50.0, 300.0)
    guessed = left([], running(job("x", estimate=Estimate(10.0)), 0.0), 300.0)
    assert "which it has outlived" in guessed.source


def test_a_half_done_job_of_known_length_has_half_of_it_left() -> None:
    own = job("x", estimate=Estimate(100.0, 100.0, 100.0))
    assert Experience([]).remaining(running(own, 0.0), 50.0) == exactly(50.0, "its user's estimate")


def test_what_is_left_never_shrinks_below_nothing_nor_loses_its_order() -> None:
    past = [ended(s) for s in (5.0, 50.0, 500.0)]
    for own in (TRAIN, job("a", estimate=Estimate(40.0)), job("b", time_limit_s=300.0), OTHER):
        for now in (0.0, 1.0, 30.0, 100.0, 299.0, 1e4, 1e6):
            belief = left(past, running(own, 0.0), now)
            assert 0 <= belief.low <= belief.seconds <= belief.high


def _reporting(step: float, at: float, **metrics: Any) -> Track:
    track = running(TRAIN, 0.0)
    track.step, track.reported_at, track.metrics = step, at, metrics
    return track


def test_a_job_that_says_how_far_it_is_is_believed() -> None:
    belief = left([ended(10.0)], _reporting(30.0, 60.0, total=100.0), 60.0)
    assert belief.seconds == pytest.approx(140.0)
    assert belief.source == "its own reports: step 30 of 100"
    assert belief.low < 140 < belief.high


@pytest.mark.parametrize("total", [0.0, -5.0, float("nan"), "100", 20.0])
def test_totals_that_make_no_sense_are_passed_over(total: Any) -> None:
    belief = left([ended(100.0)], _reporting(30.0, 60.0, total=total), 60.0)
    assert belief.source == "1 run of train.py by ana"


def test_draws_from_a_belief_have_its_quantiles() -> None:
    belief = Belief(100.0, 50.0, 400.0, "x")
    assert belief.at(0.0) == 100.0
    assert belief.at(1.2815515) == pytest.approx(400.0, rel=1e-6)
    assert belief.at(-1.2815515) == pytest.approx(50.0, rel=1e-6)
    assert exactly(7.0).at(3.0) == 7.0
