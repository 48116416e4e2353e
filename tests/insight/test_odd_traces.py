"""Traces with something wrong: what cannot be measured is said, and nothing breaks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

from dovetail.insight.decision import decision
from dovetail.insight.features import features_of
from dovetail.insight.predictive import predictive
from dovetail.models.workload import Arrival
from insight_traces import CLUSTER, busy


def jobs() -> list[Arrival]:
    return busy(jobs=120)


def changed(**fields: Any) -> list[Arrival]:
    return [replace(arrival, job=replace(arrival.job, **fields)) for arrival in jobs()]


ODD = {
    "no jobs": [],
    "one job": jobs()[:1],
    "two jobs": jobs()[:2],
    "one user": changed(user="ann"),
    "no users": changed(user=""),
    "one size": changed(gpus=1),
    "equal durations": [replace(arrival, work_s=60.0) for arrival in jobs()],
    "no durations": [replace(arrival, work_s=0.0) for arrival in jobs()],
    "a clock that runs backwards": [replace(a, at=1e6 - a.at) for a in jobs()],
    "all at once": [replace(arrival, at=0.0) for arrival in jobs()],
    "jobs that fit nowhere": changed(gpus=99),
    "two jobs an age apart": [jobs()[0], replace(jobs()[1], at=1e12)],
}


@pytest.mark.parametrize("what", ODD)
def test_an_odd_trace_is_told_about_and_breaks_nothing(what: str) -> None:
    trace: Sequence[Arrival] = ODD[what]
    features = features_of(trace)
    predicted = predictive(features, repeats=3, quick=True)
    decided = decision(trace, CLUSTER, features=features, groups=("size", "user"), quick=True)
    assert predicted.not_measured
    assert decided.not_measured
    json.dumps([asdict(predicted), asdict(decided)], allow_nan=False)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("one job", "the trace has 1 job"),
        ("equal durations", "all durations are equal"),
        ("one user", "every job has the user 'ann'"),
        ("no users", "the trace names no users"),
        ("all at once", "too few jobs end before others come"),
    ],
)
def test_what_cannot_be_predicted_is_said_with_its_reason(what: str, why: str) -> None:
    assert any(why in own for own in predictive(features_of(ODD[what]), repeats=3).not_measured)


@pytest.mark.parametrize(
    ("what", "why"),
    [("one job", "the trace has 1 job"), ("jobs that fit nowhere", "no job could run")],
)
def test_what_cannot_be_decided_is_said_with_its_reason(what: str, why: str) -> None:
    assert any(why in own for own in decision(ODD[what], CLUSTER, quick=True).not_measured)


def test_a_policy_that_asks_for_no_durations_cannot_value_them() -> None:
    found = decision(jobs(), CLUSTER, policy="las", quick=True)
    assert found.not_measured == (
        "what knowledge is worth: policy 'las' does not ask for durations; choose srtf or qssf",
    )
