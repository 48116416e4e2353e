"""Measurements as they might come out, so that words and pages can be tried without measuring."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dovetail.analysis.conclusions import verdict
from dovetail.analysis.driver import Analysis
from dovetail.analysis.measurements import Measurements
from dovetail.analysis.policy_contest import Contest, KeptRuns, Tried
from dovetail.analysis.question import Question
from dovetail.insight.factors import (
    EVERYBODY,
    MORRIS,
    SOBOL,
    Factors,
    Flip,
    Leaders,
    Screened,
    SobolIndex,
)
from dovetail.insight.feature_catalogue import catalogue
from dovetail.insight.made_up import FACTORS
from dovetail.insight.predictive import FeatureShape, Importance, Predictive, Score
from dovetail.insight.workload_figures import workload
from dovetail.insight.worth import DecisionWorth, MeanJct, Noise, Shuffled, Worth
from dovetail.predict.rolling import Gain, Rolling, Week
from dovetail.testing import nodes
from dovetail.traces import Recipe, Trace, generate

HOUR_S = 3600.0
POLICIES = ("srtf", "qssf")


def tried(policy: str, hours: float, told: str = "", preemptions: int = 0) -> Tried:
    """Under FIFO it is 10 hours."""
    times = (hours * HOUR_S, hours * 3000, hours * 4000, hours * HOUR_S / 2, hours * 9 * HOUR_S)
    gains = (1 - hours / 10, 0.9 - hours / 10, 1.05 - hours / 10)
    wait_s = hours * HOUR_S / 3
    return Tried(policy, told, told == "oracle", *times, wait_s, preemptions, 0.01, 0, *gains, 0.0)


def kept(predictor: str, hours: float) -> KeptRuns:
    share = (10 - hours) / 8
    figures = (10 * HOUR_S, hours * HOUR_S, 2 * HOUR_S)
    return KeptRuns("qssf", predictor, "fifo", *figures, share, share - 0.05, share + 0.05)


def a_contest(*rows: Tried) -> Contest:
    usual = (
        tried("srtf:predictor=mixture", 3.0, "mixture", 500),
        tried("tiresias", 4.0, preemptions=400),
        tried("qssf:predictor=mixture", 5.0, "mixture"),
        tried("qssf:predictor=oracle", 2.0, "oracle"),
        tried("fifo", 10.0),
    )
    found = sorted(rows or usual, key=lambda row: row.mean_jct_s)
    both = (kept("mixture", 5.0), kept("history-mean", 4.0))
    return Contest(1000, True, 0.0, 0.9, "9 weeks", "mixture", tuple(found), both, ())


def important(group: str, mean: float, share: float) -> Importance:
    return Importance(group, mean, mean - 0.02, mean + 0.02, share, mean / 5, mean / 6, mean / 4)


def scored(model: str, level: str, order: float) -> Score:
    return Score(
        model, level, 6, 900, 1.1, 3.0, 0.6, order, order - 0.02, order + 0.02, (order,), 0.7
    )


def a_predictive() -> Predictive:
    ranked = (important("tenant", 0.4, 0.7), important("size", 0.1, 0.2), important("hour", 0.0, 0))
    levels = (("submit", 0.65), ("history", 0.7), ("profile", 0.75), ("run", 0.9))
    return Predictive(
        7 * 86_400.0,
        (scored("boosted", "history", 0.7), scored("group mean", "history", 0.6)),
        tuple(scored("boosted", level, order) for level, order in levels),
        ranked,
        (important("size", 0.1, 0.9), important("tenant", 0.01, 0.1)),
        (
            FeatureShape("gpus", "size", (1.0, 2.0, 8.0), (0.8, 1.0, 3.0), 3.75),
            FeatureShape("tenant", "tenant", ("a", "b"), (0.5, 2.0), 4.0),
        ),
        ("user as a predictor: the trace names no users",),
    )


def a_rolling() -> Rolling:
    order = {"history-mean": 0.6, "boosted": 0.68, "mixture": 0.7}
    weeks = tuple(
        Week(number, 100, order, dict.fromkeys(order, 0.7), {"mixture": 0.78}, {"mixture": 12.0})
        for number in range(8)
    )
    return Rolling(0.8, weeks[0], weeks[3:], (Gain("mixture", "boosted", 0.02, 0.01, 0.03),), ())


def a_decision() -> DecisionWorth:
    names = (("fifo", 10), ("las", 4), ("nothing known", 6), ("all known", 3.5), ("oracle", 2.5))
    outcomes = [MeanJct(name, h * HOUR_S, h * 3000, h * 4000) for name, h in names]
    worths = (Worth("size", 7200.0, 6000.0, 8000.0), Worth("tenant", 100.0, -50.0, 200.0))
    noise = [
        Noise(s, (2.5 + s) * HOUR_S, (2.2 + s) * HOUR_S, (2.8 + s) * HOUR_S) for s in (0, 1, 2)
    ]
    return DecisionWorth(
        *("srtf", "las", 1000, ("size", "tenant"), tuple(outcomes), worths, worths),
        *(tuple(noise), 1.5, (1.2, 1.9), (Shuffled("size", 1.3, 1.1, 1.5),), ()),
    )


def a_factors() -> Factors:
    names = [factor.name for factor in FACTORS]
    places = [(policy, name, i) for policy in POLICIES for i, name in enumerate(names)]
    orders = (("qssf", "srtf"), ("srtf", "qssf"), ("srtf", "qssf"))
    gains = ((-0.2, -0.3), (-0.6, -0.5), (-1.2, -0.9))
    flip = Flip("load", (0.3, 0.7, 1.1), orders, gains, -1.0, True, True)
    return Factors(
        *(POLICIES, FACTORS, 200, 5000),
        tuple(
            Screened(p, n, 1 / (i + 1), 0.8 / (i + 1), 1.3 / (i + 1), 0.1, 0.2)
            for p, n, i in places
        ),
        tuple(
            SobolIndex(p, n, 0.4 / (i + 1), 0.3 / (i + 1), 0.5 / (i + 1), 0.6 / (i + 1), 0.4, 0.7)
            for p, n, i in places
        ),
        (flip,),
        (),
        tuple(Leaders(m, p, (names[0],)) for m in (MORRIS, SOBOL) for p in (EVERYBODY, *POLICIES)),
    )


def a_question() -> Question:
    arrivals = generate(Recipe(jobs=300, gpus=16, daily_cycle=0.5))
    return Question(Trace(arrivals, "jobs.csv", began_at=1.7e9), nodes(2, 8))


def an_analysis(**other: Any) -> Analysis:
    """With everything measured, unless told otherwise."""
    question = a_question()
    results: dict[str, Any] = {
        "workload": workload(question.trace, question.nodes),
        "catalogue": catalogue(question.trace, question.nodes),
        "contest": a_contest(),
        "predictive": a_predictive(),
        "rolling": a_rolling(),
        "decision": a_decision(),
        "factors": a_factors(),
        **other,
    }
    return Analysis(
        *("jobs.csv", "dovetail", "2 nodes × 8 GPU = 16 GPUs", False, 0, (0.0, 30.0), ()),
        **results,
        verdict=verdict(question, Measurements(**results)),
        problems={name: "it was not to be" for name, value in results.items() if value is None},
        seconds={"contest": 3.0},
    )


def with_worth(own: DecisionWorth, *rows: Worth) -> DecisionWorth:
    return replace(own, shapley=rows, groups=tuple(row.group for row in rows))
