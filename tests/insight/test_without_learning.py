"""Where scikit-learn is not installed, what needs none of it is measured all the same."""

from __future__ import annotations

import sys

import pytest

from dovetail.insight.decision import decision
from dovetail.insight.features import features_of
from dovetail.insight.predictive import predictive
from insight_traces import CLUSTER, busy

INSTALL = "pip install 'dovetail[predict]'"


@pytest.fixture(autouse=True)
def without_sklearn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)


def test_the_group_mean_is_scored_and_the_rest_says_what_to_install() -> None:
    found = predictive(features_of(busy()))
    assert [own.model for own in found.scores] == ["group mean"]
    assert found.scores[0].order_accuracy > 0.7  # users differ, and each is like himself
    assert (found.importance, found.dropped, found.by_level) == ((), (), ())
    assert any(INSTALL in why for why in found.not_measured)


def test_errors_of_estimates_and_shuffles_are_simulated() -> None:
    found = decision(busy(), CLUSTER, quick=True)
    assert [own.name for own in found.outcomes] == ["fifo", "tiresias:queues=10", "oracle"]
    times = [own.mean_jct_s for own in found.noise]
    assert times[0] < times[-1]  # an error of e^2 and more costs something
    assert {own.column for own in found.shuffled} == {"size", "user and name", "time of submission"}
    assert found.shapley == found.ablation == ()
    assert any(INSTALL in why for why in found.not_measured)


def test_noise_answers_the_same_question_with_the_same_numbers() -> None:
    trace = busy(jobs=150)
    assert decision(trace, CLUSTER, quick=True) == decision(trace, CLUSTER, quick=True)
