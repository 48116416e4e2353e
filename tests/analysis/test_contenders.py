"""Which policies an analysis tries: those that make sense for the jobs there are."""

from __future__ import annotations

from typing import Any

from dovetail.analysis.contenders import MANY_ELASTIC, REFERENCE, entries, not_tried
from dovetail.analysis.question import Question
from dovetail.testing import arrival, nodes
from dovetail.traces.trace import Trace


def _question(jobs: int, **of_each: Any) -> Question:
    arrivals = [arrival(f"j{i}", float(i), 60.0, 2, **of_each) for i in range(jobs)]
    return Question(Trace(arrivals), nodes(1, 8))


def test_jobs_that_may_grow_and_shrink_are_tried_with_policies_that_let_them() -> None:
    question = _question(10, min_gpus=1, max_gpus=4)
    found, predictor = entries(question)
    own = {
        one.policy: one
        for one in found
        if one.policy.partition(":")[0] in ("afs", "optimus", "flex")
    }
    assert own["afs:lengths=false"].told == ""
    assert own[f"flex:predictor={predictor}"].told == predictor
    for name in ("afs", "optimus"):
        assert own[f"{name}:left=predicted/predictor={predictor}"].told == predictor
    assert not [one for one in own.values() if one.kind == REFERENCE]
    assert not_tried(question) == []


def test_jobs_of_a_fixed_size_are_not_tried_with_elastic_policies() -> None:
    found, _ = entries(_question(10))
    assert not [one for one in found if one.policy.partition(":")[0] in ("afs", "optimus", "flex")]


def test_who_would_take_hours_is_left_out_and_that_is_said() -> None:
    question = _question(MANY_ELASTIC + 1, min_gpus=1, max_gpus=4)
    found, _ = entries(question)
    assert not [one for one in found if one.policy.startswith("flex")]
    (said,) = not_tried(question)
    assert said.startswith("Elastic policies (optimus, afs, flex): 5,001 jobs are elastic")
