"""The measurements of an analysis, from which its conclusions are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.analysis.policy_contest import Contest
from dovetail.insight.factors import Factors
from dovetail.insight.feature_catalogue import FeatureCatalogue
from dovetail.insight.predictive import Predictive
from dovetail.insight.workload_figures import WorkloadFigures
from dovetail.insight.worth import DecisionWorth
from dovetail.predict.rolling import Rolling


@dataclass(frozen=True, slots=True)
class Measurements:
    """One field for each part of an analysis; None if it was not measured."""

    workload: WorkloadFigures | None
    catalogue: FeatureCatalogue | None
    contest: Contest | None
    predictive: Predictive | None
    rolling: Rolling | None
    decision: DecisionWorth | None
    factors: Factors | None
