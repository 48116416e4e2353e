"""What is known of jobs, and when."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.core.model import Estimate, Job, JobId
from dovetail.insight.features import HISTORY, PROFILE, RECENT, RUN, SUBMIT, features_of
from dovetail.insight.periods import Pairs, periods_of
from dovetail.models.workload import Arrival

HOUR_S = 3600.0


def job(number: int, at: float, work_s: float, **fields: object) -> Arrival:
    return Arrival(at, Job(JobId(str(number)), **fields), work_s)  # type: ignore[arg-type]


def test_the_past_is_what_had_ended_and_nothing_else() -> None:
    trace = [
        job(1, 0.0, 100.0, user="ann"),
        job(2, 50.0, 10.0, user="ann"),  # while the first still runs
        job(3, 60.0, 10.0, user="ann"),  # the second has just ended
        job(4, 500.0, 10.0, user="bob"),  # nothing of bob's has ended
    ]
    past = features_of(trace).columns[f"user: {RECENT}"]
    assert np.isnan(past[[0, 1, 3]]).all()
    assert past[2] == pytest.approx(np.log1p(10.0))


def test_a_later_job_changes_nothing_of_what_was_known_before() -> None:
    rows = [(i * 30.0, 20.0 + 7.0 * (i % 5), f"u{i % 3}") for i in range(40)]
    trace = [job(i, at, work, user=user) for i, (at, work, user) in enumerate(rows)]
    less, more = features_of(trace[:30]), features_of(trace)
    for name in (f"user: {RECENT}", f"recent jobs: {RECENT}"):
        np.testing.assert_array_equal(less.columns[name], more.columns[name][:30])


def test_columns_know_when_they_are_known() -> None:
    trace = [job(i, i * HOUR_S, 200.0 * i, gpus=1 + i % 2, tenant=f"t{i % 3}") for i in range(99)]
    features = features_of(trace)
    assert features.levels["gpus"] == features.levels["tenant"] == SUBMIT
    assert features.levels[f"tenant: {RECENT}"] == HISTORY
    assert features.levels["first minutes"] == PROFILE
    assert features.levels["first hour"] == RUN
    assert "first minutes" not in features.upto(HISTORY)
    assert features.labels["tenant"] == ("t0", "t1", "t2")


def test_groups_that_say_nothing_are_left_out_with_the_reason() -> None:
    features = features_of([job(i, i * 60.0, 60.0 + i, user="ann") for i in range(9)])
    assert features.left_out["user"] == "every job has the user 'ann'"
    assert features.left_out["tenant"] == "the trace names no tenants"
    assert features.left_out["calendar"] == "the trace is shorter than two days"
    assert "user" not in features.groups


def test_what_users_said_is_a_feature() -> None:
    said = [Estimate(60.0), None, Estimate(90.0)]
    features = features_of([job(i, i, 60.0, estimate=own) for i, own in enumerate(said)])
    assert features.groups["estimate"] == ("estimate",)
    np.testing.assert_array_equal(features.columns["estimate"], [60.0, np.nan, 90.0])


def test_every_period_is_predicted_from_what_had_ended_before_it() -> None:
    trace = [job(i, i * HOUR_S, HOUR_S * (1 + i % 40)) for i in range(1000)]
    features = features_of(trace)
    ended = features.submitted + features.duration
    found = periods_of(features)
    assert len(found) >= 4
    for period in found:
        assert ended[period.past].max() <= features.submitted[period.rows].min()


def test_order_accuracy_is_kendalls_tau_in_other_words() -> None:
    stats = pytest.importorskip("scipy.stats")
    chance = np.random.default_rng(0)
    truth = chance.random(300)
    guess = truth + chance.normal(0.0, 0.3, 300)
    tau = stats.kendalltau(truth, guess).statistic
    assert Pairs(truth, seed=0).accuracy(guess) == pytest.approx((1 + tau) / 2)
    assert Pairs(truth, seed=0, most=20_000).accuracy(guess) == pytest.approx(
        (1 + tau) / 2, abs=0.02
    )
    assert Pairs(truth, seed=0).accuracy(np.zeros(300)) == 0.5
