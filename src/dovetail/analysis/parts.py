"""The parts of an analysis: what each measures, in which order, and how long it usually takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from dovetail.analysis.contenders import MANY
from dovetail.analysis.policy_contest import contest
from dovetail.analysis.question import Question
from dovetail.insight.feature_catalogue import catalogue
from dovetail.insight.work import Map, Progress
from dovetail.insight.workload_figures import workload

Measure = Callable[[Question, Map, Progress], Any]


@dataclass(frozen=True, slots=True)
class AnalysisPart:
    name: str
    title: str
    weight: float  # of all the time it takes
    measure: Measure


def _workload(question: Question, map: Map, progress: Progress) -> Any:
    return workload(question.trace, question.nodes)


def _catalogue(question: Question, map: Map, progress: Progress) -> Any:
    return catalogue(question.trace, question.nodes, len(question.tenants))


def _contest(question: Question, map: Map, progress: Progress) -> Any:
    return contest(question, map, progress)


def _predictive(question: Question, map: Map, progress: Progress) -> Any:
    from dovetail.insight.features import features_of
    from dovetail.insight.predictive import predictive

    features = features_of(question.arrivals)
    return predictive(
        features, quick=question.quick, seed=question.seed, map=map, progress=progress
    )


def _rolling(question: Question, map: Map, progress: Progress) -> Any:
    from dovetail.predict.learner import LEVEL
    from dovetail.predict.rolling import Rolling, evaluate

    if question.quick and len(question.arrivals) > MANY:
        why = "duration predictors, week by week: it takes too long for --quick"
        return Rolling(LEVEL, None, (), (), (why,))
    return next(iter(map(partial(evaluate, seed=question.seed), [question.arrivals])))


def _decision(question: Question, map: Map, progress: Progress) -> Any:
    from dovetail.insight.decision import decision

    return decision(
        question.arrivals,
        question.nodes,
        tenants=question.tenants,
        quick=question.quick,
        seed=question.seed,
        map=map,
        progress=progress,
    )


def _factors(question: Question, map: Map, progress: Progress) -> Any:
    from dovetail.insight.factors import factors

    return factors(quick=question.quick, seed=question.seed, map=map, progress=progress)


NEED_EVERYTHING = ("rolling", "predictive", "decision")  # submissions and durations
PARTS = (
    AnalysisPart("workload", "the workload", 1, _workload),
    AnalysisPart("catalogue", "features and factors", 1, _catalogue),
    AnalysisPart("rolling", "duration predictors, week by week", 8, _rolling),
    AnalysisPart("contest", "policies on this trace", 15, _contest),
    AnalysisPart("predictive", "what predicts durations", 25, _predictive),
    AnalysisPart("decision", "what knowing it is worth", 25, _decision),
    AnalysisPart("factors", "what moves the gain", 25, _factors),
)
