"""How good predictors are on a trace, rolled through it week by week."""

from __future__ import annotations

from dataclasses import asdict, replace
from json import dumps

import pytest

from dovetail.core.model import Job, JobId
from dovetail.models.workload import Arrival
from dovetail.predict.rolling import Rolling, evaluate, kept
from stand_in_months import months


@pytest.fixture(scope="module")
def rolled() -> Rolling:
    pytest.importorskip("sklearn")
    return evaluate(months(3000, 40.0))


def test_the_mixture_orders_pairs_better_than_its_parts_and_than_the_group_mean(
    rolled: Rolling,
) -> None:
    """On a made-up log like the Philly months; `python -m benchmarks predictors` holds it there."""
    assert rolled.whole is not None
    gains = {gain.over: gain for gain in rolled.gains}
    assert gains["history-mean"].low > 0
    assert gains["recent-mean"].low > 0
    assert gains["boosted"].high > 0  # where levels hardly drift, both are as good


def test_four_of_five_jobs_end_within_the_interval(rolled: Rolling) -> None:
    assert rolled.whole is not None
    assert 0.75 <= rolled.whole.coverage["mixture"] <= 0.85
    assert [week.number for week in rolled.weeks] == [3, 4, 5, 6]


def test_the_answer_is_plain_values(rolled: Rolling) -> None:
    assert '"coverage"' in dumps(asdict(rolled))


def test_without_scikit_learn_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    found = evaluate(months(300, 20.0))
    assert found.whole is not None
    assert set(found.whole.order) == {"history-mean", "recent-mean"}
    assert "pip install 'dovetail[predict]'" in found.not_measured[0]


@pytest.mark.parametrize(
    ("arrivals", "why"),
    [
        ([], "the trace has no jobs"),
        (months(5, 1.0), "no jobs from week 3 on"),
        ([Arrival(0.0, Job(JobId("a")), 5.0)], "no jobs from week 3 on"),
    ],
)
def test_what_cannot_be_measured_is_said(arrivals: list[Arrival], why: str) -> None:
    found = evaluate(arrivals)
    assert found.weeks == ()
    assert why in found.not_measured[-1]


def test_jobs_that_are_all_alike_give_no_order_and_no_fault() -> None:
    alike = [replace(arrival, work_s=60.0) for arrival in months(200, 18.0)]
    found = evaluate(alike, first_week=2)
    assert found.whole is not None
    assert found.whole.order == {}
    assert found.whole.coverage["recent-mean"] == 1.0


def test_the_share_of_the_oracles_gain() -> None:
    assert kept(10.0, 6.0, 2.0) == 0.5
    assert kept(10.0, 12.0, 2.0) == -0.25
    assert kept(2.0, 2.0, 2.0) is None
